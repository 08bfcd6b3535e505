// The findings of `lazywafer check`: a section, and marks where their lines occur elsewhere on the page.

const FINDINGS = DATA.check ? DATA.check.findings : [];
const placeOf = (finding) => `${finding.file}:${finding.line}`;
const findingsAt = (where) => FINDINGS.filter((f) => f.severity !== "note" && placeOf(f) === where);
const plural = (n, word) => `${n || "no"} ${word}${n === 1 ? "" : "s"}`;
const countOf = (severity) => FINDINGS.filter((f) => f.severity === severity).length;
const findingCounts = () => `${plural(countOf("refused"), "refusal")} and ${plural(countOf("risk"), "risk")}`;

// Marks for a line: links to its findings, and the words of a tip.
const findingLinks = (where) => findingsAt(where).map((f) => el("a", { class: `rule is-${f.severity}`, href: `#finding-${FINDINGS.indexOf(f)}`,
  "aria-label": `${f.id}, ${f.severity}: ${f.title}` }, f.id));
const findingWords = (where) => findingsAt(where).map((f) => `${f.id} (${f.severity}): ${f.title}`);
const findingRemarks = (where) => findingsAt(where).map((f) => el("span", { class: "remark" }, `      ${f.id} ${f.severity}: ${f.title}`));

// The layers that a finding marks in all charts are those of its line.
const layersAt = (where) => mode().rows.flatMap((row, n) => (row.where === where ? [n] : []));

function findingItem(finding) {
  const n = FINDINGS.indexOf(finding), where = placeOf(finding);
  const place = finding.file ? `${file(finding.file)}:${finding.line}` : "the run";
  const more = [finding.operation, finding.module && `in ${finding.module}`, finding.count > 1 && `${finding.count} times`].filter(Boolean).join(", ");
  return el("li", { id: `finding-${n}`, class: `finding is-${finding.severity}`, tabindex: -1, ...lights(layersAt(where)) },
    el("h3", null, el("span", { class: `rule is-${finding.severity}` }, finding.id), ` ${finding.title}`),
    el("p", { class: "note", "data-plain": true }, `${finding.severity}, ${place}${more ? ": " + more : ""}`),
    finding.source_line && el("code", { class: "line" }, el("span", { class: "number" }, `${finding.line}  `), finding.source_line),
    el("p", { "data-plain": true }, el("b", null, "Do: "), finding.way_out),
    finding.suggestion && el("p", { "data-plain": true }, el("b", null, "Try: "), el("code", null, finding.suggestion)),
    finding.severity !== "note" && el("details", null, el("summary", null, `Why ${finding.id} matters`),
      [finding.why, finding.detail, `Source: ${finding.source}.`].filter(Boolean).map((words) => el("p", { class: "note", "data-plain": true }, words))));
}
function findingList(severities) {
  const listed = FINDINGS.filter((f) => severities.includes(f.severity));
  return listed.length > 0 && el("ul", { class: "plain" }, listed.map(findingItem));
}
