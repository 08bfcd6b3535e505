"""Timing: what each instruction of the host's programs takes, and which of them no kernel of ours runs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lazytensor.display.table import Column, Table
from lazytensor.ir.program import Instr

Step = Callable[[], object]
NUMPY = "NumPy"
_SHOWN = 20  # rows of what has a kernel; of NumPy's all


@dataclass
class Timing:
    """Instructions of one kind at one line: how often they ran, and how long in all."""

    operation: str
    way: str
    line: str
    runs: int = 0
    seconds: float = 0.0


@dataclass
class Timings:
    """All that ran while it was open."""

    rows: dict[tuple[str, str, str], Timing] = field(default_factory=dict)

    def timed(self, step: Step, instr: Instr, way: str) -> Step:
        """A step that adds up how long it takes."""
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
        """A line of sums by way, then the rows that took longest, and every one that NumPy ran."""
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
            f"\nand {rest} more that have a kernel" if rest else ""
        )


_open: list[Timings] = []


def current() -> Timings | None:
    """Where programs that are bound now report what they take."""
    return _open[-1] if _open else None


@contextmanager
def follow() -> Iterator[Timings]:
    """Time the programs that are bound in this block; they run instruction by instruction, without chains."""
    _open.append(Timings())
    try:
        yield _open[-1]
    finally:
        _open.pop()
