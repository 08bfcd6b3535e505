"""Tables that compare closed forms and simulations over problem sizes."""

from collections.abc import Sequence
from dataclasses import dataclass

from lazytensor.display.table import Column, Table


@dataclass(frozen=True)
class SizePoint:
    """A problem size with its cycles by the closed form and by the simulation."""

    size: int
    closed_cycles: float
    simulated_cycles: float

    @property
    def error(self) -> float:
        """Return the relative error of the closed form, with the simulation as reference."""
        return self.closed_cycles / self.simulated_cycles - 1


def compare_sizes(points: Sequence[SizePoint], name: str = "size") -> str:
    """Return a table as text with a row for each size: both numbers of cycles, and the error of the closed form.

    `name` is the heading of the sizes.
    """
    cycles = (Column(head, "{:,.0f}".format) for head in ("closed form", "simulated"))
    columns = (Column(name, "{:,}".format), *cycles, Column("error", lambda error: f"{100 * error:+.1f} %"))
    rows = [(p.size, p.closed_cycles, p.simulated_cycles, p.error) for p in points]
    return Table(columns, rows).text() + "\n"
