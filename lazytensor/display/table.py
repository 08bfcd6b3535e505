"""A table as data: columns that know how they are shown, rows of values, and printers that know nothing of either.

A report says once what its columns are; text, Markdown, HTML and plain data for JSON are four readings of that, and
another format is one more function over `heads` and `cells`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


def rate_text(per_second: float, digits: int = 4) -> str:
    """Return a rate as text: whole where it has `digits` digits before the point, else rounded to `digits` digits.

    >>> rate_text(479188.55), rate_text(0.3125), rate_text(12.3, digits=2)
    ('479,189', '0.3125', '12')
    """
    return f"{per_second:,.0f}" if per_second >= 10 ** (digits - 1) else f"{per_second:.{digits}g}"


@dataclass(frozen=True)
class Column:
    """A column: its head, how a value is shown, and the least width in text. Words stand to the left, figures right."""

    head: str
    show: Callable[[Any], str] = str
    is_words: bool = False
    width: int = 0


@dataclass(frozen=True)
class Table:
    """Rows of values, as many in each as there are columns.

    >>> print(Table((Column("kernel", is_words=True), Column("cycles", "{:,}".format)), [("matmul", 19200)]).text())
    kernel  cycles
    matmul  19,200
    """

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Any]]

    @property
    def heads(self) -> tuple[str, ...]:
        """The first line of every printer."""
        return tuple(column.head for column in self.columns)

    def cells(self) -> list[tuple[str, ...]]:
        """The rows as they are shown."""
        return [tuple(c.show(v) for c, v in zip(self.columns, row, strict=True)) for row in self.rows]

    def text(self, gap: int = 2) -> str:
        """Lines of equal columns, `gap` blanks apart, without blanks at their ends."""
        lines = [self.heads, *self.cells()]
        widths = [
            max(c.width, *map(len, cells)) for c, cells in zip(self.columns, zip(*lines, strict=True), strict=True)
        ]
        return "\n".join((" " * gap).join(self._align(line, widths)).rstrip() for line in lines)

    def line(self, cells: Sequence[str]) -> str:
        """Return one line of a table that is printed row by row: cells as shown, in columns of their least widths.

        A cell that is wider than its column moves the rest of its line to the right.
        """
        widths = [max(column.width, len(column.head)) for column in self.columns]
        return "  ".join(self._align(cells, widths)).rstrip()

    def _align(self, line: Sequence[str], widths: Sequence[int]) -> list[str]:
        shapes = zip(line, self.columns, widths, strict=True)
        return [cell.ljust(width) if column.is_words else cell.rjust(width) for cell, column, width in shapes]

    def markdown(self) -> str:
        """A table in Markdown, figures aligned to the right."""
        head, *rows = ["| " + " | ".join(line) + " |" for line in (self.heads, *self.cells())]
        rule = "".join("|---" if column.is_words else "|---:" for column in self.columns) + "|"
        return "\n".join([head, rule, *rows])

    def html(self) -> str:
        """A table for a notebook, figures aligned to the right."""
        rows = (("th", self.heads), *(("td", line) for line in self.cells()))
        return "<table>" + "".join(self._html_row(kind, line) for kind, line in rows) + "</table>"

    def _html_row(self, kind: str, line: Sequence[str]) -> str:
        sides = ("left" if column.is_words else "right" for column in self.columns)
        cells = (
            f'<{kind} style="text-align:{side}">{escape(cell)}</{kind}>' for cell, side in zip(line, sides, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    def as_dicts(self) -> list[dict[str, Any]]:
        """The values themselves by head, a dictionary for each row, for JSON."""
        return [dict(zip(self.heads, row, strict=True)) for row in self.rows]
