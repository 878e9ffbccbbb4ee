// The page: what comes as events is shown as figures, map, curves, tables and words.

import { Curves, Past } from "./curves.js";
import { OverlayMap } from "./map.js";
import { Tables } from "./tables.js";
import { LIVES, bytes, clock, element, keep, linkName, mbit, milliseconds, percent, routeName, say, setAll } from "./words.js";

// How long to wait before another try when the program does not let us in, in milliseconds.
const RETRY_MS = 3000;

const place = (id) => document.getElementById(id);

class Page {
  constructor() {
    this.past = new Past();
    this.picture = null;
    this.chosen = "all";
    this.announced = null;
    this.isPaused = false;
    this.source = null;
    const choose = (key) => this.choose(key);
    this.map = new OverlayMap(place("map"), choose);
    this.curves = new Curves(place("curves"));
    this.tables = new Tables(
      { links: place("link-table"), paths: place("path-table"), members: place("member-table") }, choose);
    place("subject").addEventListener("change", (event) => this.choose(event.target.value, true));
    place("pause").addEventListener("click", () => this.pause(!this.isPaused));
    // A page that nobody sees costs nothing; what it missed comes when it is seen again.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.disconnect() : this.connect()));
    this.connect();
  }

  connect() {
    if (this.source || this.isPaused || this.hasEnded() || document.hidden) return;
    this.source = new EventSource("events");
    this.source.addEventListener("history", (event) => this.past.replace(JSON.parse(event.data)));
    this.source.addEventListener("look", (event) => this.look(JSON.parse(event.data)));
    this.source.addEventListener("error", () => this.lose());
  }

  disconnect() {
    this.source?.close();
    this.source = null;
  }

  // The program is gone, or has no room. A browser tries again by itself only when the connection broke.
  lose() {
    if (this.hasEnded()) return;
    this.tellState("silent", "no connection to the program that shows this page");
    if (this.source?.readyState === EventSource.CLOSED) {
      this.disconnect();
      setTimeout(() => this.connect(), RETRY_MS);
    }
  }

  hasEnded() {
    return this.picture?.state.kind === "ended";
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    const button = place("pause");
    setAll(button, { "aria-pressed": String(isPaused) });
    if (isPaused) {
      this.disconnect();
      this.tellState("silent", "paused");
    } else {
      this.connect();
    }
  }

  look(picture) {
    this.picture = picture;
    this.past.add(picture);
    if (this.hasEnded()) this.disconnect();
    this.announce(picture.happenings);
    this.show();
  }

  choose(key, isFirm = false) {
    // The same once more gives it up.
    this.chosen = this.chosen === key && !isFirm ? "all" : key;
    if (this.picture) this.show();
  }

  show() {
    const { picture } = this;
    const things = subjects(picture);
    if (!things.some((thing) => thing.key === this.chosen)) this.chosen = "all";
    const deadLinks = picture.links.filter((link) => link.life === "dead");
    say(place("title"), picture.subject.title);
    say(place("words"), picture.subject.words);
    document.title = `${deadLinks.length > 0 ? `${LIVES.dead.sign} ` : ""}${picture.subject.title} – sfio`;
    this.showState(picture.state);
    showFigures(picture, deadLinks);
    showWork(picture.work);
    showHappenings(picture.happenings);
    say(place("left-out"), picture.left_out.length > 0 ? `Not shown: ${picture.left_out.join(", ")}.` : "");
    this.showChoice(things);
    this.map.show(picture, this.chosen);
    this.tables.show(picture, this.chosen);
    const chosen = things.find((thing) => thing.key === this.chosen);
    this.curves.show(this.past.of(this.chosen), chosen.directions, picture);
  }

  showState(state) {
    const words = { live: "live", silent: `no answer: ${state.words}`, ended: state.words };
    this.tellState(state.kind, words[state.kind]);
    place("pause").hidden = state.kind === "ended";
  }

