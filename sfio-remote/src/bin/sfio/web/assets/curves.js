// The last minutes of one thing: what it carried, lost, and kept waiting.

import { LIVES, clock, element, say, setAll, shape, short } from "./words.js";

// The times that the curves show, in seconds: at least, so that little is not spread out, and at most.
const LEAST_SPAN_S = 60;
const SPAN_S = 300;
// Points that are kept of each thing.
const MAX_POINTS = 1300;
// A time without points that is a gap and not a line.
const GAP_S = 5;

const CHARTS = [
  { name: "Data", unit: "Mbit/s", least: 1, lines: ["out_mbit", "in_mbit"], words: short },
  { name: "Loss", unit: "%", least: 1, scale: 100, lines: ["loss"], words: short },
  { name: "Time in queues", unit: "ms", least: 10, lines: ["queue_ms"], words: short },
];
const COLUMNS = ["out_mbit", "in_mbit", "loss", "queue_ms"];

// What is remembered of every link and path.
export class Past {
  constructor() {
    this.curves = new Map();
  }

  // The past as the program remembers it, in place of what was known here.
  replace(history) {
    this.curves.clear();
    for (const [key, columns] of Object.entries(history)) {
      const points = columns.at_s.map((at_s, index) => pointOf(at_s, (name) => columns[name][index]));
      this.curves.set(key, points);
    }
  }

  add(picture) {
    this.addOne("all", picture.at_s, picture);
    for (const link of picture.links) this.addOne(link.key, picture.at_s, link);
    for (const session of picture.sessions) {
      for (const path of session.paths) this.addOne(path.key, picture.at_s, path);
    }
    for (const [key, points] of this.curves) {
      if (points[points.length - 1].at_s < picture.at_s - SPAN_S) this.curves.delete(key);
    }
  }

  addOne(key, at_s, flow) {
    const points = this.curves.get(key) ?? [];
    this.curves.set(key, points);
    // The history ends with the picture that is also the first one to be shown.
    if (points.length > 0 && points[points.length - 1].at_s >= at_s) return;
    points.push(pointOf(at_s, (name) => flow[name]));
    if (points.length > MAX_POINTS) points.shift();
  }

  of(key) {
    return this.curves.get(key) ?? [];
  }
}

function pointOf(at_s, value) {
  const point = { at_s };
  for (const name of COLUMNS) point[name] = value(name);
  return point;
}

export class Curves {
  constructor(place) {
    this.place = place;
    this.charts = CHARTS.map((chart) => new Chart(place, chart));
    this.shown = null;
    new ResizeObserver(() => this.draw()).observe(place);
  }

  // `names` says what out and in are.
  show(points, names, picture) {
    this.shown = { points, names, picture };
    this.draw();
  }

  draw() {
    if (!this.shown || this.place.clientWidth === 0) return;
    const { points, names, picture } = this.shown;
    const end = picture.at_s;
    const first = points.length > 0 ? points[0].at_s : end;
    const start = Math.max(end - SPAN_S, Math.min(first, end - LEAST_SPAN_S));
    const seen = points.filter((point) => point.at_s >= start);
    const span = { start, end, clock_ms: picture.clock_ms };
    for (const chart of this.charts) chart.draw(seen, names, span, picture.happenings);
  }
}

class Chart {
  constructor(place, chart) {
    this.chart = chart;
    this.caption = element("figcaption");
    this.grid = shape("g", { class: "grid" });
    this.marks = shape("g", { class: "marks" });
    this.lines = chart.lines.map((_, index) => shape("path", { class: `line line-${index}` }));
    this.svg = shape("svg", { role: "img" }, this.grid, this.marks, ...this.lines);
    this.figure = element("figure", {}, this.caption, this.svg);
    place.append(this.figure);
  }

