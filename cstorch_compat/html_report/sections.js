// The sections of the page, in order; each is drawn into its own element, and again when what it shows changes.

const page = document.getElementById("page");
const SECTIONS = {};
const roomOf = (box) => Math.max(280, (box.clientWidth || page.clientWidth) - 30);

function section(name, title, render, isThere) {
  const box = el("section", { id: name, "aria-label": title });
  SECTIONS[name] = { box, title, render, isThere: isThere || (() => true) };
}
function redraw(name) {
  const { box, title, render, isThere } = SECTIONS[name];
  box.hidden = !isThere();
  if (box.hidden) return box.replaceChildren();
  box.replaceChildren(el("h2", null, title), ...[render(roomOf(box))].flat().filter(Boolean));
  if (box.querySelector("svg")) box.append(saveButtons(name, title));
  if (name !== "terms") explain(box);
  return box;
}

function verdictOf(own) {
  const one = step();
  // A row with shares of resources has a verdict on the same plan that names the resource.
  const row = DATA.rows.find((r) => hasResources(r) && r.machine === one.machine.name && r.systems === one.systems && r.batch_size === one.batch && r.mode === own.mode);
  return own.fits ? (row || own).verdict : `The step does not fit. ${own.reason}`;
}
const hasResources = (row) => (row.resources || []).length > 0;

section("compared", "Machines and batches", () => {
  const axis = axisOf(DATA.rows.map((r) => (r.fits ? r.samples_per_s : 0)), 3);
  const scale = [axis.isLog ? "samples/s, logarithmic" : "samples/s, linear", labelsOf(axis)];
  const limit = (r) => (r.fits ? r.limit : `does not fit${r.largest_batch ? `; the largest batch that fits is ${whole(r.largest_batch)}` : ""}`);
  // Each column: its head, the class of its cells, and the cell of a row.
  const columns = [
    ["batch", "", (r) => whole(r.batch_size)],
    ["machine", "words", (r) => r.machine],
    ["systems", "", (r) => whole(r.systems)],
    ...(DATA.has_workers ? [["workers", "", (r) => whole(r.workers)]] : []),
    ["mode", "words", (r) => r.mode],
    ["samples/s", "", (r) => (r.fits ? rate(r.samples_per_s) : "-")],
    [scale, "words", (r) => bar(axis, r.fits ? r.samples_per_s : 0)],
    ["of the memory", "", (r) => (r.fits ? percent(r.peak_bytes_per_pe / r.usable_bytes_per_pe) : "-")],
    ["what limits", "words", limit],
  ];
  const body = DATA.rows.map((r) => el("tr", { title: r.fits ? r.verdict : r.reason }, columns.map(([, kind, cell]) => el("td", { class: kind }, cell(r)))));
  // Each column of the CSV is a figure of the JSON report.
  const fields = ["batch_size", "machine", "systems", ...(DATA.has_workers ? ["workers"] : []), "mode", "fits", "samples_per_s", "step_cycles", "peak_bytes_per_pe", "usable_bytes_per_pe", "limit"];
  const csv = () => [fields, ...DATA.rows.map((r) => fields.map((f) => r[f]))];
  return [el("div", { class: "tools" }, copyButton(csv)), el("div", { class: "scroll", tabindex: 0, "aria-label": "Table of machines and batches" }, el("table", null,
    el("thead", null, el("tr", null, columns.map(([head, kind]) => el("th", { scope: "col", class: kind }, head)))), el("tbody", null, body)))];
}, () => DATA.rows.length > 1);

// Shares of the resources in a step, for each row of the plan that has them.
const gained = (r) => `+${percent(r.gain - 1)}`;
function resourceTable(row) {
  const name = `batch ${whole(row.batch_size)} on ${whole(row.systems)} ${row.machine}${DATA.has_workers ? `, workers ${whole(row.workers)}` : ""}, ${row.mode}`;
  const columns = [["twice as fast", "words", (r) => r.resource], ["share of the step", "", (r) => percent(r.share)],
    ["step", "", (r) => quantity(r.step_seconds, "s")], ["samples/s", "", gained]];
  const head = columns.map(([text, kind]) => el("th", { scope: "col", class: kind }, text));
  const body = row.resources.map((r) => el("tr", null, columns.map(([, kind, cell]) => el("td", { class: kind }, cell(r)))));
  return [el("h3", null, name), el("p", null, row.verdict), el("div", { class: "scroll", tabindex: 0, "aria-label": `Resources: ${name}` },
    el("table", null, el("thead", null, el("tr", null, head)), el("tbody", null, body)))];
}
section("resources", "What if a resource were twice as fast", () => {
  const fields = ["resource", "share", "step_seconds", "gain"], places = ["batch_size", "machine", "systems", "workers", "mode"];
  const rows = DATA.rows.filter(hasResources);
  const csv = () => [[...places, ...fields], ...rows.flatMap((row) => row.resources.map((r) => [...places.map((f) => row[f]), ...fields.map((f) => r[f])]))];
  return [el("div", { class: "tools" }, copyButton(csv)),
    el("p", { class: "note" }, "Each line is a plan of the step with one resource twice as fast. A share is twice the time that this saves. The last share is time in which several resources work at once."),
    ...rows.flatMap(resourceTable)];
}, () => DATA.rows.some(hasResources));

