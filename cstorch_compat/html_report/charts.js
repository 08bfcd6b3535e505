// The drawings: floor plan, timeline, memory, roofline.

function choose(layer) {
  state.layer = state.layer === layer ? -1 : layer;
  hush();
  for (const name of ["floor", "timeline", "roofline", "layers"]) redraw(name);
}

// Layers that share a rectangle are one cell; the one with most cycles stands for it.
function cells() {
  const own = mode(), byRect = new Map();
  if (state.mode === "streaming") return turns(own);
  own.rows.forEach((row, n) => {
    if (!row.rect) return;
    const k = row.rect.join();
    if (!byRect.has(k)) byRect.set(k, { rect: row.rect, layers: [] });
    byRect.get(k).layers.push(n);
  });
  return [...byRect.values()];
}

// In weight streaming every layer has the whole wafer, one after the other: what differs is for how long.
function turns(own) {
  const { width, height } = step().machine;
  const total = own.rows.reduce((sum, row) => sum + (row.rect ? row.cycles : 0), 0) || 1;
  let x = 0;
  return own.rows.flatMap((row, n) => {
    if (!row.rect || !row.cycles) return [];
    const wide = (width * row.cycles) / total;
    x += wide;
    return [{ rect: [x - wide, 0, wide, height], layers: [n] }];
  });
}

function shareOf(rows) {
  if (state.colour === "memory") return Math.max(...rows.map((r) => r.bytes_per_pe)) / step().machine.usable_bytes;
  const sum = rows.reduce((s, r) => s + r.cycles, 0) || 1;
  return rows.reduce((s, r) => s + r.utilisation * r.cycles, 0) / sum;
}
// Colours reach up to the fullest cell: most plans use a small part of what there is.
const fullest = (all) => Math.max(1e-9, ...all.map((cell) => shareOf(cell.layers.map((n) => mode().rows[n]))));

// Pixels to the left of the floor plan and above it, for its axes.
const FLOOR_LEFT = 42, FLOOR_TOP = 8;
// The part of the mesh that the picture shows, and pixels per PE. Both axes have the same scale.
function frame(all, width) {
  let { width: columns, height: lines } = step().machine;
  if (isSmall(all) && !state.whole) {
    const [right, low] = extentOf(all);
    // A very flat or narrow part would have no room for labels, so the picture then shows free PEs beside it.
    [columns, lines] = [Math.min(columns, Math.max(right, low / 3)), Math.min(lines, Math.max(low, right / 3))];
  }
  return { columns, lines, scale: Math.min((Math.min(width, 640) - FLOOR_LEFT - 4) / columns, 560 / lines) };
}
// The right and lower end of the PEs in use.
const extentOf = (all) => [0, 1].map((i) => Math.max(...all.map((c) => c.rect[i] + c.rect[i + 2])));
function isSmall(all) {
  if (state.mode !== "pipelined" || !all.length) return false;
  const { width, height } = step().machine, [right, low] = extentOf(all);
  return right * low < (width * height) / 2;
}

function sweepParts(rows, x, y, w, h) {
  const sums = SWEEPS.map((s) => rows.reduce((sum, r) => sum + r[s + "_cycles"], 0));
  const all = sums.reduce((a, b) => a + b, 0) || 1;
  let left = x;
  return SWEEPS.map((s, i) => {
    const wide = (w * sums[i]) / all;
    left += wide;
    return draw("rect", { class: `${s} inside`, x: left - wide, y, width: wide, height: h });
  });
}

// Pixels of a text in the font of the drawings.
const pen = document.createElement("canvas").getContext("2d");
function widthOf(text) {
  pen.font = "12px system-ui, sans-serif";
  return pen.measureText(text).width;
}
// The end of a name that fits `width` pixels.
function shortened(name, width) {
  let shown = name;
  for (let n = 1; widthOf(shown) > width && n < name.length; n++) shown = "…" + name.slice(n);
  return shown;
}

function label(text, w, h) {
  // Whole where it fits, else its last part, else none.
  const fits = (s) => h > 16 && widthOf(s) + 8 < w;
  return [text, text.slice(text.lastIndexOf(".") + 1), text.slice(text.lastIndexOf("/") + 1)].find(fits) || "";
}

