"""Measure the time of each instruction of host programs, and list the instructions that run in NumPy."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lazytensor.display.table import Column, Table
from lazytensor.ir.program import Instr

Step = Callable[[], object]
NUMPY = "NumPy"
_SHOWN = 20  # number of the slowest rows in the report; rows that NumPy ran are always shown


@dataclass
class Timing:
    """The instructions of one operation at one line of the script.

    - `operation`: the name of the operation or kernel.
    - `way`: what runs it: "machine code", "BLAS" or "NumPy".
    - `line`: the line of the script.
    - `runs`: the number of runs.
    - `seconds`: the total time.
    """

    operation: str
    way: str
    line: str
    runs: int = 0
    seconds: float = 0.0


@dataclass
class Timings:
    """The times of all instructions that ran in a `follow()` block."""

    rows: dict[tuple[str, str, str], Timing] = field(default_factory=dict)

    def timed(self, step: Step, instr: Instr, way: str) -> Step:
        """Return a function that calls `step` and adds its time, and one run, to the row of `instr`.

        A row is one operation at one line of the script, run by `way`.
        """
        where = instr.where
        name = instr.attrs.get("op", instr.kernel) if instr.nest is None else (where and where.operation) or "loop"
        key = (str(name), way, str(where or ""))
        row = self.rows.setdefault(key, Timing(*key))

        def run() -> None:
            begin = time.perf_counter()
            step()
            row.seconds += time.perf_counter() - begin
            row.runs += 1

        return run

    def text(self) -> str:
        """Return a report: the total time by way, then a table of the 20 slowest rows and of all rows that NumPy ran.

        Without runs, the report is one sentence.
        """
        rows = sorted((r for r in self.rows.values() if r.runs), key=lambda r: -r.seconds)
        if not rows:
            return "profile: no compiled step ran on the host"
        ways = {r.way: 0.0 for r in rows}
        for r in rows:
            ways[r.way] += r.seconds
        whole = sum(ways.values())
        sums = ", ".join(f"{way} {s * 1e3:.1f} ms" for way, s in ways.items())
        shown = [r for k, r in enumerate(rows) if k < _SHOWN or r.way == NUMPY]
        columns = (
            Column("ms", "{:.2f}".format),
            Column("%", "{:.1f}".format),
            Column("runs"),
            Column("by", is_words=True),
            Column("operation", is_words=True),
            Column("line", is_words=True),
        )
        cells = [
            (r.seconds * 1e3, 100 * r.seconds / max(whole, 1e-12), r.runs, r.way, r.operation, r.line) for r in shown
        ]
        rest = len(rows) - len(shown)
        return "\n".join([f"profile of compiled steps on the host: {sums}", Table(columns, cells).text()]) + (
            f"\nand {rest} more rows with a kernel" if rest else ""
        )


_open: list[Timings] = []


def current() -> Timings | None:
    """Return the timings of the innermost open `follow()` block, or None."""
    return _open[-1] if _open else None


@contextmanager
def follow() -> Iterator[Timings]:
    """Measure the programs that are bound in this block. The context manager yields their `Timings`.

    Their instructions run one by one from Python, not in chains. Programs that were bound before are not measured.
    """
    _open.append(Timings())
    try:
        yield _open[-1]
    finally:
        _open.pop()