  draw(points, names, span, happenings) {
    const em = parseFloat(getComputedStyle(this.figure).fontSize);
    const box = { width: this.figure.clientWidth, height: 7.5 * em, left: 2.9 * em, right: 0.6 * em, top: 0.9 * em, bottom: 1.5 * em };
    const top = this.top(points);
    const x = (at_s) => box.left + ((at_s - span.start) / (span.end - span.start)) * (box.width - box.left - box.right);
    const y = (value) => box.height - box.bottom - (value / top) * (box.height - box.top - box.bottom);
    setAll(this.svg, { width: box.width, height: box.height, viewBox: `0 0 ${box.width} ${box.height}` });
    this.drawGrid(box, top, x, y, span);
    this.drawMarks(box, x, span, happenings);
    this.lines.forEach((line, index) => setAll(line, { d: this.path(points, this.chart.lines[index], x, y) }));
    this.tell(points, names);
  }

  value(point, name) {
    const value = point[name];
    return value === null || value === undefined ? null : value * (this.chart.scale ?? 1);
  }

  // A round number that nothing exceeds.
  top(points) {
    const values = points.flatMap((point) => this.chart.lines.map((name) => this.value(point, name) ?? 0));
    const most = Math.max(this.chart.least, ...values);
    const power = 10 ** Math.floor(Math.log10(most));
    const step = [1, 2, 5, 10].find((step) => step * power >= most * 0.999);
    return step * power;
  }

  path(points, name, x, y) {
    let d = "";
    let before = null;
    for (const point of points) {
      const value = this.value(point, name);
      if (value === null) {
        before = null;
        continue;
      }
      const joins = before !== null && point.at_s - before <= GAP_S;
      d += `${joins ? "L" : "M"}${x(point.at_s).toFixed(1)} ${y(value).toFixed(1)}`;
      before = point.at_s;
    }
    return d;
  }

  drawGrid(box, top, x, y, span) {
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const height = y(share * top);
      parts.push(shape("line", { x1: box.left, x2: box.width - box.right, y1: height, y2: height }));
      parts.push(text(box.left - 5, height + 4, "end", short(share * top)));
    }
    const middle = (span.start + span.end) / 2;
    for (const [at_s, anchor] of [[span.start, "start"], [middle, "middle"], [span.end, "end"]]) {
      const words = at_s === span.end ? "now" : clock(span.clock_ms - (span.end - at_s) * 1000);
      parts.push(text(x(at_s), box.height - 4, anchor, words));
    }
    this.grid.replaceChildren(...parts);
  }

  // Deaths and returns stand as signs above the lines at their times.
  drawMarks(box, x, span, happenings) {
    const parts = [];
    for (const happening of happenings) {
      if (happening.at_s < span.start || happening.kind === "note") continue;
      const at = x(happening.at_s);
      const kind = happening.kind;
      parts.push(shape("line", { class: kind, x1: at, x2: at, y1: box.top, y2: box.height - box.bottom }));
      const sign = text(at, box.top - 3, "middle", kind === "death" ? LIVES.dead.sign : LIVES.live.sign);
      setAll(sign, { class: kind });
      parts.push(sign);
    }
    this.marks.replaceChildren(...parts);
  }

  // The latest values, as words and for those who do not see the curves.
  tell(points, names) {
    const latest = points[points.length - 1];
    const { name, unit, lines, words } = this.chart;
    const values = lines.map((line, index) => {
      const label = lines.length > 1 ? `${names[index]} ` : "";
      return `${label}${latest ? words(this.value(latest, line)) : "–"}`;
    });
    const most = Math.max(0, ...points.flatMap((point) => lines.map((line) => this.value(point, line) ?? 0)));
    this.writeCaption(name, unit, values);
    setAll(this.svg, { "aria-label": `${name} in ${unit}: now ${values.join(", ")}; at most ${short(most)}` });
  }

  writeCaption(name, unit, values) {
    const wanted = [`${name}, ${unit}`, ...values];
    while (this.caption.children.length < wanted.length) {
      const index = this.caption.children.length;
      const key = index > 0 ? `value value-${index - 1}` : "what";
      this.caption.append(element("span", { class: key }));
    }
    wanted.forEach((words, index) => say(this.caption.children[index], words));
  }
}

function text(x, y, anchor, words) {
  return shape("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor }, words);
}
