"""Print the rows of a plan as soon as they are known, and the current work on a terminal."""

import shutil
import sys
from types import TracebackType

from cstorch_compat.planning.combinations import PlanRequest, explain_rows, format_row, make_columns
from lazytensor.display.table import Table
from lazytensor.system.terminal import escape_line, print_escaped
from wse_sim import SweepRecord

_CLEAR_LINE = "\r\x1b[K"


class RowPrinter:
    """A context manager that prints rows on stdout and a status line on stderr.

    The status line is shown only if stderr is a terminal, and is cleared at the end. If `is_silent`, rows are not
    printed, as for JSON output.
    """

    def __init__(self, wanted: PlanRequest, is_silent: bool):
        self.wanted, self.is_silent = wanted, is_silent
        self._rows: list[SweepRecord] = []
        self._names: list[str] = []
        self._has_status = sys.stderr.isatty()

    def __enter__(self) -> "RowPrinter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.status("")

    def status(self, text: str) -> None:
        """Show the current work in the status line. An empty text clears it."""
        if self._has_status:
            shown = escape_line(text)[: shutil.get_terminal_size().columns - 1]
            print(_CLEAR_LINE + shown, end="", file=sys.stderr, flush=True)

    def begin(self, batch_size: int) -> None:
        """Print the head of the table. `batch_size` is that of the script."""
        self._columns, self._names = make_columns(self.wanted, batch_size), self.wanted.named(batch_size)
        self._print(Table(self._columns, ()).line([column.head for column in self._columns]))

    def show(self, row: SweepRecord) -> None:
        """Print a row."""
        self._rows.append(row)
        self._print(format_row(self._columns, row))

    def finish(self) -> None:
        """Print the sentences below the table."""
        for text in explain_rows(self._rows):
            self._print(f"\n{text}")

    def _print(self, line: str) -> None:
        """Print a line, then show the next combination in the status line."""
        self.status("")
        if not self.is_silent:
            print_escaped(line)
            sys.stdout.flush()
        done = len(self._rows)
        if done < len(self._names):
            self.status(f"planning {done + 1} of {len(self._names)}: {self._names[done]}")
