// The terms of the page: term and meaning as in GLOSSARY.md, and the words that are explained by it.
const TERMS = [
  ["PE", /\b(?:PEs?)\b/, "processing element: a core, its memory and its router"],
  ["wavelet", /\b(?:wavelets?)\b/i, "a packet of 32 bits of data and a colour"],
  ["port", /\b(?:ports?)\b/i, "PEs at the border of a layer's rectangle through which activations enter or leave"],
  ["edge", /\b(?:edge)\b/i, "the border of the wafer, through which weights and batches come"],
  ["link", /\b(?:links?)\b/i, "the connection of two neighbouring routers: a wavelet a cycle in each direction"],
  ["wafer, WSE", /\b(?:wafer)\b/i, "wafer-scale engine: one chip as large as a wafer"],
  ["fill and drain", /\b(?:filling and draining|fill, drain|fill and drain)\b/i, "the time in which a pipeline has samples in only some of its stages"],
  ["micro-batch", /\b(?:micro-batch(?:es)?)\b/i, "a part of a batch that passes the model by itself; gradients are summed over the parts"],
  ["recomputation", /\b(?:recomputed|recomputation)\b/i, "computing an activation again in backward, where memory does not hold it"],
  ["pipelined mode", /\b(?:pipelined(?: mode)?)\b/i, "all layers are on the wafer at once, and samples flow through them"],
  ["weight-streaming mode", /\b(?:streaming(?: mode)?|weight streaming)\b/i, "layers take the whole wafer in turn, and weights stream in"],
  ["weight host (MemoryX)", /\b(?:weight host)\b/i, "keeps the weights and the optimizer state in weight-streaming mode"],
  ["input worker", /\b(?:input workers?)\b/i, "a host that reads and sends batches"],
  ["stage", /\b(?:stages?)\b/i, "a layer of a pipeline, forward and backward, with its memory"],
  ["layer", /\b(?:layers?)\b/i, "kernels of a step that share a weight"],
  ["batch", /\b(?:batch)\b/i, "the samples of one step"],
  ["timeline", /\b(?:timeline)\b/i, "spans of cycles on lanes: stages, links, hosts"],
  ["floorplan", /\b(?:floor ?plan)\b/i, "the rectangles of all stages on the mesh"],
  ["error band", /\b(?:error band)\b/i, "how far plans of training runs and of serving were from published rates"],
  ["prefill", /\b(?:prefill(?:ed)?)\b/i, "processing all tokens of a prompt at once, before the first token of the answer"],
  ["decoding", /\b(?:decoding|decoded?)\b/i, "generating the tokens of an answer one after the other, each from all tokens before it"],
  ["KV cache", /\b(?:KV cache|keys and values)\b/i, "the keys and values of all earlier tokens of a user, which attention reads for each new token"],
  ["time to first token", /\b(?:time to first token|first token)\b/i, "seconds from a prompt to the first token of the answer: prefill and the first logits"],
  ["ATen", /\b(?:ATen)\b/, "PyTorch's library of operations, and the graph of them that a step records (`torch.mlir`)"],
  ["CIRH", /\b(?:CIRH)\b/, "Cerebras intermediate representation, high level: the MLIR dialect of the vendor's front end (`cirh.mlir`)"],
  ["nest", /\b(?:loop nests?)\b/i, "a loop nest over a rectangular domain with affine accesses"],
];

// Turn the first use of each term in the texts of a section into a button that shows the meaning. Names from the user's
// script are in other elements, and a button cannot be inside another one.
function explain(box) {
  const used = new Set(), isText = (node) => node.parentElement.closest("h2, p, dt, .limit > span:not(.value)") && !node.parentElement.closest("button, a, #detail, [data-plain]");
  const walk = document.createTreeWalker(box, NodeFilter.SHOW_TEXT), nodes = [];
  while (walk.nextNode()) if (isText(walk.currentNode)) nodes.push(walk.currentNode);
  for (let node of nodes) {
    for (let found = firstTerm(node.data, used); found; found = firstTerm(node.data, used)) {
      used.add(found.n);
      const word = node.splitText(found.index);
      node = word.splitText(found.length);
      word.replaceWith(termButton(found.n, word.data));
    }
  }
}
function firstTerm(text, used) {
  const found = TERMS.flatMap(([, pattern], n) => {
    const match = used.has(n) ? null : pattern.exec(text);
    return match ? [{ n, index: match.index, length: match[0].length }] : [];
  });
  return found.sort((a, b) => a.index - b.index || b.length - a.length)[0];
}
function termButton(n, word) {
  const show = (e) => {
    const box = e.currentTarget.getBoundingClientRect();
    tell(`${TERMS[n][0]}: ${TERMS[n][2]}`, box.left - 14, box.bottom - 12);
  };
  return el("button", { type: "button", class: "term", "aria-describedby": `term-${n}`, onpointerenter: show, onpointerleave: hush, onfocus: show,
    onblur: hush, onclick: show }, word);
}
// All terms as a list, for print and for readers of the whole page. The buttons refer to its entries.
const termList = () => el("dl", { class: "terms" }, TERMS.map(([term, , meaning], n) => el("div", null, el("dt", { "data-plain": true }, term), el("dd", { id: `term-${n}` }, meaning))));
