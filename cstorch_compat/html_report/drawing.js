// What all sections use: elements, the state of the page, and its tip. Text is only ever set as text.

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
const time = (cycles) => whole(cycles) + " cycles = " + quantity(cycles / step().machine.clock_hz, "s");
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
  if (row.where) lines.push(file(row.where), ...findingWords(row.where));
  lines.push(place(row.rect));
  lines.push(whole(row.cycles) + " cycles (" + SWEEPS.map((s) => `${s} ${short(row[s + "_cycles"])}`).join(", ") + ")");
  lines.push(`${percent(row.utilisation)} of peak, ${whole(row.bytes_per_pe)} bytes a PE`);
  return lines.join("\n");
}

function excerpt(where) {
  const cut = where.lastIndexOf(":"), number = Number(where.slice(cut + 1));
  const lines = DATA.sources[where.slice(0, cut)];
  if (!lines || !(number in lines)) return el("p", { class: "note" }, where ? `${where} (source not available)` : "");
  const shown = Object.keys(lines).map(Number).filter((n) => Math.abs(n - number) <= 4);
  return el(
    "figure",
    { style: "margin:8px 0 0" },
    el("figcaption", { class: "soft" }, where),
    el("pre", { class: "source", tabindex: 0, "aria-label": `Lines around ${where}` },
      shown.map((n) => {
        const line = [el("span", { class: "number" }, String(n).padStart(4) + "  "), lines[n] || " "];
        return [n === number ? el("mark", null, line) : [...line, "\n"], findingRemarks(`${where.slice(0, cut)}:${n}`)];
      })),
  );
}

// The axis that all bars of a section share. It is linear from zero while the largest value is at most ten times the
// smallest; else it is logarithmic from a tenth of the smallest, so that a factor of 2 has the same width everywhere.
function axisOf(values, labels = 5) {
  const bars = values.filter((v) => v > 0), least = Math.min(...bars), most = Math.max(...bars), isLog = most > 10 * least;
  const start = isLog ? Math.log10(least) - 1 : 0, span = isLog ? Math.log10(most) - start : most;
  const share = (v) => (v > 0 && bars.length ? ((isLog ? Math.log10(v) : v) - start) / span : 0);
  if (!bars.length) return { isLog, share, ticks: [] };
  if (!isLog) {
    const decade = 10 ** Math.floor(Math.log10(most)), size = [0.2, 0.5, 1, 2, 5].find((s) => most / (s * decade) <= labels) * decade;
    return { isLog, share, ticks: Array.from({ length: Math.floor(most / size) + 1 }, (_, n) => n * size) };
  }
  const first = Math.ceil(start), count = Math.floor(Math.log10(most)) - first + 1, by = Math.ceil(count / labels);
  return { isLog, share, ticks: Array.from({ length: Math.ceil(count / by) }, (_, n) => 10 ** (first + n * by)) };
}
const at = (axis, value) => `${100 * axis.share(value)}%`;
const bar = (axis, value) => el("span", { class: "track", "aria-hidden": "true" }, el("i", { style: `width:${at(axis, value)}` }),
  axis.ticks.map((t) => el("b", { style: `left:${at(axis, t)}` })));
const labelsOf = (axis) => el("span", { class: "ticks", "aria-hidden": "true" }, axis.ticks.map((t) => el("span", { style: `left:${at(axis, t)}` }, short(t))));
const wordsOf = (axis) => (axis.isLog ? "one logarithmic axis, from a tenth of the smallest value" : "one linear axis, from zero");

const pressed = (label, on, act) => el("button", { type: "button", "aria-pressed": String(on), onclick: act }, label);
const key = (colour, label) => el("span", { class: "key" }, el("i", { style: `background:${colour}` }), label);
// The name of an axis: below the drawing, or turned at its left side.
const axisName = (words, x, y, anchor = "middle") => draw("text", { class: "soft axis-name", x, y, "text-anchor": anchor }, words);
const axisNameUp = (words, x, y) => draw("text", { class: "soft axis-name", "text-anchor": "middle", transform: `translate(${x},${y}) rotate(-90)` }, words);
// Free area is hatched, so that it differs from the colour of a zero. The pattern is in the drawing that uses it.
const hatching = (id) => draw("defs", null, draw("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  draw("rect", { class: "paper", width: 6, height: 6 }), draw("rect", { class: "hatch", width: 1.5, height: 6 })));
const freeKey = (label) => el("span", { class: "key" }, el("i", { class: "free" }), label);
const mixed = (share) => `color-mix(in oklab, var(--hot) ${Math.round(100 * Math.max(0, Math.min(1, share)))}%, var(--cold))`;
