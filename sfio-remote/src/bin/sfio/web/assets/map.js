// The overlay as a map: members where the program has placed them, links with what they carry.

import { LIVES, keep, linkName, percent, say, setAll, shape, short } from "./words.js";

// Below this width, in units of the font, the map runs from top to bottom.
const NARROW_EM = 34;
// Between parallel links in the middle, in units of the font.
const FAN_EM = 2.8;
// Between the labels of parallel links along them, as a share of their length; on a narrow map they lie side by side.
const STAGGER = { wide: 0.09, narrow: 0.17 };
// Rates below this are those of reports, not of data.
const LEAST_FLOW_MBIT = 0.05;

export class OverlayMap {
  constructor(place, choose) {
    this.place = place;
    this.choose = choose;
    this.links = shape("g");
    this.labels = shape("g");
    this.members = shape("g");
    this.svg = shape("svg", { role: "img" }, this.links, this.labels, this.members);
    place.append(this.svg);
    this.picture = null;
    this.chosen = "all";
    new ResizeObserver(() => this.draw()).observe(place);
  }

  show(picture, chosen) {
    this.picture = picture;
    this.chosen = chosen;
    this.draw();
  }

  draw() {
    if (!this.picture || this.place.clientWidth === 0) return;
    const { members, links } = this.picture;
    this.measure(members);
    setAll(this.svg, { width: this.width, height: this.height, viewBox: `0 0 ${this.width} ${this.height}` });
    setAll(this.svg, { "aria-label": summary(members, links) });
    const places = new Map(members.map((member) => [member.name, this.placeOf(member)]));
    const known = links.filter((link) => places.has(link.a) && places.has(link.b));
    const widest = Math.max(1, ...known.map((link) => Math.max(link.capacity_mbit ?? 0, link.out_mbit, link.in_mbit)));
    const fan = fanOf(known);
    const drawn = known.map((link) => this.lineOf(link, places.get(link.a), places.get(link.b), widest, fan.get(link)));
    const key = (line) => line.link.key;
    keep(this.links, drawn, key, () => this.makeLink(), (group, line) => this.updateLink(group, line));
    keep(this.labels, drawn, key, () => makeLabel(), (group, line) => this.updateLabel(group, line));
    keep(this.members, members, (member) => member.name, makeMember, (group, member) =>
      this.updateMember(group, member, places.get(member.name)));
  }

  // How large everything is, from the width of the page and the size of its font.
  measure(members) {
    this.em = parseFloat(getComputedStyle(this.place).fontSize);
    this.width = this.place.clientWidth;
    this.isNarrow = this.width < NARROW_EM * this.em;
    const perColumn = new Map();
    for (const member of members) perColumn.set(member.x, (perColumn.get(member.x) ?? 0) + 1);
    const rows = Math.max(1, ...perColumn.values());
    this.rows = rows;
    this.height = this.em * (this.isNarrow ? 6 + 9 * (perColumn.size - 1) : Math.max(18, 5.6 * rows));
    this.reach = 1.15 * this.em;
  }

  // From the unit square to the map.
  placeOf(member) {
    const edge = 3.4 * this.em;
    const along = this.isNarrow ? this.height : this.width;
    const main = edge * 0.7 + member.x * (along - 1.7 * edge);
    const across = member.y * (this.isNarrow ? this.width : this.height - this.em);
    return this.isNarrow
      ? { x: across, y: main, column: member.x, rank: member.y }
      : { x: edge + member.x * (this.width - 2 * edge), y: across, column: member.x, rank: member.y };
  }

