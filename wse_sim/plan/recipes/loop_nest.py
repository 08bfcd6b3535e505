"""Loop nests: elements spread over all PEs; reductions in partial results that are combined over the fabric.

A nest of the update sweep without a reduction is purely local: state, its slots and the gradient lie alike.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from lazytensor.ir.nest import Access, Nest
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from wse_sim.kernels.kernel import MeshKernel, price_alone
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import IDLE, Broadcast, Compute, Par, Phase, Reduce, Seq
from wse_sim.plan.recipes.generic import element_bytes, generic
from wse_sim.plan.wiring import Wiring
from wse_sim.price.cost import cost, words


@dataclass(frozen=True)
class Counts:
    """Operations for each iteration, by the unit that runs them."""

    add: int = 0
    special: int = 0
    move: int = 0


def nest(instr: Instr, wiring: Wiring, rect: Rect, machine: Machine) -> MeshKernel:
    """The fastest distribution of the nest of `instr`; without a nest, by its work alone."""
    loops = instr.nest
    if loops is None:
        return generic(instr, wiring, rect, machine)
    rows = prod(loop.extent for loop in loops.loops if not loop.is_reduction)
    depth = prod(loop.extent for loop in loops.loops if loop.is_reduction)
    if not rows * depth:
        return price_alone(IDLE)
    itemsize = element_bytes(instr, wiring)
    counts = count_operations(loops)
    shared = IDLE if instr.direction == "update" else _shared_operands(instr, loops, wiring, rect, machine)
    if not any(loop.is_reduction for loop in loops.loops):
        return price_alone(Seq((shared, *_computes(counts, 1, ceil_div(rows, rect.area), rect, itemsize))))
    # Whether a sum is worth its words on the fabric depends on its depth and on the latency: the closed forms decide.
    body = min(_reductions(counts, rows, depth, itemsize, rect, machine), key=lambda phase: cost(phase, machine).cycles)
    return price_alone(Seq((shared, body)))


def count_operations(loops: Nest) -> Counts:
    """Operations of the body, and one accumulation for each reducing store.

    A body without any operation moves its elements.
    """
    units = Counter(scalar.unit for scalar in loops.body)
    reducing = sum(bool(store.reduce) for store in loops.stores)
    counts = Counts(units["add"] + reducing, units["special"], units["move"])
    return counts if counts != Counts() else Counts(move=len(loops.stores))


def _computes(counts: Counts, vectors: int, length: int, rect: Rect, itemsize: int) -> Iterator[Phase]:
    for op, count in (("add", counts.add), ("special", counts.special), ("move", counts.move)):
        if count:
            yield Compute(rect, op=op, vectors=count * vectors, length=length, itemsize=itemsize)


def _shared_operands(instr: Instr, loops: Nest, wiring: Wiring, rect: Rect, machine: Machine) -> Phase:
    """Broadcasts of what several iterations read, such as a mean of each row; resident operands lie where needed."""
    sends: list[Phase] = []
    for buffer, type, access in zip(instr.reads, loops.inputs, loops.reads, strict=False):
        if buffer in wiring.resident or not _is_shared(type, access, loops):
            continue
        # One number for all goes over both axes at once; what varies along y needs its own line only.
        if type.size == 1:
            sends.append(Broadcast(rect, axis="xy", words=words(1, type.dtype.itemsize, machine)))
        else:
            own = ceil_div(type.size, rect.height)
            sends.append(Broadcast(rect, axis="x", words=words(own, type.dtype.itemsize, machine)))
    return Par(tuple(sends))


def _is_shared(type: Type, access: Access, loops: Nest) -> bool:
    skips = any(s == 0 and loop.extent > 1 for s, loop in zip(access.strides, loops.loops, strict=False))
    return skips and type.size > 0


def _reductions(counts: Counts, rows: int, depth: int, itemsize: int, rect: Rect, machine: Machine) -> Iterator[Phase]:
    """Cut the depth over 1 or many PEs along x, then over 1 or many along y; rows fill the rest."""
    for parts_x in {1, min(rect.width, depth)}:
        for parts_y in {1, min(rect.height, ceil_div(depth, parts_x))}:
            lines_x, lines_y = rect.width // parts_x, rect.height // parts_y
            own_rows = ceil_div(rows, lines_x * lines_y)
            own_depth = ceil_div(depth, parts_x * parts_y)
            # Vector operations run along the longer side: setups are paid once for each of them.
            short, long = sorted((own_rows, own_depth))
            sent = words(own_rows, itemsize, machine)
            yield Seq(
                (
                    *_computes(counts, short, long, rect, itemsize),
                    Reduce(rect, axis="x", words=sent, groups=lines_x),
                    Reduce(rect, axis="y", words=sent, groups=lines_y),
                )
            )
