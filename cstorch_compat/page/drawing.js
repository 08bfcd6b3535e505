"use strict";
// What all sections use: elements, numbers, the state of the page, and its tip. Text is only ever set as text.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SWEEPS = ["forward", "backward", "update"];
const state = { step: 0, mode: "", colour: "utilisation", flows: false, links: false, whole: false, layer: -1, zoom: 1, sort: "" };
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const step = () => DATA.steps[state.step];
const mode = () => step().modes[state.mode];
const whole = (n) => Math.round(n).toLocaleString("en-US");
function short(n) {
  for (const [size, letter] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (Math.abs(n) >= size) return (n / (letter === "k" ? 1e3 : size)).toPrecision(3).replace(/\.?0+$/, "") + letter;
  return n !== 0 && Math.abs(n) < 10 ? String(Number(n.toPrecision(3))) : whole(n);
}
const rate = (n) => (n >= 1000 ? whole(n) : String(Number(n.toPrecision(4))));
const percent = (x) => (100 * x).toFixed(x < 0.1 ? 2 : 1) + " %";
function seconds(s) {
  for (const [size, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]])
    if (s >= size) return Number((s / size).toPrecision(4)).toLocaleString("en-US") + " " + unit;
  return Number((s * 1e9).toPrecision(3)) + " ns";
}
const time = (cycles) => whole(cycles) + " cycles = " + seconds(cycles / step().machine.clock_hz);
const place = (rect) => (rect ? `${rect[2]} x ${rect[3]} PEs at (${rect[0]}, ${rect[1]})` : "on the weight host");
const file = (where) => where.replace(/^.*[\\/]/, "");

// Hovering, focus and a tap show the same words.
const tip = document.getElementById("tip");
function tell(words, x, y) {
  tip.textContent = words;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + "px";
}
function hush() {
  tip.hidden = true;
}
function told(words, choose) {
  const at = (e) => {
    const box = e.target.getBoundingClientRect();
    tell(words(), e.clientX || box.left, e.clientY || box.bottom);
  };
  const press = (e) => {
    if (choose && (e.key === "Enter" || e.key === " ")) {
      e.preventDefault();
      choose();
    }
  };
  const more = choose ? { onclick: choose, onkeydown: press, tabindex: 0, role: "button" } : { role: "img" };
  return { onpointermove: at, onpointerleave: hush, onfocus: at, onblur: hush, "aria-label": words().replaceAll("\n", ", "), ...more };
}

function rowWords(row) {
  const lines = [row.label];
  if (row.where) lines.push(file(row.where));
  lines.push(place(row.rect));
  lines.push(whole(row.cycles) + " cycles (" + SWEEPS.map((s) => `${s} ${short(row[s + "_cycles"])}`).join(", ") + ")");
  lines.push(`${percent(row.utilisation)} of peak, ${whole(row.bytes_per_pe)} bytes a PE`);
  return lines.join("\n");
}

function excerpt(where) {
  const cut = where.lastIndexOf(":"), number = Number(where.slice(cut + 1));
  const lines = DATA.sources[where.slice(0, cut)];
  if (!lines || !(number in lines)) return el("p", { class: "note" }, where ? `${where} (its text is not at hand)` : "");
  const shown = Object.keys(lines).map(Number).filter((n) => Math.abs(n - number) <= 4);
  return el(
    "figure",
    { style: "margin:8px 0 0" },
    el("figcaption", { class: "soft" }, where),
    el("pre", { class: "source", tabindex: 0, "aria-label": `Lines around ${where}` },
      shown.map((n) => {
        const line = [el("span", { class: "number" }, String(n).padStart(4) + "  "), lines[n] || " "];
        return n === number ? el("mark", null, line) : [...line, "\n"];
      })),
  );
}

const pressed = (label, on, act) => el("button", { type: "button", "aria-pressed": String(on), onclick: act }, label);
const key = (colour, label) => el("span", { class: "key" }, el("i", { style: `background:${colour}` }), label);
const mixed = (share) => `color-mix(in oklab, var(--hot) ${Math.round(100 * Math.max(0, Math.min(1, share)))}%, var(--cold))`;
