"""Findings: what was found, by which rule, at which line; each line and rule once, with a count."""

import linecache
from dataclasses import dataclass, field

from cstorch_compat.check.rules import RULES, Rule
from lazytensor import source
from lazytensor.ir.types import Where

SEVERITIES = ("refused", "risk", "note")


@dataclass
class Finding:
    """One rule that applies at one line of the user's code.

    `operation` is what was called, with shapes and dtypes; `detail` says what is particular to this place.
    """

    rule: Rule
    file: str
    line: int
    operation: str = ""
    detail: str = ""
    scope: str = ""
    way_out: str = ""
    count: int = 1

    @property
    def text(self) -> str:
        """The line of the script, without its indentation."""
        return linecache.getline(self.file, self.line).strip() if self.file else ""

    def as_dict(self) -> dict[str, object]:
        """The finding as --json prints it."""
        return {
            "id": self.rule.id,
            "severity": self.rule.severity,
            "title": self.rule.title,
            "file": self.file,
            "line": self.line,
            "source_line": self.text,
            "operation": self.operation,
            "module": self.scope,
            "detail": self.detail,
            "way_out": self.way_out or self.rule.way_out,
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
        scope: str = "",
        way_out: str = "",
    ) -> Finding:
        """Note that a rule applies at a place; without one at the line that is being executed."""
        at = place or source.where()
        found = RULES[rule]
        for f in self.items:
            if (f.rule.id, f.file, f.line, f.operation) == (found.id, at.file, at.line, operation):
                f.count += 1
                return f
        made = Finding(found, at.file, at.line, operation, detail, scope or at.scope, way_out)
        self.items.append(made)
        return made

    def at(self, place: Where) -> list[Finding]:
        """What was found at a line already."""
        return [f for f in self.items if (f.file, f.line) == (place.file, place.line)]

    def ordered(self) -> list[Finding]:
        """By severity, then file and line."""
        return sorted(self.items, key=lambda f: (SEVERITIES.index(f.rule.severity), f.file, f.line, f.rule.id))

    def count(self, severity: str) -> int:
        """How many findings have a severity."""
        return sum(f.rule.severity == severity for f in self.items)
