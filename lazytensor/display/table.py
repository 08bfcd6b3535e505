"""Tables as data: columns with a format, rows of values, and functions that print them as text, Markdown, HTML or JSON.

A report defines its columns once. A new output format is one more function of `heads` and `cells`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


def rate_text(per_second: float, digits: int = 4) -> str:
    """Return a rate as text with `digits` significant digits, or as a whole number if it has at least that many digits.

    >>> rate_text(479188.55), rate_text(0.3125), rate_text(12.3, digits=2)
    ('479,189', '0.3125', '12')
    """
    return f"{per_second:,.0f}" if per_second >= 10 ** (digits - 1) else f"{per_second:.{digits}g}"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    - `head`: the title.
    - `show`: the function that formats a value.
    - `is_words`: whether it is left-aligned text; otherwise it is right-aligned.
    - `width`: the minimum width in text.
    """

    head: str
    show: Callable[[Any], str] = str
    is_words: bool = False
    width: int = 0


@dataclass(frozen=True)
class Table:
    """Columns, and rows with one value for each column.

    >>> print(Table((Column("kernel", is_words=True), Column("cycles", "{:,}".format)), [("matmul", 19200)]).text())
    kernel  cycles
    matmul  19,200
    """

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Any]]

    @property
    def heads(self) -> tuple[str, ...]:
        """The titles of the columns."""
        return tuple(column.head for column in self.columns)

    def cells(self) -> list[tuple[str, ...]]:
        """Return the rows with all values formatted."""
        return [tuple(c.show(v) for c, v in zip(self.columns, row, strict=True)) for row in self.rows]

    def text(self, gap: int = 2) -> str:
        """Return the table as text, with a line of titles and `gap` spaces between columns, without trailing spaces.

        A column is as wide as its longest cell, at least `Column.width`.
        """
        lines = [self.heads, *self.cells()]
        widths = [
            max(c.width, *map(len, cells)) for c, cells in zip(self.columns, zip(*lines, strict=True), strict=True)
        ]
        return "\n".join((" " * gap).join(self._align(line, widths)).rstrip() for line in lines)

    def line(self, cells: Sequence[str]) -> str:
        """Return one line of a table that is printed row by row, for `cells` that are formatted already.

        A column is as wide as its title, at least `Column.width`; two spaces separate columns. A wider cell moves the
        rest of the line to the right.
        """
        widths = [max(column.width, len(column.head)) for column in self.columns]
        return "  ".join(self._align(cells, widths)).rstrip()

    def _align(self, line: Sequence[str], widths: Sequence[int]) -> list[str]:
        shapes = zip(line, self.columns, widths, strict=True)
        return [cell.ljust(width) if column.is_words else cell.rjust(width) for cell, column, width in shapes]

    def markdown(self) -> str:
        """Return the table in Markdown: titles, a rule, and rows, with columns right-aligned unless they are words."""
        head, *rows = ["| " + " | ".join(line) + " |" for line in (self.heads, *self.cells())]
        rule = "".join("|---" if column.is_words else "|---:" for column in self.columns) + "|"
        return "\n".join([head, rule, *rows])

    def html(self) -> str:
        """Return the table in HTML, with columns right-aligned unless they are words. Texts are escaped."""
        rows = (("th", self.heads), *(("td", line) for line in self.cells()))
        return "<table>" + "".join(self._html_row(kind, line) for kind, line in rows) + "</table>"

    def _html_row(self, kind: str, line: Sequence[str]) -> str:
        sides = ("left" if column.is_words else "right" for column in self.columns)
        cells = (
            f'<{kind} style="text-align:{side}">{escape(cell)}</{kind}>' for cell, side in zip(line, sides, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return a dict from title to value for each row, for JSON. The values are not formatted."""
        return [dict(zip(self.heads, row, strict=True)) for row in self.rows]
