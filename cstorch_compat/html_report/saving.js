// Tables as CSV on the clipboard, and charts as files. Nothing is sent anywhere: files are made in the page.

// A table's values are those of the JSON report, not their rounded texts.
function toCsv(rows) {
  // A spreadsheet would run a text that begins with one of these characters as a formula.
  const safe = (v) => (typeof v === "string" && /^[=+@\t\r-]/.test(v) ? "'" + v : String(v ?? ""));
  const cell = (v) => (/[",\r\n]/.test(safe(v)) ? `"${safe(v).replaceAll('"', '""')}"` : safe(v));
  return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Some browsers have no clipboard for pages from a file.
    const area = el("textarea", { "aria-label": "CSV", style: "position:fixed;top:0;opacity:0" }), before = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    before.focus();
    if (!done) throw new Error("no clipboard");
  }
}
function copyButton(rows) {
  return el("button", { type: "button", onclick: async (e) => {
    const box = e.currentTarget.getBoundingClientRect();
    const said = await copyText(toCsv(rows())).then(() => "Copied as CSV.", () => "The browser does not allow copying.");
    tell(said, box.left, box.bottom);
  }, onblur: hush, onpointerleave: hush }, "Copy as CSV");
}

// A chart as one SVG drawing: the drawings, title and legend of its section at their places on the page. Styles of the
// page are copied to each element, since a file has no style sheet.
const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "opacity", "font", "text-anchor", "paint-order"];
function chartOf(box) {
  const texts = [...box.querySelectorAll("h2")], keys = [...box.querySelectorAll(".key")], drawings = [...box.querySelectorAll("svg")];
  const edge = box.getBoundingClientRect(), parts = [], ends = [];
  const placeOf = (node) => {
    const b = node.getBoundingClientRect(), scrolled = node.closest(".lanes > .scroll")?.scrollLeft || 0, down = node.closest(".lanes")?.scrollTop || 0;
    // A heading is as wide as its section.
    if (node.tagName !== "H2") ends.push([b.right - edge.left + scrolled, b.bottom - edge.top + down]);
    return [b.left - edge.left + scrolled, b.top - edge.top + down, b.width, b.height];
  };
  const written = (node, words, x, y) => draw("text", { x, y, style: `fill:${plainColour(getComputedStyle(node).color)};font:${getComputedStyle(node).font}` }, words);
  for (const node of texts) {
    const [x, y, , high] = placeOf(node);
    parts.push(written(node, node.textContent, x, y + high * 0.75));
  }
  for (const node of keys) {
    const [x, y, , high] = placeOf(node), isFree = node.querySelector(".free"), colour = getComputedStyle(node.querySelector("i")).backgroundColor;
    const hatch = isFree && box.querySelector("pattern")?.id;
    parts.push(draw("rect", { x, y: y + high / 2 - 6, width: 14, height: 12, style: `fill:${hatch ? `url(#${hatch})` : plainColour(colour)};stroke:${plainColour(getComputedStyle(box).borderTopColor)}` }),
      written(node, node.textContent, x + 19, y + high * 0.75));
  }
  for (const node of drawings) {
    const [x, y] = placeOf(node), copy = node.cloneNode(true), from = [node, ...node.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((source, n) => {
      const style = getComputedStyle(source);
      to[n].setAttribute("style", STYLES.map((name) => `${name}:${plainColour(style.getPropertyValue(name))}`).join(";"));
    });
    copy.setAttribute("x", x);
    copy.setAttribute("y", y);
    parts.push(copy);
  }
  const [width, height] = [0, 1].map((i) => Math.ceil(Math.max(...ends.map((end) => end[i]))) + 14);
  return draw("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` },
    draw("rect", { width, height, style: `fill:${plainColour(getComputedStyle(box).backgroundColor)}` }), parts);
}
// Mixed colours as rgb, which all viewers can read. Other values stay.
const blot = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function plainColour(value) {
  if (!/^(oklab|oklch|color|lab|lch)\(/.test(value)) return value.replace(/url\("?[^"#]*#([^")]*)"?\)/, "url(#$1)");
  blot.fillStyle = value;
  blot.fillRect(0, 0, 1, 1);
  return `rgb(${[...blot.getImageData(0, 0, 1, 1).data].slice(0, 3)})`;
}
const svgText = (box) => new XMLSerializer().serializeToString(chartOf(box));
// Twice the size of the page, for print.
async function pngOf(box) {
  const chart = chartOf(box), picture = new Image(), canvas = document.createElement("canvas");
  picture.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(chart));
  await picture.decode();
  // Browsers limit the size of a canvas.
  const wide = Number(chart.getAttribute("width")), high = Number(chart.getAttribute("height")), scale = Math.min(2, 16000 / Math.max(wide, high));
  [canvas.width, canvas.height] = [wide * scale, high * scale];
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
function save(blob, name) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
const saveButtons = (name, title) => el("div", { class: "tools saving" },
  el("button", { type: "button", "aria-label": `Save ${title} as PNG`, onclick: async () => save(await pngOf(SECTIONS[name].box), `${name}.png`) }, "Save as PNG"),
  el("button", { type: "button", "aria-label": `Save ${title} as SVG`, onclick: () => save(new Blob([svgText(SECTIONS[name].box)], { type: "image/svg+xml" }), `${name}.svg`) }, "Save as SVG"));