function floorPicture(width) {
  const all = cells(), most = fullest(all), view = frame(all, width), wide = view.columns * view.scale, high = view.lines * view.scale;
  const picture = draw("g", { transform: `translate(${FLOOR_LEFT},${FLOOR_TOP})` });
  picture.append(hatching("free-pes"), draw("rect", { class: "wafer", width: wide, height: high, fill: "url(#free-pes)" }));
  const centres = new Map();
  for (const cell of all) {
    const [x, y, w, h] = cell.rect.map((v) => v * view.scale), rows = cell.layers.map((n) => mode().rows[n]);
    const main = cell.layers.reduce((a, b) => (mode().rows[b].cycles > mode().rows[a].cycles ? b : a));
    const words = () => rowWords(mode().rows[main]) + (rows.length > 1 ? `\nwith ${rows.length - 1} more layers here` : "");
    const isChosen = cell.layers.includes(state.layer);
    picture.append(draw("rect", {
      class: "cell" + (isChosen ? " chosen" : ""), x, y, width: w, height: h, "data-layer": main, "data-layers": cell.layers.join(" "),
      style: `fill:${mixed(shareOf(rows) / most)}`, ...told(words, () => choose(main)),
    }));
    if (state.colour === "sweep") picture.append(...sweepParts(rows, x + 1, y + 1, Math.max(0, w - 2), Math.max(0, h - 2)));
    const said = label(mode().rows[main].label, w, h);
    if (said) picture.append(draw("text", { class: "inside fits", x: x + w / 2, y: y + h / 2 + 4, "text-anchor": "middle",
      style: "paint-order:stroke;stroke:var(--card);stroke-width:3px" }, said));
    cell.layers.forEach((n) => centres.set(n, [x + w / 2, y + h / 2]));
  }
  if (state.links && mode().links) picture.append(...linkSquares(view));
  if (state.flows) picture.append(...flowLines(centres, high));
  // A narrow picture has no room for the ends of an axis beside its name.
  const low = widthOf(floorAxisNames(view).join("")) + 16 < wide ? 22 : 38;
  return draw("svg", { width: wide + FLOOR_LEFT + 4, height: high + FLOOR_TOP + low, role: "group", "aria-label": `Floor plan of ${step().machine.name}` },
    picture, floorAxes(view, wide, high, high + FLOOR_TOP + low - 6));
}

// The start, the name and the end of the x axis.
function floorAxisNames(view) {
  return state.mode === "streaming" ? ["0 %", "share of the cycles", "100 %"] : ["0", "x in PEs", whole(view.columns)];
}
function floorAxes(view, wide, high, nameLine) {
  const [start, name, end] = floorAxisNames(view), line = high + FLOOR_TOP + 16, low = high + FLOOR_TOP;
  return [
    draw("text", { class: "soft", x: FLOOR_LEFT, y: line }, start),
    draw("text", { class: "soft", x: FLOOR_LEFT + wide, y: line, "text-anchor": "end" }, end),
    axisName(name, FLOOR_LEFT + wide / 2, nameLine),
    draw("text", { class: "soft", x: FLOOR_LEFT - 4, y: FLOOR_TOP + 10, "text-anchor": "end" }, "0"),
    draw("text", { class: "soft", x: FLOOR_LEFT - 4, y: low, "text-anchor": "end" }, whole(view.lines)),
    axisNameUp("y in PEs", 12, FLOOR_TOP + high / 2),
  ];
}

// How full the links between stages are: the fullest in each square of the mesh.
function linkSquares(view) {
  const { size, shares } = mode().links, side = size * view.scale;
  return shares.flatMap((row, y) => row.flatMap((share, x) => !share ? [] : [draw("rect", { class: "link", x: x * side,
    y: y * side, width: side, height: side, "fill-opacity": 0.1 + (0.9 * share) / 100 })]));
}

function flowLines(centres, high) {
  const most = Math.max(1, ...step().flows.map((f) => f[2]));
  const at = (n) => (n < 0 ? [0, high / 2] : centres.get(n));
  // The largest are enough to see the way; all of a large model would hide the plan.
  return step().flows.slice(0, 300).flatMap(([a, b, size]) => {
    const from = at(a), to = at(b);
    if (!from || !to) return [];
    const bend = [(from[0] + to[0]) / 2 + (to[1] - from[1]) / 6, (from[1] + to[1]) / 2 - (to[0] - from[0]) / 6];
    return [draw("path", { class: "flow", "stroke-width": 0.5 + 4 * Math.sqrt(size / most), d: `M${from} Q${bend} ${to}` })];
  });
}

