"""Findings of a check: which rule applies at which line. The same call at the same line is one finding with a count."""

import itertools
import linecache
from dataclasses import dataclass, field

from cstorch_compat.check.rewrites import RewriteContext, Shape, suggest_line
from cstorch_compat.check.rules import RULES, CheckRule
from lazytensor.core import source
from lazytensor.ir.types import Where

SEVERITIES = ("refused", "risk", "note")
"""The severities in the order of the report."""


@dataclass
class Finding:
    """One rule that applies at one line of the user's code.

    rule, file, line: the rule and the place; `file` is "" if the finding concerns the whole run
    operation: the call, with shapes and dtypes
    detail: what is particular to this place
    scope: the module whose forward runs there
    way_out: replaces the way out of the rule if not empty
    columns: begin and end of the expression in the line, in bytes from 0; None unless seen while the line ran
    shapes: the shapes of the tensor arguments
    count: how often it occurred
    """

    rule: CheckRule
    file: str
    line: int
    operation: str = ""
    detail: str = ""
    scope: str = ""
    way_out: str = ""
    columns: tuple[int, int] | None = None
    shapes: tuple[Shape, ...] = ()
    count: int = 1

    @property
    def text(self) -> str:
        """The line of the script without indentation; "" without a file."""
        return linecache.getline(self.file, self.line).strip() if self.file else ""

    @property
    def suggestion(self) -> str:
        """The line with an equivalent expression that breaks no rule; "" if there is none."""
        if not self.file:
            return ""
        line, script = linecache.getline(self.file, self.line), "".join(linecache.getlines(self.file))
        return suggest_line(RewriteContext(self.rule.key, line, self.columns, self.shapes, script))

    def as_dict(self) -> dict[str, object]:
        """Return the finding as a dict for JSON, as `lazywafer check --json` prints it."""
        return {
            "id": self.rule.id,
            "severity": self.rule.severity,
            "title": self.rule.title,
            "file": self.file,
            "line": self.line,
            "columns": list(self.columns) if self.columns else None,
            "source_line": self.text,
            "operation": self.operation,
            "module": self.scope,
            "why": self.rule.why,
            "detail": self.detail,
            "way_out": self.way_out or self.rule.way_out,
            "suggestion": self.suggestion or None,
            "source": self.rule.source,
            "count": self.count,
        }


@dataclass
class Findings:
    """The list of all findings in a script."""

    items: list[Finding] = field(default_factory=list)

    def add(
        self,
        rule: str,
        place: Where | None = None,
        operation: str = "",
        detail: str = "",
        way_out: str = "",
        shapes: tuple[Shape, ...] = (),
        columns: tuple[int, int] | None = None,
    ) -> Finding:
        """Add a finding of the rule with key `rule` and return it.

        `place` defaults to the user's line that is being executed. If the same rule, line and `operation` exist
        already, only the count of that finding is increased. `columns` default to those of the running expression, if
        it is at `place`.
        """
        at = place or source.where()
        row = RULES[rule]
        # The same call in a Python loop is one finding with a count.
        for f in self.items:
            if (f.rule.id, f.file, f.line, f.operation) == (row.id, at.file, at.line, operation):
                f.count += 1
                return f
        finding = Finding(
            rule=row,
            file=at.file,
            line=at.line,
            operation=operation,
            detail=detail,
            scope=at.scope,
            way_out=way_out,
            columns=columns or find_current_columns(at),
            shapes=shapes,
        )
        self.items.append(finding)
        return finding

    def at(self, place: Where) -> list[Finding]:
        """Return the findings at the file and line of `place`."""
        return [f for f in self.items if (f.file, f.line) == (place.file, place.line)]

    def sort_by_severity(self) -> list[Finding]:
        """Return the findings sorted by severity, file, line and rule."""
        return sorted(self.items, key=lambda f: (SEVERITIES.index(f.rule.severity), f.file, f.line, f.rule.id))

    def count(self, severity: str) -> int:
        """Return the number of findings with a severity."""
        return sum(f.rule.severity == severity for f in self.items)


def find_current_columns(place: Where) -> tuple[int, int] | None:
    """Return begin and end column, in bytes, of the user's expression that is being executed.

    Returns None if the running line is not `place`, or if the expression extends over several lines.
    """
    frame = source.user_frame()
    if (frame.f_code.co_filename, frame.f_lineno) != (place.file, place.line):
        return None
    # co_positions() has one entry per instruction, and an instruction has two bytes.
    positions = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    first, last, begin, end = positions
    # An expression of several lines has no columns in one line.
    return (begin, end) if first == last and begin is not None and end is not None else None
