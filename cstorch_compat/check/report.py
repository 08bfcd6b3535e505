"""Format the findings of a check as text and as JSON."""

import linecache
import os
from typing import Any

from cstorch_compat.check.checked_step import NAME_RULES
from cstorch_compat.check.findings import SEVERITIES, Finding, Findings
from cstorch_compat.check.missing_names import format_missing_names
from cstorch_compat.check.outcome import CheckOutcome
from cstorch_compat.run.file_journal import format_file_changes

SCHEMA_VERSION = 1
"""Version of the JSON format. It changes when a key is removed or changes its meaning."""
SECTION_HEADINGS = {
    "refused": "Refused: the system raises an error here",
    "risk": "Risks: known to fail or to give wrong results on the cluster",
    "note": "Notes",
}
"""The heading of each severity's section in the text report."""


def to_json_dict(findings: Findings, outcome: CheckOutcome) -> dict[str, Any]:
    """Return what `lazywafer check --json` prints, as a dict. The keys are described in the package's README."""
    return {
        "schema": SCHEMA_VERSION,
        "script": outcome.script,
        "status": outcome.status(findings),
        "verdict": format_verdict(findings, outcome),
        "counts": {s: findings.count(s) for s in SEVERITIES},
        "missing_names": [m.as_dict() for m in outcome.missing],
        "findings": [f.as_dict() for f in findings.sort_by_severity()],
        "covered": {
            "loops": [{"file": p.file, "line": p.line} for p in outcome.summary.loops],
            "operations": outcome.summary.operations,
            "kernels": outcome.summary.kernels,
            "loop_carried": outcome.summary.state,
        },
        "not_covered": outcome.list_unchecked_aspects(),
        "files": {"undone": outcome.journal.undone, "remaining": outcome.journal.remaining},
        "crash": outcome.crash or None,
    }


def format_report(findings: Findings, outcome: CheckOutcome) -> str:
    """Return the text report.

    Its parts are missing names, findings by severity, a crash of the script, coverage with changed files, and the
    verdict.
    """
    parts = [
        f"lazywafer check {_relative_path(outcome.script)}: two steps of each loop are traced, and its changes to "
        "files are undone"
    ]
    if outcome.missing:
        parts.append(f"Missing names, found in the source before the run ({len(outcome.missing)})")
        parts.append(_indent(format_missing_names(outcome.missing, _relative_path), 2))
    for severity in SEVERITIES:
        # Do not repeat findings that the table of missing names contains.
        group = [f for f in findings.sort_by_severity() if f.rule.severity == severity and not _is_listed(f, outcome)]
        if group:
            parts.append(f"{SECTION_HEADINGS[severity]} ({len(group)})")
            parts += [_format_finding(f) for f in group]
    if outcome.crash:
        parts.append("The script raised an error:\n" + _indent(outcome.crash.rstrip(), 4))
    parts.append("\n".join([_format_coverage(outcome), *format_file_changes(outcome.journal)]))
    parts.append(format_verdict(findings, outcome))
    return "\n\n".join(parts)


def _is_listed(f: Finding, outcome: CheckOutcome) -> bool:
    """Return whether a finding is about a name in the table of missing names, at one of the lines listed there."""
    lines = {(os.path.abspath(p.file), p.line) for m in outcome.missing for p in m.places}
    return f.rule.key in NAME_RULES and (os.path.abspath(f.file), f.line) in lines


def _format_finding(f: Finding) -> str:
    """Return the lines of one finding: place, title, source line with carets, operation, reason, and way out."""
    times = f"  (x{f.count})" if f.count > 1 else ""
    scope = f"  in {f.scope}" if f.scope else ""
    place = f"{_relative_path(f.file)}:{f.line}" if f.file else "the run"
    lines = [f"  {f.rule.id}  {place}{scope}{times}", f"      {f.rule.title}"]
    if f.text:
        lines += [f"    | {f.text}", f"    | {_format_carets(f)}"]
    if f.operation:
        lines.append(f"      {f.operation}")
    if f.rule.why:
        lines.append(f"      why: {f.rule.why}")
    if f.detail:
        lines.append(f"           {f.detail}")
    lines.append(f"      do:  {f.way_out or f.rule.way_out}")
    if f.suggestion:
        lines.append(f"      try: {f.suggestion}")
    lines.append(f"      [{f.rule.source}]")
    return "\n".join(lines)