function floorKeys() {
  const links = state.links && mode().links
    ? [key("var(--critical)", `the fullest link: ${short(mode().links.bytes)} bytes for each sample`)] : [];
  const used = cells().reduce((sum, c) => sum + c.rect[2] * c.rect[3], 0), { width, height } = step().machine;
  return [...colourKeys(), used < 0.999 * width * height ? freeKey("free area") : [], ...links].flat();
}
function colourKeys() {
  if (state.colour === "sweep") return SWEEPS.map((s) => key(`var(--${s})`, s));
  const name = state.colour === "memory" ? "of usable memory" : "of peak", most = fullest(cells());
  return [0, 0.5, 1].map((x) => key(mixed(x), `${percent(x * most)} ${name}`));
}

// The lanes of a step, which scroll in time; lanes of a pipeline are its stages.
function timelinePicture(width) {
  const { lanes, spans, end } = mode().timeline, high = 18, names = Math.min(190, Math.max(70, width * 0.28));
  const wide = Math.max(100, (width - names - 18) * state.zoom), scale = wide / (end || 1), tall = lanes.length * high + 38;
  const left = draw("svg", { width: names, height: tall, "aria-hidden": "true" });
  const right = draw("svg", { width: wide + 1, height: tall, role: "group", "aria-label": "Timeline of a step" });
  lanes.forEach((name, n) => {
    const shown = shortened(name, names - 4);
    left.append(draw("text", { x: 0, y: n * high + 14 }, shown, draw("title", null, name)));
    right.append(draw("line", { class: "axis", x1: 0, x2: wide, y1: (n + 1) * high, y2: (n + 1) * high }));
  });
  left.append(draw("text", { class: "soft axis-name", x: 0, y: tall - 22 }, "lane"));
  for (const [lane, layer, sweep, start, to, critical, waiting] of spans) {
    const from = start + waiting;
    if (waiting) right.append(draw("line", { class: "waiting", x1: start * scale, x2: from * scale, y1: (lane + 0.5) * high, y2: (lane + 0.5) * high }));
    if (to === from) continue;
    const row = mode().rows[layer], words = () =>
      `${row ? row.label : lanes[lane]} ${SWEEPS[sweep] || ""}\n${lanes[lane]}\n${whole(from)} to ${whole(to)}: ${time(to - from)}` +
      (waiting ? `\nafter waiting ${time(waiting)}` : "") + (critical ? "\non the critical path" : "");
    const chosen = layer >= 0 && layer === state.layer ? " chosen" : "";
    const hears = told(words, () => layer >= 0 && choose(layer));
    // A thousand bars are no stops for the keyboard: the table of layers is.
    delete hears.tabindex;
    delete hears.role;
    right.append(draw("rect", { class: `span ${SWEEPS[sweep] || "rest"}${critical ? " critical" : ""}${chosen}`, x: from * scale, y: lane * high + 2,
      width: Math.max(1, (to - from) * scale), height: high - 4, "data-layers": layer, ...hears, "aria-label": null }));
  }
  const ticks = Math.max(2, Math.floor(wide / 140));
  for (let i = 0; i <= ticks; i++) {
    const x = (wide * i) / ticks, anchor = i === 0 ? "start" : i === ticks ? "end" : "middle";
    right.append(draw("text", { class: "soft", x, y: tall - 22, "text-anchor": anchor }, short((end * i) / ticks)));
  }
  const axis = "cycles since the start of the step";
  right.append(axisName(widthOf(axis) < wide ? axis : "cycles", 0, tall - 6, "start"));
  return el("div", { class: "lanes" }, left, el("div", { class: "scroll", tabindex: 0, "aria-label": "Timeline, scrolls in time" }, right));
}

function memoryPicture(width) {
  const { sram_bytes, usable_bytes } = step().machine, wide = Math.min(width, 900), used = mode().peak_bytes_per_pe;
  const scale = wide / sram_bytes, words = (a, b) => `${whole(a)} bytes: ${b}`;
  const part = (x, size, style, text) => draw("rect", { x: x * scale, y: 4, width: Math.max(size ? 1 : 0, size * scale), height: 24, style, ...told(() => text) });
  const keys = [key("var(--forward)", "used by the step"), freeKey("free"), key("var(--soft)", "reserved for programs and host transfers")];
  const bar = draw("svg", { width: wide, height: 66, role: "group", "aria-label": "Memory of the fullest PE" },
    hatching("free-bytes"), part(0, used, "fill:var(--forward)", words(used, "used by the step on the fullest PE")),
    part(used, usable_bytes - used, "fill:url(#free-bytes);stroke:var(--line)", words(usable_bytes - used, "free")),
    part(usable_bytes, sram_bytes - usable_bytes, "fill:var(--soft)", words(sram_bytes - usable_bytes, "reserved for programs and host transfers")),
    draw("text", { class: "soft", x: 0, y: 42 }, "0"), draw("text", { class: "soft", x: wide, y: 42, "text-anchor": "end" }, whole(sram_bytes)),
    axisName("bytes of the PE", wide / 2, 42),
    draw("text", { x: 0, y: 60 }, `${whole(used)} of ${whole(usable_bytes)} usable bytes (${percent(used / usable_bytes)})`));
  return [bar, el("div", { class: "tools" }, keys)];
}

