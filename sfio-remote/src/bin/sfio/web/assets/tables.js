// All facts of the page as tables, also for those who do not see the map.

import { LIVES, element, keep, linkName, milliseconds, percent, routeName, say, setAll, short } from "./words.js";

// A table whose rows are keyed things. On a narrow page each row becomes a card; the roles tell that it is a table
// all the same.
class Table {
  constructor(place, caption, columns, choose) {
    this.columns = columns;
    this.choose = choose;
    const heads = columns.map((column) =>
      element("th", { scope: "col", role: "columnheader", class: column.isNumber ? "number" : null }, column.head));
    this.body = element("tbody", { role: "rowgroup" });
    this.empty = element("p", { class: "empty", hidden: "" });
    this.table = element("table", { role: "table" },
      element("caption", { class: "unseen" }, caption),
      element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...heads)),
      this.body);
    place.append(this.table, this.empty);
  }

  show(rows, chosen, emptyWords) {
    this.table.hidden = rows.length === 0;
    this.empty.hidden = rows.length > 0;
    say(this.empty, emptyWords);
    keep(this.body, rows, (row) => row.key, (row) => this.makeRow(row), (line, row) => this.updateRow(line, row, chosen));
  }

  makeRow(row) {
    const cells = this.columns.map((column, index) => {
      const attributes = { "data-head": column.head, class: column.isNumber ? "number" : null };
      if (index > 0) return element("td", { role: "cell", ...attributes });
      const head = element("th", { scope: "row", role: "rowheader", ...attributes });
      if (this.choose) head.append(this.makeButton(row.key));
      return head;
    });
    return element("tr", { role: "row" }, ...cells);
  }

  makeButton(key) {
    const button = element("button", { type: "button" });
    button.addEventListener("click", () => this.choose(key));
    return button;
  }

  updateRow(line, row, chosen) {
    setAll(line, { class: `${row.life ?? ""}${row.key === chosen ? " chosen" : ""}` });
    this.columns.forEach((column, index) => {
      const cell = line.children[index];
      const button = cell.querySelector("button");
      say(button ?? cell, column.value(row));
      if (button) setAll(button, { "aria-pressed": String(row.key === chosen) });
    });
  }
}

function life(row) {
  return `${LIVES[row.life].sign} ${LIVES[row.life].word}`;
}

function pathLife(row) {
  return row.life === "unknown" ? "○ not confirmed" : row.life === "live" ? "● live" : life(row);
}

const number = (head, value) => ({ head, value, isNumber: true });

const LINK_COLUMNS = [
  { head: "Link", value: linkName },
  { head: "State", value: life },
  number("Forth, Mbit/s", (link) => short(link.out_mbit)),
  number("Back, Mbit/s", (link) => short(link.in_mbit)),
  number("Capacity, Mbit/s", (link) => short(link.capacity_mbit)),
  number("Loss", (link) => `${limit(link, link.loss)}${percent(link.loss)}`),
  number("Queue", (link) => `${atMost(link.queue_ms)}${milliseconds(link.queue_ms)}`),
  number("Paths live", (link) => `${link.live_paths} of ${link.paths}`),
  number("Deaths", (link) => String(link.deaths)),
];

// What is known from paths only is an upper limit.
function limit(link, value) {
  return link.is_measured ? "" : atMost(value);
}

function atMost(value) {
  return value === null || value === 0 ? "" : "≤ ";
}

const PATH_COLUMNS = [
  { head: "Path", value: routeName },
  { head: "State", value: pathLife },
  number("Out, Mbit/s", (path) => short(path.out_mbit)),
  number("In, Mbit/s", (path) => short(path.in_mbit)),
  number("Paced, Mbit/s", (path) => short(path.paced_mbit)),
  number("Round trip", (path) => milliseconds(path.round_trip_ms)),
  number("Queue", (path) => milliseconds(path.queue_ms)),
  number("Loss", (path) => percent(path.loss)),
  number("Share / plan", (path) => `${percent(path.share)} / ${percent(path.planned_share)}`),
  number("Repair", (path) => percent(path.redundancy)),
  number("Deaths", (path) => String(path.deaths)),
];

const MEMBER_COLUMNS = [
  { head: "Member", value: (member) => member.name },
  { head: "Role", value: (member) => member.roles.join(", ") || "member" },
  { head: "Control connection", value: (member) => CONNECTIONS.get(member.connected) },
];

const CONNECTIONS = new Map([[true, "● up"], [false, "✕ down"], [null, "none from here"]]);

export class Tables {
  constructor(places, choose) {
    this.links = new Table(places.links, "Links of the overlay", LINK_COLUMNS, choose);
    this.paths = new Table(places.paths, "Paths of the member's sessions", PATH_COLUMNS, choose);
    this.members = new Table(places.members, "Members of the overlay", MEMBER_COLUMNS, null);
  }

  show(picture, chosen) {
    const paths = picture.sessions.flatMap((session) => session.paths);
    this.links.show(picture.links, chosen, "The overlay has no links.");
    this.paths.show(paths, chosen, "No session is open, so there are no paths.");
    const members = picture.members.map((member) => ({ key: member.name, ...member }));
    this.members.show(members, null, "The overlay has no members.");
  }
}
