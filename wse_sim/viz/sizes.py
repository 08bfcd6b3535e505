"""Closed form beside simulation over sizes, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass


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


_HEADS = ("closed form", "simulated", "error")


def compare_sizes(found: Sequence[SizePoint], name: str = "size") -> str:
    """A line for each size: cycles of both, and the error of the closed form."""
    lines = [(name, *_HEADS)]
    lines += [
        (f"{s.size:,}", f"{s.closed_cycles:,.0f}", f"{s.simulated_cycles:,.0f}", f"{100 * s.error:+.1f} %")
        for s in found
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines) + "\n"