// What a PE of each stage holds, the fullest first. Bars reach up to the fullest: most plans leave much free.
const PARTS = { state: "forward", waiting: "backward", working: "update" };
function memoryBars(width) {
  const stages = mode().stages;
  if (!stages || stages.length < 2) return null;
  const sum = (s) => s.state + s.waiting + s.working;
  const shown = [...stages].sort((a, b) => sum(b) - sum(a)).slice(0, 40), wide = Math.min(width, 900), high = 18;
  const names = Math.min(220, wide * 0.35), scale = (wide - names - 80) / Math.max(1, sum(shown[0]));
  return [
    el("div", { class: "tools", style: "margin-top:8px" }, key("var(--forward)", "weights, optimizer and gradients"),
      key("var(--backward)", "samples in flight"), key("var(--update)", "current sample")),
    draw("svg", { width: wide, height: shown.length * high + 20, role: "group", "aria-label": "Bytes a PE of each stage" },
      draw("text", { class: "soft axis-name", x: 0, y: shown.length * high + 14 }, "stage"),
      axisName("bytes a PE", wide, shown.length * high + 14, "end"),
      shown.map((s, n) => {
        const name = mode().rows[s.layer].label, y = n * high;
        const words = () => `${name}\n` + Object.keys(PARTS).map((p) => `${p} ${short(s[p])} bytes a PE`).join("\n");
        let x = names;
        return [
          draw("text", { x: 0, y: y + 13 }, shortened(name, names - 4)),
          Object.entries(PARTS).map(([p, kind]) => {
            x += scale * s[p];
            return draw("rect", { class: kind, x: x - scale * s[p], y: y + 2, width: scale * s[p], height: high - 4, ...told(words) });
          }),
          draw("text", { x: wide, y: y + 13, "text-anchor": "end" }, short(sum(s))),
        ];
      })),
    stages.length > shown.length && el("p", { class: "note" }, `The fullest ${shown.length} of ${whole(stages.length)} stages.`),
  ];
}

// In weight streaming the activations come and go with the turns of the mesh.
function memoryCourse(width) {
  const held = mode().held, { lanes, spans, end } = mode().timeline || {}, mesh = lanes ? lanes.indexOf("mesh") : -1;
  if (!held.length || mesh < 0) return null;
  const wide = Math.min(width, 900), high = 166, low = 38, left = 72, m = step().machine, pes = m.width * m.height;
  const turns = spans.filter((s) => s[0] === mesh), most = Math.max(1e-9, ...held) / pes;
  const px = (t) => left + ((wide - left - 8) * t) / end, py = (bytes) => high - low - ((high - low - 14) * bytes) / most;
  const of = (n) => held[n % held.length];
  const corners = turns.flatMap((s, n) => [s[3], s[4]].map((t) => `${px(t).toFixed(1)},${py(of(n) / pes).toFixed(1)}`));
  const words = (s, n) => () =>
    `${(mode().rows[s[1]] || { label: "" }).label} ${SWEEPS[s[2]] || ""}\n${short(of(n) / pes)} bytes a PE, ${short(of(n))}B on the wafer`;
  const caught = (s, n) => draw("rect", { class: "catch", x: px(s[3]), y: 8, width: Math.max(0.5, px(s[4]) - px(s[3])), height: high - low - 8,
    ...told(words(s, n)), "aria-label": null, role: null });
  return [
    el("p", { class: "soft", style: "margin:10px 0 2px" }, "Over time"),
    draw("svg", { id: "course", width: wide, height: high, role: "group", "aria-label": "Memory of a PE over a step" },
      draw("path", { class: "area", d: `M${px(0)},${py(0)} L${corners.join(" L")} L${px(turns[turns.length - 1][4])},${py(0)} Z` }),
      turns.map(caught),
      [0, most].map((b) => draw("text", { class: "soft", x: left - 4, y: py(b) + 4, "text-anchor": "end" }, short(b))),
      axisName("cycles since the start of the step", (left + wide) / 2, high - 4), axisNameUp("bytes a PE", 12, (high - low) / 2),
      [0, 0.5, 1].map((x) => draw("text", { class: "soft", x: px(x * end), y: high - 22,
        "text-anchor": x === 0 ? "start" : x === 1 ? "end" : "middle" }, short(x * end)))),
  ];
}