  // The curve of a link, with its widths and the place of its label. Parallel links lie `aside` of the straight line.
  lineOf(link, a, b, widest, aside) {
    const [from, to] = a.column < b.column || (a.column === b.column && a.rank <= b.rank) ? [a, b] : [b, a];
    const bow = from.column === to.column ? this.bow(from, to) : { x: 0, y: 0 };
    const sag = this.sag(from, to, aside);
    const middle = { x: (from.x + to.x) / 2 + bow.x + sag.x, y: (from.y + to.y) / 2 + bow.y + sag.y };
    const wide = (rate) => this.em * (0.12 + 0.62 * Math.sqrt(rate / widest));
    const level = from.column === to.column ? 0.5 : this.isNarrow ? 0.25 + 0.5 * to.rank : 0.2 + 0.55 * to.rank;
    const t = Math.min(0.85, Math.max(0.15, level + aside * (this.isNarrow ? STAGGER.narrow : STAGGER.wide)));
    const flow = Math.max(link.out_mbit, link.in_mbit);
    const runsBack = (link.in_mbit > link.out_mbit) !== (from === b);
    const ends = runsBack ? [to, from] : [from, to];
    return {
      link,
      pipe: wide(link.capacity_mbit ?? 0),
      fill: flow >= LEAST_FLOW_MBIT && link.life !== "dead" ? wide(flow) : 0,
      d: `M ${point(ends[0])} Q ${point(middle)} ${point(ends[1])}`,
      label: between(from, middle, to, t),
      arrow: between(ends[0], middle, ends[1], runsBack ? 1 - t : t),
      flow,
    };
  }

  // A link within a column would run through the members between its ends.
  bow(from, to) {
    const apart = Math.abs(to.rank - from.rank) * this.rows;
    const size = this.em * (1.2 + 1.6 * apart);
    return this.isNarrow ? { x: 0, y: size } : { x: size, y: 0 };
  }

  // How far the bend of a curve lies beside the straight line: twice as far as the curve.
  sag(from, to, aside) {
    const [dx, dy] = [to.x - from.x, to.y - from.y];
    const size = (2 * aside * FAN_EM * this.em) / Math.max(1, Math.hypot(dx, dy));
    return { x: -dy * size, y: dx * size };
  }

  makeLink() {
    const group = shape("g", {},
      shape("title"),
      shape("path", { class: "pipe" }),
      shape("path", { class: "fill" }),
      shape("path", { class: "motion" }),
      shape("path", { class: "hit" }));
    group.addEventListener("click", () => this.choose(group.dataset.key));
    return group;
  }

  updateLink(group, line) {
    const [title, pipe, fill, motion, hit] = group.children;
    const isChosen = this.chosen === line.link.key;
    setAll(group, { class: `link ${line.link.life}${isChosen ? " chosen" : ""}` });
    say(title, describe(line.link));
    for (const path of [pipe, fill, motion, hit]) setAll(path, { d: line.d });
    setAll(pipe, { "stroke-width": line.pipe.toFixed(1) });
    setAll(fill, { "stroke-width": line.fill.toFixed(1) });
    setAll(motion, { "stroke-width": Math.min(line.fill, 0.16 * this.em).toFixed(1) });
    setAll(hit, { "stroke-width": (1.4 * this.em).toFixed(1) });
  }

  updateLabel(group, line) {
    const [text] = group.children;
    const { link } = line;
    setAll(group, { class: `label ${link.life}${this.chosen === link.key ? " chosen" : ""}` });
    setAll(text, { x: line.label.x.toFixed(1), y: (line.label.y + 0.3 * this.em).toFixed(1) });
    say(text, this.words(line));
  }

  // What stands beside a link: its name if others run beside it, and on a narrow map only what matters.
  words({ link, flow, arrow }) {
    const name = link.name ? [link.name] : [];
    if (link.life === "dead") return [...name, `${LIVES.dead.sign} dead`].join(" ");
    if (flow < LEAST_FLOW_MBIT) return name.join();
    const rate = [...name, direction(arrow), flow >= 10 ? Math.round(flow) : flow.toFixed(1)].join(" ");
    const hasRoom = this.width >= 52 * this.em;
    return hasRoom && link.loss !== null ? `${rate} · ${percent(link.loss)}` : rate;
  }

