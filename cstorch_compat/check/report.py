"""Findings as text for people and as JSON for tools."""

import linecache
import os
from typing import Any

from cstorch_compat.check.findings import SEVERITIES, Finding, Findings
from cstorch_compat.check.missing import as_table
from cstorch_compat.check.outcome import Outcome
from cstorch_compat.check.step import NAMES
from cstorch_compat.run.file_journal import file_report

SCHEMA = 1
"""Version of the JSON; it changes when a key is taken away or means something else."""
HEADS = {
    "refused": "Refused: the stack raises an error here",
    "risk": "Risks: known to fail or to misbehave on the cluster",
    "note": "Notes",
}


def as_dict(findings: Findings, outcome: Outcome) -> dict[str, Any]:
    """What --json prints; the keys are described in the README of the package."""
    return {
        "schema": SCHEMA,
        "script": outcome.script,
        "status": outcome.status(findings),
        "verdict": verdict(findings, outcome),
        "counts": {s: findings.count(s) for s in SEVERITIES},
        "missing_names": [m.as_dict() for m in outcome.missing],
        "findings": [f.as_dict() for f in findings.ordered()],
        "covered": {
            "loops": [{"file": p.file, "line": p.line} for p in outcome.summary.loops],
            "operations": outcome.summary.operations,
            "kernels": outcome.summary.kernels,
            "loop_carried": outcome.summary.state,
        },
        "not_covered": outcome.gaps(),
        "files": {"undone": outcome.journal.undone, "remaining": outcome.journal.remaining},
        "crash": outcome.crash or None,
    }


def as_text(findings: Findings, outcome: Outcome) -> str:
    """The report as it is printed."""
    parts = [f"lazywafer check {_short(outcome.script)}: it is run up to its first step, and what it writes is undone"]
    if outcome.missing:
        parts.append(f"Missing names, read before anything ran ({len(outcome.missing)})")
        parts.append(_indented(as_table(outcome.missing, _short), 2))
    for severity in SEVERITIES:
        # What the table says already is said once.
        group = [f for f in findings.ordered() if f.rule.severity == severity and not _is_listed(f, outcome)]
        if group:
            parts.append(f"{HEADS[severity]} ({len(group)})")
            parts += [_entry(f) for f in group]
    if outcome.crash:
        parts.append("The script itself stopped with an error:\n" + _indented(outcome.crash.rstrip(), 4))
    parts.append("\n".join([_coverage(outcome), *file_report(outcome.journal)]))
    parts.append(verdict(findings, outcome))
    return "\n\n".join(parts)


def _is_listed(f: Finding, outcome: Outcome) -> bool:
    """Whether a finding is about a name of the table, at one of its lines."""
    lines = {(os.path.abspath(p.file), p.line) for m in outcome.missing for p in m.places}
    return f.rule.key in NAMES and (os.path.abspath(f.file), f.line) in lines


def _entry(f: Finding) -> str:
    times = f"  (x{f.count})" if f.count > 1 else ""
    scope = f"  in {f.scope}" if f.scope else ""
    place = f"{_short(f.file)}:{f.line}" if f.file else "the run"
    lines = [f"  {f.rule.id}  {place}{scope}{times}", f"      {f.rule.title}"]
    if f.text:
        lines += [f"    | {f.text}", f"    | {_caret(f)}"]
    if f.operation:
        lines.append(f"      {f.operation}")
    if f.rule.why:
        lines.append(f"      why: {f.rule.why}")
    if f.detail:
        lines.append(f"           {f.detail}")
    lines.append(f"      do:  {f.way_out or f.rule.way_out}")
    # A whole line to copy, where the way out is another expression.
    if f.suggestion:
        lines.append(f"      try: {f.suggestion}")
    lines.append(f"      [{f.rule.source}]")
    return "\n".join(lines)


def _caret(f: Finding) -> str:
    """A line of carets below what is meant, or below the whole line."""
    # Findings that were read in the text have no position in the line.
    if f.columns is None:
        return "^" * len(f.text)
    whole = linecache.getline(f.file, f.line)
    # The line is shown without its indentation, and columns count with it.
    indent = len(whole) - len(whole.lstrip())
    begin, end = f.columns
    return " " * (begin - indent) + "^" * (end - begin)


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def _short(path: str) -> str:
    # Paths outside of the working folder are clearer in full.
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _coverage(outcome: Outcome) -> str:
    s = outcome.summary
    if not s.loops:
        return "Covered: no step was traced."
    loops = ", ".join(f"{_short(p.file)}:{p.line}" for p in s.loops)
    steps = "one step" if len(s.loops) == 1 else f"{len(s.loops)} steps"
    text = (
        f"Covered: {steps} traced ({loops}), {s.operations} operations, {s.kernels} kernels, "
        f"{s.state} loop-carried tensors."
    )
    gaps = outcome.gaps()
    return text + ("\nNot covered: " + "; ".join(gaps) + "." if gaps else "")


def verdict(findings: Findings, outcome: Outcome) -> str:
    """The last line: how it stands, and what to do next."""
    missing = outcome.missing
    if not missing:
        return _verdict(findings, outcome)
    are = "is" if len(missing) == 1 else "are"
    place = f"{_short(missing[0].places[0].file)}:{missing[0].places[0].line}"
    lack = f"{_counted(len(missing), 'name')} {are} missing here, from {place} on; see the table."
    return f"{_verdict(findings, outcome)} {lack}"


def _verdict(findings: Findings, outcome: Outcome) -> str:
    refused, risks = findings.count("refused"), findings.count("risk")
    if outcome.crash:
        so_far = f"{_counted(refused, 'refusal')} and {_counted(risks, 'risk')} so far"
        return f"INCOMPLETE: make the script run with `lazywafer run` first ({so_far})."
    if refused:
        rest = f" {_counted(risks, 'risk')} to look at." if risks else ""
        return f"NOT READY: the system would refuse {_counted(refused, 'place')}. Fix, then check again.{rest}"
    if not outcome.summary.loops:
        return "NOTHING CHECKED: there is no loop over a DataExecutor, and no nn.Module is called in training mode."
    left = f", WITH {_counted(risks, 'RISK')}" if risks else ""
    if outcome.summary.is_plain:
        return f"PORTABLE{left}: add the Cerebras API at the places noted, then check again."
    if risks:
        return f"TRACES{left}: look at each before you queue for the cluster."
    return "READY: nothing the system is known to refuse. Next: `lazywafer run`, then validate_only on the cluster."


def _counted(n: int, what: str) -> str:
    plural = "S" if what.isupper() else "s"
    return f"{n} {what}" if n == 1 else f"{n} {what}{plural}"