section("figures", "A step", () => {
  const own = mode(), one = step(), m = one.machine, figures = {
    "samples per second": rate(own.samples_per_s),
    "time of a step": time(own.step_cycles),
    "time to the first result": time(own.fill_cycles),
    "fullest PE": `${whole(own.peak_bytes_per_pe)} bytes (${percent(own.peak_bytes_per_pe / m.sram_bytes)})`,
    "wafer edge, in and out": `${short(own.edge_bytes_in)}B and ${short(own.edge_bytes_out)}B`,
    "micro-batches": `${whole(own.micro_batches)}${own.has_recompute ? ", forward pass recomputed" : ""}`,
  };
  if (own.joules_per_sample) figures["energy per sample"] = quantity(own.joules_per_sample, "J");
  const head = `${one.systems > 1 ? whole(one.systems) + " x " : ""}${m.name} at ${m.clock_hz / 1e9} GHz, batch ${whole(one.batch)}, ${state.mode} mode`;
  return [
    el("p", { class: "soft", style: "margin:0" }, head),
    own.fits && el("dl", { class: "figures" }, Object.entries(figures).map(([k, v]) => el("div", null, el("dt", null, k), el("dd", null, v)))),
    state.mode === one.mode && one.band && el("p", { class: "note", id: "band" }, one.band),
  ];
});

// The layers that a limit names: one, or the two ends of a link.
function layersOf(bound) {
  const named = (name) => mode().rows.flatMap((row, n) => (row.label === name ? [n] : []));
  const whole = named(bound.what);
  return whole.length ? whole : bound.what.split(" to ").flatMap(named);
}
function light(layers) {
  document.querySelectorAll(".lit").forEach((e) => e.classList.remove("lit"));
  for (const n of layers) document.querySelectorAll(`[data-layers~="${n}"]`).forEach((e) => e.classList.add("lit"));
}
const lights = (layers) => !layers.length ? {} : { onpointerenter: () => light(layers), onpointerleave: () => light([]),
  onfocusin: () => light(layers), onfocusout: () => light([]) };
// A limit of layers is a button, so that the keyboard reaches it. It selects the first of them.
function limitName(bound) {
  const words = bound.name + (bound.what ? ` of ${bound.what}` : ""), layers = layersOf(bound);
  return el("span", null, layers.length ? el("button", { type: "button", class: "plain", onclick: () => choose(layers[0]) }, words) : words);
}

section("limits", "What limits", () => {
  const bounds = mode().bounds, axis = axisOf(bounds.map((b) => b.samples_per_s));
  const least = bounds.find((b) => b.kind === mode().limit) || bounds[0];
  const from = bounds.find((b) => b.where) || least;
  return [
    el("ul", { class: "plain" }, bounds.map((b) => el("li", { class: "limit" + (b === bounds[0] ? " least" : ""), ...lights(layersOf(b)) },
      limitName(b),
      bar(axis, b.samples_per_s),
      el("span", { class: "value" }, `${rate(b.samples_per_s)} samples/s`),
      el("span", { class: "note" }, b.source))),
      el("li", { class: "limit" }, el("span", { class: "soft" }, `samples/s, ${axis.isLog ? "logarithmic" : "linear"}`), labelsOf(axis))),
    el("p", { class: "note" }, `The shortest bar, in red, is the limit. All bars have ${wordsOf(axis)}. Point at a limit of a layer, or move the focus to it, to mark the layer in all charts.`),
    least.where ? excerpt(least.where) : from.where && [el("p", { class: "note" }, `The limit of the wafer itself: ${from.name} of ${from.what}`), excerpt(from.where)],
  ].flat();
}, () => mode().fits && mode().bounds.length > 0);