function rooflinePicture(width) {
  const m = step().machine, wide = Math.min(width, 720), high = 310, left = 66, low = 40;
  const dots = mode().rows.flatMap((row, n) => {
    const area = row.rect ? row.rect[2] * row.rect[3] : 0, cycles = row.cycles * step().systems;
    return row.flops && row.bytes && area && cycles ? [{ row, n, x: row.flops / row.bytes, y: row.flops / cycles / area }] : [];
  });
  if (!dots.length) return el("p", { class: "note" }, "No layer has floating-point work on the wafer.");
  const top = m.flops_per_cycle["2"], xs = dots.map((d) => d.x), ys = dots.map((d) => d.y);
  const x0 = Math.log10(Math.min(0.05, ...xs)), x1 = Math.log10(Math.max(top / m.move_bytes_per_cycle * 20, ...xs) * 1.5);
  const y0 = Math.log10(Math.min(top / 100, ...ys) / 1.5), y1 = Math.log10(top * 2);
  const px = (x) => left + ((Math.log10(x) - x0) / (x1 - x0)) * (wide - left - 10);
  const py = (y) => high - low - ((Math.log10(y) - y0) / (y1 - y0)) * (high - low - 10);
  const picture = draw("svg", { width: wide, height: high, role: "group", "aria-label": "Roofline of a PE" });
  for (let e = Math.ceil(x0); e <= x1; e++) picture.append(
    draw("line", { class: "axis", x1: px(10 ** e), x2: px(10 ** e), y1: 10, y2: high - low }),
    draw("text", { class: "soft", x: px(10 ** e), y: high - 24, "text-anchor": px(10 ** e) > wide - 40 ? "end" : "middle" }, short(10 ** e)));
  for (let e = Math.ceil(y0); e <= y1; e++) picture.append(
    draw("line", { class: "axis", x1: left, x2: wide - 10, y1: py(10 ** e), y2: py(10 ** e) }),
    draw("text", { class: "soft", x: left - 4, y: py(10 ** e) + 4, "text-anchor": "end" }, short(10 ** e)));
  picture.append(axisName("FLOPs a byte touched", (left + wide) / 2, high - 4), axisNameUp("FLOPs a cycle and PE", 12, (high - low) / 2));
  for (const [size, peak] of Object.entries(m.flops_per_cycle)) {
    const knee = peak / m.move_bytes_per_cycle, start = Math.max(10 ** x0, (10 ** y0) / m.move_bytes_per_cycle);
    picture.append(draw("path", { class: "roof", d: `M${px(start)},${py(start * m.move_bytes_per_cycle)} L${px(knee)},${py(peak)} L${wide - 10},${py(peak)}` }),
      draw("text", { x: wide - 12, y: py(peak) - 4, "text-anchor": "end" }, `${short(peak)} FLOPs a cycle, ${8 * size}-bit`));
  }
  for (const d of dots) {
    const words = () => `${rowWords(d.row)}\n${short(d.x)} FLOPs a byte, ${short(d.y)} FLOPs a cycle and PE`;
    picture.append(draw("circle", { class: "dot" + (d.n === state.layer ? " chosen" : ""), cx: px(d.x), cy: py(d.y), r: 5, "data-layers": d.n,
      style: `fill:${mixed(0.4 + 0.6 * d.row.utilisation)};stroke:var(--card)`, ...told(words, () => choose(d.n)) }));
  }
  picture.append(...dotNames(dots.map((d) => ({ row: d.row, x: px(d.x), y: py(d.y) })), wide - 10));
  return picture;
}

// Names of the layers with most cycles, where they cover neither each other nor another dot.
function dotNames(dots, right) {
  const taken = dots.map((d) => [d.x - 5, d.y - 5, d.x + 5, d.y + 5]);
  return [...dots].sort((a, b) => b.row.cycles - a.row.cycles).flatMap(({ row, x, y }) => {
    const name = shortened(row.label, 150), wide = widthOf(name);
    const fits = (b) => b[0] > 70 && b[2] < right && !taken.some((t) => b[0] < t[2] && t[0] < b[2] && b[1] < t[3] && t[1] < b[3]);
    const box = [x + 7, x - 7 - wide].map((left) => [left, y - 7, left + wide, y + 7]).find(fits);
    if (!box) return [];
    taken.push(box);
    return [draw("text", { class: "inside", x: box[0] + (box[0] > x ? 1 : -1), y: y + 4 }, name)];
  });
}