  updateMember(group, member, place) {
    const [figure, name, role] = group.children;
    const isSelf = member.name === this.picture.subject.member;
    setAll(group, { class: `member${isSelf ? " self" : ""}${member.connected === false ? " away" : ""}` });
    setAll(figure, { d: figureOf(member.roles, place, this.reach) });
    setAll(name, { x: place.x.toFixed(1), y: (place.y + this.reach + 1.05 * this.em).toFixed(1) });
    setAll(role, { x: place.x.toFixed(1), y: (place.y + this.reach + 1.95 * this.em).toFixed(1) });
    say(name, member.name);
    say(role, member.roles.join(", "));
  }
}

// How far each link lies beside the straight line, in steps: those between the same two members fan out around it.
function fanOf(links) {
  const parallel = new Map();
  for (const link of links) {
    const ends = [link.a, link.b].sort().join("\n");
    parallel.set(ends, [...(parallel.get(ends) ?? []), link]);
  }
  const places = new Map();
  for (const all of parallel.values()) {
    all.forEach((link, place) => places.set(link, place - (all.length - 1) / 2));
  }
  return places;
}

function makeLabel() {
  return shape("g", {}, shape("text", { "text-anchor": "middle" }));
}

function makeMember() {
  return shape("g", {}, shape("path"), shape("text", { class: "name" }), shape("text", { class: "role" }));
}

// A circle for a client, a diamond for a relay, a square for an I/O node, a triangle for what is none of them.
function figureOf(roles, { x, y }, size) {
  if (roles.includes("I/O node")) {
    const s = size * 0.88;
    return `M ${x - s} ${y - s} h ${2 * s} v ${2 * s} h ${-2 * s} Z`;
  }
  if (roles.includes("relay")) {
    const s = size * 1.12;
    return `M ${x} ${y - s} L ${x + s} ${y} L ${x} ${y + s} L ${x - s} ${y} Z`;
  }
  if (roles.includes("client")) {
    return `M ${x - size} ${y} a ${size} ${size} 0 1 1 ${2 * size} 0 a ${size} ${size} 0 1 1 ${-2 * size} 0 Z`;
  }
  return `M ${x} ${y - size} L ${x + size} ${y + size} L ${x - size} ${y + size} Z`;
}

function point({ x, y }) {
  return `${x.toFixed(1)} ${y.toFixed(1)}`;
}

// A point of a quadratic curve, and the direction there.
function between(from, middle, to, t) {
  const mix = (a, b, c) => (1 - t) * (1 - t) * a + 2 * t * (1 - t) * b + t * t * c;
  return {
    x: mix(from.x, middle.x, to.x),
    y: mix(from.y, middle.y, to.y),
    dx: to.x - from.x,
    dy: to.y - from.y,
  };
}

function direction({ dx, dy }) {
  const signs = ["→", "↘", "↓", "↙", "←", "↖", "↑", "↗"];
  return signs[(Math.round(Math.atan2(dy, dx) / (Math.PI / 4)) + 8) % 8];
}

// All of a link in one line.
export function describe(link) {
  const limit = link.is_measured ? "" : "at most ";
  const parts = [
    `${linkName(link)}: ${LIVES[link.life].word}`,
    `${short(link.out_mbit)} Mbit/s to ${link.b}, ${short(link.in_mbit)} to ${link.a}`,
    link.loss === null ? null : `loss ${limit}${percent(link.loss)}`,
    link.deaths > 0 ? `deaths ${link.deaths}` : null,
  ];
  return parts.filter((part) => part !== null).join("; ");
}

function summary(members, links) {
  const dead = links.filter((link) => link.life === "dead").map(linkName);
  const state = dead.length === 0 ? "no link is dead" : `dead: ${dead.join(", ")}`;
  return `Map of ${members.length} members and ${links.length} links; ${state}. The tables below say all that it shows.`;
}