def _format_carets(f: Finding) -> str:
    """Return a line of carets under the expression of the finding, or under the whole line without columns."""
    # Findings from the source text have no columns.
    if f.columns is None:
        return "^" * len(f.text)
    whole = linecache.getline(f.file, f.line)
    # The columns include the indentation, which the shown line does not have.
    indent = len(whole) - len(whole.lstrip())
    begin, end = f.columns
    return " " * (begin - indent) + "^" * (end - begin)


def _indent(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def _relative_path(path: str) -> str:
    """Return `path` relative to the working directory; unchanged if it is outside of it."""
    # Paths outside of the working directory are clearer in full.
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _format_coverage(outcome: CheckOutcome) -> str:
    """Return the sentences on what the check traced (steps, operations, kernels, state) and what it did not cover."""
    s = outcome.summary
    if not s.loops:
        return "Covered: no step was traced."
    loops = ", ".join(f"{_relative_path(p.file)}:{p.line}" for p in s.loops)
    steps = "one step" if len(s.loops) == 1 else f"{len(s.loops)} steps"
    text = (
        f"Covered: {steps} traced ({loops}), {s.operations} operations, {s.kernels} kernels, "
        f"{s.state} loop-carried tensors."
    )
    gaps = outcome.list_unchecked_aspects()
    return text + ("\nNot covered: " + "; ".join(gaps) + "." if gaps else "")


def format_verdict(findings: Findings, outcome: CheckOutcome) -> str:
    """Return the last line of the report: the verdict of `findings` and `outcome`, and the next action.

    If names are missing, the line also has their number and the file and line of the first one.
    """
    missing = outcome.missing
    if not missing:
        return _format_findings_verdict(findings, outcome)
    are = "is" if len(missing) == 1 else "are"
    place = f"{_relative_path(missing[0].places[0].file)}:{missing[0].places[0].line}"
    lack = f"{_format_count(len(missing), 'name')} {are} missing in lazywafer, the first at {place}; see the table."
    return f"{_format_findings_verdict(findings, outcome)} {lack}"


def _format_findings_verdict(findings: Findings, outcome: CheckOutcome) -> str:
    """Return the verdict without the missing names.

    It begins with INCOMPLETE, NOT READY, NOTHING CHECKED, PORTABLE, TRACES or READY.
    """
    refused, risks = findings.count("refused"), findings.count("risk")
    if outcome.crash:
        so_far = f"{_format_count(refused, 'refusal')} and {_format_count(risks, 'risk')} so far"
        return f"INCOMPLETE: make the script run with `lazywafer run` first ({so_far})."
    if refused:
        rest = f" Also review {_format_count(risks, 'risk')}." if risks else ""
        places = _format_count(refused, "place")
        return f"NOT READY: the system would refuse {places}. Fix the script and check again.{rest}"
    if not outcome.summary.loops:
        return "NOTHING CHECKED: the script has no loop over a DataExecutor and calls no nn.Module in training mode."
    left = f", WITH {_format_count(risks, 'RISK')}" if risks else ""
    if outcome.summary.is_plain:
        return f"PORTABLE{left}: add the Cerebras API at the noted places, then check again."
    if risks:
        return f"TRACES{left}: review each risk before you submit the script to the cluster."
    return "READY: the check found no known refusal. Use `lazywafer run` next, then validate_only on the cluster."


def _format_count(n: int, what: str) -> str:
    """Return "1 name" or "3 names". The plural ending is upper case if `what` is."""
    plural = "S" if what.isupper() else "s"
    return f"{n} {what}" if n == 1 else f"{n} {what}{plural}"
