"""Cost terms of moves on a rectangle, along one axis or over both, with the local copies before and after.

A move is one or more steps. Each step acts on several equal lines at the same time. A step begins when the previous one
has finished on the cores that it needs.
"""

import math
from dataclasses import dataclass, replace

from wse_sim.cost_model import collectives
from wse_sim.cost_model.collectives import ZERO_TERMS, LineTerms, slowest_terms
from wse_sim.cost_model.reduction_tree import choose_all_reduce, choose_plane, reduce_terms
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Reduce, Shift, Stream

MovePhase = Shift | Broadcast | Reduce | AllReduce


@dataclass(frozen=True)
class MoveStep:
    """One step of a move: the `terms` of one line, and the number of `lines`."""

    terms: LineTerms
    lines: int = 1


def move_steps(phase: MovePhase, machine: Machine) -> tuple[MoveStep, ...]:
    """Return the steps of a move, in order; none if it has no words."""
    if not phase.words:
        return ()
    match phase:
        case Shift():
            return (_shift_step(phase, machine),)
        case Broadcast():
            return (_broadcast_step(phase, machine),)
        case Reduce():
            return _reduce_steps(phase, machine)
        case AllReduce():
            return _all_reduce_steps(phase, machine)


def count_lines(rect: Rect, axis: str, groups: int = 1) -> tuple[int, int]:
    """Return (PEs of one line, number of lines) of a rectangle along `axis` ("x" or "y"), each row or column cut into
    `groups`.
    """
    length, across = (rect.width, rect.height) if axis == "x" else (rect.height, rect.width)
    return length // groups, across * groups


def copy_terms(words: int, machine: Machine) -> LineTerms:
    """Return the cost terms of a copy of `words` within the memory of a core."""
    # Words are copied as float32 whatever they contain: two 16-bit elements are one word.
    return LineTerms(starts=1, local_cycles=math.ceil(words / machine.move_f32_per_cycle))


def _shift_step(phase: Shift, machine: Machine) -> MoveStep:
    """Return the step of a shift.

    If some core both sends and receives, and received words may overwrite words to send, each core copies its words
    first. A ring of one PE is a copy, unless the addresses are equal, and two copies if the words overlap and have two
    strides. A stride does not change the rate of a vector operation.
    """
    pes, lines = count_lines(phase.rect, phase.axis)
    pairs = collectives.shift_pairs(pes, phase.hops, phase.wrap)
    terms = collectives.shift_terms(pes, phase.words, phase.hops, phase.wrap, machine)
    # A ring of one PE sends to itself, which is a copy; without a wrap it does nothing.
    if phase.wrap and not pairs and phase.sent != phase.received:
        copied = copy_terms(phase.words, machine)
        if phase.overlaps and phase.take_stride != phase.put_stride:
            copied = replace(copied, starts=2 * copied.starts, local_cycles=2 * copied.local_cycles)
        return MoveStep(copied, lines)
    # Received words may overwrite words that are still to be sent. Then they are copied first, but only if some core
    # does both: a line of two PEs without a wrap needs no copy.
    both = {i for i, _ in pairs} & {j for _, j in pairs}
    if both and phase.overlaps:
        copied = copy_terms(phase.words, machine)
        terms = replace(terms, starts=terms.starts + copied.starts, local_cycles=copied.local_cycles)
    return MoveStep(terms, lines)


def _broadcast_step(phase: Broadcast, machine: Machine) -> MoveStep:
    """Return the step of a broadcast.

    The sender also copies its own words if `put` differs from `take`; the slower of this and the other PEs counts. In a
    rectangle with several rows and columns the route turns, which takes longer.
    """
    rect = phase.rect
    if phase.axis == "xy":
        pes, lines = rect.area, 1
        terms = collectives.plane_broadcast_terms(rect.width, rect.height, phase.words, phase.source)
        # Every word turns once, from the row of the source into the columns, on routers that forward it at full rate.
        # That is latency, not contention.
        if rect.width > 1 and rect.height > 1:
            terms = replace(terms, local_cycles=machine.turn_cycles)
    else:
        pes, lines = count_lines(rect, phase.axis, phase.groups)
        terms = collectives.broadcast_terms(pes, phase.words, phase.source)
    if phase.take == phase.put:
        return MoveStep(terms, lines)
    copied = copy_terms(phase.words, machine)
    # The sender has finished when it has sent and copied, the others when the last word has arrived. The later one
    # counts.
    sent = LineTerms(
        depth=0,
        distance=0,
        energy=terms.energy,
        contention=phase.words,
        starts=1 + copied.starts,
        local_cycles=copied.local_cycles,
    )
    return MoveStep(slowest_terms((terms, sent), machine) if pes > 1 else copied, lines)