section("floor", "Floor plan", (width) => {
  const tools = el("div", { class: "tools" }, el("span", { class: "soft" }, "Colour:"),
    ["utilisation", "sweep", "memory"].map((c) => pressed(c, state.colour === c, () => { state.colour = c; redraw("floor"); })),
    isSmall(cells()) && pressed("whole wafer", state.whole, () => { state.whole = !state.whole; redraw("floor"); }),
    state.mode === "pipelined" && pressed("flows", state.flows, () => { state.flows = !state.flows; redraw("floor"); }),
    mode().links && pressed("links", state.links, () => { state.links = !state.links; redraw("floor"); }));
  const wide = innerWidth > 720 ? (width - 16) * 0.6 : width;
  const said = state.mode === "streaming"
    ? "The layers use the whole wafer in turn. The width of a layer is its share of the cycles."
    : "Each rectangle is a stage. Flows are the bytes between layers in a step." + (isSmall(cells()) && !state.whole ? " The picture shows only the part in use." : "");
  return [tools, el("div", { class: "pair" },
    el("div", null, el("div", { class: "scroll" }, floorPicture(wide)), el("div", { class: "tools", style: "margin-top:6px" }, floorKeys()), el("p", { class: "note" }, said)),
    detail())];
}, () => mode().rows.some((r) => r.rect));

function detail() {
  const row = mode().rows[state.layer];
  if (!row) return el("div", { id: "detail", class: "soft" }, "Select a rectangle, a bar or a row to see its kernel and its line.");
  const figures = {
    rectangle: place(row.rect), cycles: whole(row.cycles), forward: whole(row.forward_cycles), backward: whole(row.backward_cycles),
    update: whole(row.update_cycles), FLOPs: short(row.flops), "bytes touched": short(row.bytes), "of peak": percent(row.utilisation),
    "bytes a PE": whole(row.bytes_per_pe), kernels: String(row.kernels),
  };
  return el("div", { id: "detail" }, el("h3", { style: "margin:0;overflow-wrap:anywhere" }, row.label),
    el("dl", { class: "figures" }, Object.entries(figures).map(([k, v]) => el("div", null, el("dt", null, k), el("dd", null, v)))),
    excerpt(row.where),
    el("p", null, el("button", { type: "button", onclick: () => openModule(row.label.split("/")[0]) }, "Show it in the graph")));
}

section("timeline", "Timeline of a step", (width) => {
  const zoom = (by) => () => { state.zoom = Math.max(1, Math.min(64, state.zoom * by)); redraw("timeline"); };
  const what = state.mode === "streaming" ? "The first micro-batches: weights and batch enter, layers run in turn, gradients leave." : "The first sample passes an empty pipeline forward and backward; updates follow.";
  return [
    el("div", { class: "tools" }, el("button", { type: "button", onclick: zoom(2) }, "Zoom in"), el("button", { type: "button", onclick: zoom(0.5) }, "Zoom out"),
      SWEEPS.map((s) => key(`var(--${s})`, s)), mode().timeline.spans.some((span) => span[2] < 0) && key("var(--cold)", "other"), key("var(--critical)", "critical path (outline)"),
      mode().timeline.spans.some((span) => span[6]) && el("span", null, "dashed line: waiting")),
    timelinePicture(width),
    el("p", { class: "note" }, `${what} ${time(mode().timeline.end)}.`)];
}, () => Boolean(mode().timeline));

section("memory", "Memory of a PE", (width) => [memoryPicture(width), memoryBars(width), memoryCourse(width)].flat(), () => mode().fits && mode().rows.length > 0);

section("roofline", "Roofline of a PE", (width) => [rooflinePicture(width),
  el("p", { class: "note" }, "Each dot is a layer. x: FLOPs per byte that its kernels touch. y: FLOPs per cycle and PE. The colour is the share of peak. The slanted line is the memory bandwidth of a copy.")],
  () => mode().fits && mode().rows.length > 0);

const COLUMNS = [["layer", "label", String], ["line", "where", file], ["cycles", "cycles", whole], ["forward", "forward_cycles", whole],
  ["backward", "backward_cycles", whole], ["update", "update_cycles", whole], ["FLOPs", "flops", short], ["bytes/PE", "bytes_per_pe", whole],
  ["of peak", "utilisation", percent]];