  tellState(kind, words) {
    setAll(place("state"), { "data-kind": kind });
    say(place("state"), words);
  }

  showChoice(things) {
    const select = place("subject");
    keep(select, things, (thing) => thing.key, (thing) => element("option", { value: thing.key }),
      (option, thing) => say(option, thing.name));
    if (select.value !== this.chosen) select.value = this.chosen;
  }

  // Says what has happened since the last picture, for those who do not see it.
  announce(happenings) {
    const latest = happenings.length > 0 ? happenings[happenings.length - 1].number : 0;
    if (this.announced !== null && latest > this.announced) {
      const fresh = happenings.filter((happening) => happening.number > this.announced);
      say(place("announcement"), fresh.map((happening) => happening.words).join("; "));
    }
    this.announced = latest;
  }
}

// What has curves, and what its directions are called.
function subjects(picture) {
  const all = { key: "all", name: "all sessions together", directions: ["out", "in"] };
  const links = picture.links.map((link) => ({
    key: link.key,
    name: `link ${linkName(link)}`,
    directions: [`to ${link.b}`, `to ${link.a}`],
  }));
  const paths = picture.sessions.flatMap((session) => session.paths).map((path) => ({
    key: path.key,
    name: `path ${routeName(path)}`,
    directions: ["out", "in"],
  }));
  return [all, ...links, ...paths];
}

function showFigures(picture, deadLinks) {
  const paths = picture.sessions.flatMap((session) => session.paths);
  const livePaths = paths.filter((path) => path.life === "live").length;
  const isBad = deadLinks.length > 0;
  const figures = [
    { key: "Data out", value: mbit(picture.out_mbit) },
    { key: "Data in", value: mbit(picture.in_mbit) },
    { key: "Dead links", value: isBad ? `${LIVES.dead.sign} ${deadLinks.length}` : "none", isBad },
    { key: "Paths live", value: `${livePaths} of ${paths.length}` },
    { key: "Loss", value: percent(picture.loss) },
    { key: "Longest queue", value: milliseconds(picture.queue_ms) },
  ];
  keep(place("figures"), figures, (figure) => figure.key,
    (figure) => element("div", {}, element("dt", {}, figure.key), element("dd")),
    (box, figure) => {
      setAll(box, { class: figure.isBad ? "bad" : null });
      say(box.children[1], figure.value);
    });
}

function showWork(work) {
  const entries = work.map((entry, index) => ({ ...entry, key: String(index) }));
  if (entries.length === 0) entries.push({ key: "none", words: "Nothing runs at the moment.", total_bytes: null });
  keep(place("work"), entries, (entry) => entry.key, makeWork, updateWork);
}

function makeWork() {
  return element("li", {}, element("span", { class: "verb" }), element("span", { class: "amount" }), element("progress"));
}

function updateWork(item, entry) {
  const [verb, amount, bar] = item.children;
  const total = entry.total_bytes;
  say(verb, entry.words);
  bar.hidden = total === null;
  if (total === null) {
    say(amount, "");
    return;
  }
  const share = total > 0 ? entry.done_bytes / total : 1;
  say(amount, `${bytes(entry.done_bytes)} of ${bytes(total)}, ${Math.floor(share * 100)} %${entry.is_done ? ", done" : ""}`);
  setAll(bar, { max: 1, value: share.toFixed(3), "aria-label": entry.words });
}

const SIGNS = { death: LIVES.dead.sign, return: LIVES.live.sign, note: "·" };

function showHappenings(happenings) {
  const latestFirst = [...happenings].reverse();
  keep(place("happenings"), latestFirst, (happening) => String(happening.number), makeHappening, () => {});
  place("happenings").hidden = happenings.length === 0;
}

function makeHappening(happening) {
  return element("li", { class: happening.kind },
    element("time", {}, clock(happening.clock_ms)),
    element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[happening.kind]),
    element("span", {}, happening.words));
}

new Page();
