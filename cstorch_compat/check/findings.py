"""Findings: what was findings, by which rule, at which line; each line and rule once, with a count."""

import itertools
import linecache
from dataclasses import dataclass, field

from cstorch_compat.check.rewrites import RewriteContext, Shape, suggest_line
from cstorch_compat.check.rules import RULES, CheckRule
from lazytensor.core import source
from lazytensor.ir.types import Where

SEVERITIES = ("refused", "risk", "note")


@dataclass
class Finding:
    """One rule that applies at one line of the user's code.

    `operation` is what was called, with shapes and dtypes; `detail` says what is particular to this place; `columns`
    are where it begins and ends in the line, in bytes from 0, if it was seen while the line ran; `shapes` are those of
    the tensors that were given.
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
        """The line of the script, without its indentation."""
        return linecache.getline(self.file, self.line).strip() if self.file else ""

    @property
    def suggestion(self) -> str:
        """The line of code to write instead, where one expression can take the place of another."""
        if not self.file:
            return ""
        line, script = linecache.getline(self.file, self.line), "".join(linecache.getlines(self.file))
        return suggest_line(RewriteContext(self.rule.key, line, self.columns, self.shapes, script))

    def as_dict(self) -> dict[str, object]:
        """The finding as --json prints it."""
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
            "detail": self.detail,
            "way_out": self.way_out or self.rule.way_out,
            "suggestion": self.suggestion or None,
            "source": self.rule.source,
            "count": self.count,
        }


@dataclass
class Findings:
    """All that was found in a script."""

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
        """Note that a rule applies at a place; without one at the line that is being executed.

        `columns` are asked of that line, unless they were seen when it ran before.
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
        """What was found at a line already."""
        return [f for f in self.items if (f.file, f.line) == (place.file, place.line)]

    def sort_by_severity(self) -> list[Finding]:
        """By severity, then file and line."""
        return sorted(self.items, key=lambda f: (SEVERITIES.index(f.rule.severity), f.file, f.line, f.rule.id))

    def count(self, severity: str) -> int:
        """How many findings have a severity."""
        return sum(f.rule.severity == severity for f in self.items)


def find_current_columns(place: Where) -> tuple[int, int] | None:
    """The part of a line that is being executed, if that line is the one."""
    frame = source.user_frame()
    if (frame.f_code.co_filename, frame.f_lineno) != (place.file, place.line):
        return None
    # Python keeps four numbers for each instruction, of two bytes: where its expression begins and ends.
    positions = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    first, last, begin, end = positions
    # An expression over several lines cannot be shown in one.
    return (begin, end) if first == last and begin is not None and end is not None else None