section("layers", "Layers", () => {
  const rows = mode().rows.map((row, n) => ({ row, n }));
  if (state.sort) rows.sort((a, b) => (a.row[state.sort] < b.row[state.sort] ? 1 : a.row[state.sort] > b.row[state.sort] ? -1 : a.n - b.n));
  const head = COLUMNS.map(([name, field], c) => el("th", { scope: "col", class: c < 2 ? "words" : "" }, el("button", { type: "button",
    onclick: () => { state.sort = state.sort === field ? "" : field; redraw("layers"); } }, name)));
  const body = rows.map(({ row, n }) => el("tr", { class: n === state.layer ? "chosen" : "", "data-layers": n }, COLUMNS.map(([, field, format], c) =>
    el("td", { class: c < 2 ? "words" : "" }, c === 0 ? el("button", { type: "button", onclick: () => choose(n) }, row.label) : format(row[field]),
      c === 1 ? findingLinks(row.where) : null))));
  const csv = () => [COLUMNS.map(([, field]) => field), ...rows.map(({ row }) => COLUMNS.map(([, field]) => row[field]))];
  return [el("div", { class: "tools" }, copyButton(csv)), el("div", { class: "scroll", style: "max-height:420px", tabindex: 0, "aria-label": "Table of layers" }, el("table", null, el("thead", null, el("tr", null, head)), el("tbody", null, body)))];
}, () => mode().rows.length > 0);

section("findings", "Findings of the check", () => {
  const notes = findingList(["note"]);
  return [
    el("p", { style: "margin:0" }, DATA.check.verdict),
    findingList(["refused", "risk"]),
    notes && el("details", null, el("summary", null, `${plural(countOf("note"), "note")}: what lazywafer lacks, and where the Cerebras API goes`), notes),
  ];
}, () => Boolean(DATA.check));

// The graph is long and packed, so that the page opens at once.
let graphs = null;
async function unpacked() {
  if (graphs) return graphs;
  const packed = Uint8Array.from(atob(document.getElementById("graph").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  graphs = JSON.parse(await new Response(stream).text());
  return graphs;
}

const folded = (title, inside, id) => {
  const box = el("details", { "data-path": id }, el("summary", null, title));
  // Filled when it is opened: all of a large model at once would take seconds.
  box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) box.append(...[inside()].flat()); });
  return box;
};
const listing = (lines, name) => el("pre", { tabindex: 0, "aria-label": name }, Array.isArray(lines) ? lines.join("\n") : lines);

function kernelDetails(tree, k) {
  const nest = tree.nests[k.nest], where = tree.places[k.place];
  return folded(`${k.name} (${k.sweep}): ${k.reads} → ${k.writes}`, () => [
    el("p", { class: "note" }, `${short(k.flops)} FLOPs`), where ? excerpt(where) : "",
    nest ? [el("p", { class: "soft" }, "Loop nest"), listing(nest.loops, "Loop nest"), el("p", { class: "soft" }, "Numba"), listing(nest.source, "Numba")]
      : el("p", { class: "note" }, "A library kernel without a loop nest.")].flat());
}

function moduleDetails(tree, node) {
  const own = tree.modules[node.path] || { aten: [], cirh: [], kernels: [] };
  const counts = [[own.aten, "ATen"], [own.cirh, "CIRH"], [own.kernels, "kernels"]].filter(([list]) => list.length).map(([list, name]) => `${list.length} ${name}`);
  return folded(`${node.name}${counts.length ? " · " + counts.join(", ") : ""}`, () => [
    [...node.children.values()].map((child) => moduleDetails(tree, child)),
    own.aten.length ? folded("ATen, as the script was traced", () => listing(own.aten, "ATen")) : [],
    own.cirh.length ? folded("CIRH, as it was lowered", () => listing(own.cirh, "CIRH")) : [],
    own.kernels.length ? folded("Kernels and their code", () => own.kernels.map((k) => kernelDetails(tree, k))) : []].flat(2), node.path);
}

function rootOf(tree) {
  const root = { name: "the step", path: "", children: new Map() };
  for (const path of Object.keys(tree.modules).filter(Boolean)) {
    let node = root;
    for (const name of path.split(".")) {
      if (!node.children.has(name)) node.children.set(name, { name, path: node.path ? `${node.path}.${name}` : name, children: new Map() });
      node = node.children.get(name);
    }
  }
  return root;
}

