// How things are said, and how elements are made.

const SVG = "http://www.w3.org/2000/svg";

// What a life looks like without colour, and what it is called.
export const LIVES = {
  live: { sign: "●", word: "up" },
  dead: { sign: "✕", word: "dead" },
  unknown: { sign: "○", word: "not in use" },
};

// A number with three digits or so: 0, 0.12, 1.23, 12.3, 123.
export function short(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const text = value.toFixed(digits);
  return Number(text) === 0 ? "0" : text;
}

export function mbit(value) {
  return `${short(value)} Mbit/s`;
}

export function percent(share) {
  return share === null || share === undefined ? "–" : `${short(share * 100)} %`;
}

export function milliseconds(value) {
  return value === null || value === undefined ? "–" : `${short(value)} ms`;
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = count;
  let unit = 0;
  while (size >= 1024 && unit + 1 < units.length) {
    size /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${size} B` : `${size.toFixed(1)} ${units[unit]}`;
}

export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function linkName(link) {
  const ends = `${link.a} – ${link.b}`;
  return link.name ? `${ends} (${link.name})` : ends;
}

export function routeName(path) {
  const step = (member, place) => {
    const name = place > 0 && path.links[place - 1];
    return place === 0 ? member : name ? ` –(${name})– ${member}` : ` – ${member}`;
  };
  return path.route.map(step).join("");
}

// An element of HTML with attributes and children, which are elements or texts.
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

// The same of SVG.
export function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  setAll(made, attributes);
  made.append(...children);
  return made;
}

// Sets attributes that differ; null takes one away.
export function setAll(made, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) {
      made.removeAttribute(name);
    } else if (made.getAttribute(name) !== String(value)) {
      made.setAttribute(name, value);
    }
  }
}

// Says a text where another one stood. What has not changed is not touched, so that nobody is told of it again.
export function say(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// Makes the children of a place those of a list of keyed things: `make` for new ones, `update` for all.
export function keep(place, things, keyOf, make, update) {
  const known = new Map([...place.children].map((child) => [child.dataset.key, child]));
  let before = null;
  for (const thing of things) {
    const key = keyOf(thing);
    let child = known.get(key);
    if (!child) {
      child = make(thing);
      child.dataset.key = key;
    }
    known.delete(key);
    update(child, thing);
    const next = before ? before.nextElementSibling : place.firstElementChild;
    if (next !== child) place.insertBefore(child, next);
    before = child;
  }
  for (const gone of known.values()) gone.remove();
}