def _reduce_steps(phase: Reduce, machine: Machine) -> tuple[MoveStep, ...]:
    """Return the steps of a reduction.

    Along one axis there is one step. Over "xy" there are all rows and then one column, or one chain of all PEs, as
    `choose_plane` says.
    """
    rect = phase.rect
    if phase.axis != "xy":
        pes, lines = count_lines(rect, phase.axis, phase.groups)
        return (MoveStep(reduce_terms(pes, phase.words, phase.algorithm, phase.size, machine), lines),)
    # The lowering and the NumPy reference make the same choice, so that all three do the same additions.
    if choose_plane(rect, phase.words, phase.algorithm, machine) == "snake":
        return (MoveStep(collectives.chain_terms(rect.area, phase.words, machine)),)
    rows, column = replace(phase, axis="x"), replace(phase, axis="y", rect=Rect(rect.x, rect.y, 1, rect.height))
    return (*_reduce_steps(rows, machine), *_reduce_steps(column, machine))


def _all_reduce_steps(phase: AllReduce, machine: Machine) -> tuple[MoveStep, ...]:
    """Return the steps of an all-reduce: a reduction and a broadcast, or rings if the algorithm is "ring".

    Over "xy" there is a ring along the rows and then one along the columns. Without an algorithm the fastest is chosen.
    """
    rect, axis, words, groups = phase.rect, phase.axis, phase.words, phase.groups
    if phase.algorithm == "ring":
        parts = [count_lines(rect, one, groups) for one in (axis if axis == "xy" else (axis,))]
        return tuple(MoveStep(collectives.ring_all_reduce_terms(pes, words, machine), lines) for pes, lines in parts)
    name = phase.algorithm
    if axis != "xy":
        # Over both axes the name stays empty: `_reduce_steps` chooses an algorithm for the length of each line.
        name = name or choose_all_reduce(count_lines(rect, axis, groups)[0], words, machine)
    reduced = _reduce_steps(
        Reduce(rect, axis=axis, words=words, groups=groups, algorithm=name, size=phase.size), machine
    )
    return (*reduced, _broadcast_step(Broadcast(rect, axis=axis, words=words, groups=groups), machine))


def stream_terms(phase: Stream, machine: Machine) -> LineTerms:
    """Return the cost terms of moving blocks between the PEs of a rectangle and a line of cores next to it.

    `energy` counts the hops of all words. In the direction "out" the blocks follow one another without a gap. In the
    direction "in" every core first forwards the blocks of the cores behind it, the farthest first, and then receives
    its own. This switch costs a start once if a block fits the queues between two cores, and otherwise once for every
    core. With few words the path of the last block but one is the slowest. With the port "edge" the edge I/O is a
    further bound.
    """
    rect = phase.rect
    # The feeding cores are along the longer side, so that words travel along the shorter lines and most links are used.
    short, long = sorted((rect.width, rect.height))
    # Words of one line, and of one PE. If the words do not fill all shares, only the first PEs of a line get any.
    total = ceil_div(ceil_div(phase.bytes * 8, machine.link_bits), long)
    if not total:
        return ZERO_TERMS
    share = ceil_div(total, short)
    pes = ceil_div(total, share)
    # Only for the count of words on links: the block of PE i travels i + 1 hops.
    hops = long * sum((i + 1) * min(share, total - i * share) for i in range(pes))
    # The edge I/O is shared by the whole wafer, 1.2 Tb/s on the WSE-2: it is exhausted long before the links of a side.
    edge = phase.bytes * 8 / machine.edge_bits_per_cycle if phase.port == "edge" else 0
    crossed = LineTerms(depth=1, distance=pes, energy=hops, contention=0, starts=1, local_cycles=edge)
    return slowest_terms((_fabric_stream(phase.direction, total, share, hops, machine), crossed), machine)


def _fabric_stream(direction: str, total: int, share: int, hops: int, machine: Machine) -> LineTerms:
    """Return the cost terms of a stream along one line, without the edge I/O.

    The line has `total` words in blocks of `share` for each PE; `hops` is only stored as the energy. See
    `stream_terms`.
    """
    flow, pes = LineTerms(1, distance=1, energy=hops, contention=total, starts=1), ceil_div(total, share)
    if pes == 1:
        return flow
    # Blocks leave through the routers, by switch positions: a stream without gaps or, for short blocks, the latency of
    # the farthest.
    if direction == "out":
        return slowest_terms((flow, LineTerms(1, distance=pes, energy=hops, contention=share, starts=1)), machine)
    # A core forwards the words of the cores beyond it before it receives its own block. A block that does not fit the
    # queues makes the previous core wait for that start, and so on along the line.
    if share > collectives.path_words(1, machine):
        return replace(flow, starts=pes)
    return slowest_terms(
        (replace(flow, starts=2), LineTerms(pes, distance=pes, energy=hops, contention=2 * share, starts=1)), machine
    )
