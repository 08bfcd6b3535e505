"""Closed form beside simulation over sizes, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from lazytensor.display.table import Column, Table


@dataclass(frozen=True)
class SizePoint:
    """One size of a problem, and its cycles by the closed form and by the simulation."""

    size: int
    closed_cycles: float
    simulated_cycles: float

    @property
    def error(self) -> float:
        """Of the closed form, relative to the simulation."""
        return self.closed_cycles / self.simulated_cycles - 1


def compare_sizes(points: Sequence[SizePoint], name: str = "size") -> str:
    """A line for each size: cycles of both, and the error of the closed form."""
    cycles = (Column(head, "{:,.0f}".format) for head in ("closed form", "simulated"))
    columns = (Column(name, "{:,}".format), *cycles, Column("error", lambda error: f"{100 * error:+.1f} %"))
    rows = [(p.size, p.closed_cycles, p.simulated_cycles, p.error) for p in points]
    return Table(columns, rows).text() + "\n"