section("modules", "The graph, by module", () => {
  const box = folded("From ATen through CIRH to loop nests and their code", () => el("div", { id: "tree" }, "Unpacking…"));
  box.addEventListener("toggle", async () => {
    const tree = (await unpacked())[step().graph], room = document.getElementById("tree");
    if (room && room.children.length === 0) {
      room.replaceChildren(moduleDetails(tree, rootOf(tree)));
      room.firstChild.open = true;
    }
  });
  return box;
});

// A plan of serving: its figures, and how much faster it is with twice as much of each resource.
function servingPlan(p) {
  const gain = (value) => `× ${value.toFixed(2)}`;
  const table = (name, head, rows) => el("div", { class: "scroll", tabindex: 0, "aria-label": name }, el("table", null,
    el("thead", null, el("tr", null, head.map((text, n) => el("th", { scope: "col", class: n ? "" : "words" }, text)))),
    el("tbody", null, rows.map((row) => el("tr", null, row.map((text, n) => el("td", { class: n ? "" : "words" }, text)))))));
  return [
    el("h3", null, p.title),
    table(`Figures: ${p.title}`, ["figure", "planned"], p.figures),
    table(`Limits: ${p.title}`, ["twice as much", "tokens/s of a user", "first token sooner"], p.gains.map((g) => [g.resource, gain(g.decoding), gain(g.first_token)])),
    ...p.notes.map((text) => el("p", { class: "note" }, text)),
  ];
}
section("serving", "Serving", () => {
  const fields = ["machine", "wafers", "users", "prompt_tokens", "generated_tokens", "weight_bits", "tokens_per_s_user", "tokens_per_s", "first_token_s", "max_users", "limit"];
  const csv = () => [fields, ...DATA.serving.map((p) => fields.map((f) => p.plan[f]))];
  return [el("div", { class: "tools" }, copyButton(csv)), ...DATA.serving.flatMap(servingPlan)];
}, () => DATA.serving.length > 0);

section("terms", "Terms", () => el("details", null, el("summary", null, "Terms of this page and their meaning"), termList()));

async function openModule(path) {
  const top = SECTIONS.modules.box.querySelector("details");
  top.open = true;
  await unpacked();
  const parts = path.split("."), next = () => new Promise((done) => setTimeout(done, 0));
  let last = top;
  for (let n = 0; n <= parts.length; n++) {
    for (let wait = 0; wait < 20 && !last.isConnected; wait++) await next();
    let found = null;
    for (let wait = 0; wait < 20 && !found; wait++) {
      await next();
      found = SECTIONS.modules.box.querySelector(`details[data-path="${CSS.escape(parts.slice(0, n).join("."))}"]`);
    }
    if (!found) break;
    found.open = true;
    last = found;
  }
  last.scrollIntoView({ block: "center" });
}

function choices() {
  const steps = DATA.steps.map((s, n) => el("option", { value: n }, `step ${n + 1}: ${s.machine.name}, batch ${s.batch}`));
  const pick = el("select", { "aria-label": "Step", onchange: (e) => { state.step = Number(e.target.value); state.mode = step().mode; show(); } }, steps);
  pick.value = state.step;
  return [steps.length > 1 && pick, ...["pipelined", "streaming"].map((name) =>
    pressed(name + (step().modes[name].fits ? "" : " (does not fit)"), state.mode === name, () => { state.mode = name; show(); }))].filter(Boolean);
}

function show() {
  state.layer = -1;
  state.zoom = 1;
  document.getElementById("choices").replaceChildren(...choices());
  document.getElementById("verdict").textContent = verdictOf(mode());
  Object.keys(SECTIONS).forEach(redraw);
}

document.getElementById("versions").textContent = Object.entries(DATA.versions).map(([k, v]) => `${k} ${v}`).join(" · ");
if (DATA.steps.length) {
  state.mode = step().mode;
  if (DATA.check) page.append(el("p", { id: "checked" }, el("a", { href: "#findings" }, `lazywafer check: ${DATA.check.is_complete ? findingCounts() : DATA.check.verdict}`)));
  page.append(...Object.values(SECTIONS).map((s) => s.box));
  show();
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; Object.keys(SECTIONS).filter((n) => n !== "modules").forEach(redraw); } });
  addEventListener("keydown", (e) => { if (e.key === "Escape") hush(); });
  // Focus may scroll the page. The meaning of a term with the focus then moves with the term.
  addEventListener("scroll", () => { hush(); document.activeElement.closest(".term")?.dispatchEvent(new Event("focus")); }, { passive: true });
} else if (DATA.serving.length) {
  page.append(...["serving", "terms"].map((name) => { redraw(name); return SECTIONS[name].box; }));
}
