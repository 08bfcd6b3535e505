"""Kernels over rows: steps over the elements of each row, and combinations along it.

`parts` PEs share a row along x and combine their partial results over the fabric; with one part every PE has whole
rows to itself and nothing is sent. Both are priced and the faster one is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import IDLE, AllReduce, Compute, Phase, Seq
from wse_sim.price.cost import cost, words


@dataclass(frozen=True)
class RowStep:
    """`count` operations of one kind: for each element, or (`is_per_row`) for each row.

    With `has_all_reduce` the row is then combined into one value, which all parts of the row get.
    """

    op: str
    count: int = 1
    is_per_row: bool = False
    has_all_reduce: bool = False


def row_program(
    steps: Sequence[RowStep], rows: int, columns: int, itemsize: int, rect: Rect, machine: Machine
) -> Phase:
    """The faster of whole rows on each PE and rows cut along x."""
    if not rows * columns:
        return IDLE
    choices = [
        # The two extremes only: no words on the fabric, or as many PEs for each row as it has columns.
        _with_parts(steps, rows, columns, itemsize, rect, machine, parts)
        for parts in {1, min(columns, rect.width)}
    ]
    return min(choices, key=lambda phase: cost(phase, machine).cycles)


def _with_parts(
    steps: Sequence[RowStep], rows: int, columns: int, itemsize: int, rect: Rect, machine: Machine, parts: int
) -> Phase:
    lines = rect.width // parts
    own_rows = ceil_div(rows, lines * rect.height)
    own_columns = ceil_div(columns, parts)
    phases: list[Phase] = []
    for step in steps:
        elements = own_rows if step.is_per_row else own_rows * own_columns
        phases.append(Compute(rect, op=step.op, vectors=step.count, length=elements, itemsize=itemsize))
        if step.has_all_reduce:
            # One word for each row that the PE has a part of; all of its rows go in one operation.
            phases.append(AllReduce(rect, axis="x", words=words(own_rows, itemsize, machine), groups=lines))
    return Seq(tuple(phases))
