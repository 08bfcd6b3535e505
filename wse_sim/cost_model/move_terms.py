"""The terms of a move on a rectangle: along an axis, over both, with what cores do on their own before and after.

A move is one or more steps, each on a number of equal lines at the same time; a step begins when the one before is
through on the cores that it needs.
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
    """The terms of one line, and how many lines there are."""

    terms: LineTerms
    lines: int = 1


def move_steps(phase: MovePhase, machine: Machine) -> tuple[MoveStep, ...]:
    """What a move does one after another; nothing where no PE has another one on its line."""
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
    """PEs of one line, and how many such lines the rectangle has."""
    length, across = (rect.width, rect.height) if axis == "x" else (rect.height, rect.width)
    return length // groups, across * groups


def copy_terms(words: int, machine: Machine) -> LineTerms:
    """A core moves words in its memory."""
    # Words are moved as float32 whatever they hold: two elements of 16 bits travel as one word.
    return LineTerms(starts=1, local_cycles=math.ceil(words / machine.move_f32_per_cycle))


def _shift_step(phase: Shift, machine: Machine) -> MoveStep:
    """A core that both sends and receives saves first what would be overwritten."""
    pes, lines = count_lines(phase.rect, phase.axis)
    pairs = collectives.shift_pairs(pes, phase.hops, phase.wrap)
    terms = collectives.shift_terms(pes, phase.words, phase.hops, phase.wrap, machine)
    # A ring of one PE sends to itself, which is a copy; without a wrap nothing moves at all.
    if phase.wrap and not pairs and phase.take != phase.put:
        return MoveStep(copy_terms(phase.words, machine), lines)
    # Received words may land where words to send still lie. Then they are copied out of the way, but only where some
    # core does both: a line of two PEs without a wrap needs none.
    both = {i for i, _ in pairs} & {j for _, j in pairs}
    if both and abs(phase.take - phase.put) < phase.words:
        copied = copy_terms(phase.words, machine)
        terms = replace(terms, starts=terms.starts + copied.starts, local_cycles=copied.local_cycles)
    return MoveStep(terms, lines)


def _broadcast_step(phase: Broadcast, machine: Machine) -> MoveStep:
    """The sender moves its own words too if they are to lie elsewhere; a way that turns takes longer."""
    rect = phase.rect
    if phase.axis == "xy":
        pes, lines = rect.area, 1
        terms = collectives.plane_broadcast_terms(rect.width, rect.height, phase.words, phase.source)
        # From the row of the source into the columns every word turns once, on routers that pass it on at full rate: a
        # latency, and no contention.
        if rect.width > 1 and rect.height > 1:
            terms = replace(terms, local_cycles=machine.turn_cycles)
    else:
        pes, lines = count_lines(rect, phase.axis, phase.groups)
        terms = collectives.broadcast_terms(pes, phase.words, phase.source)
    if phase.take == phase.put:
        return MoveStep(terms, lines)
    copied = copy_terms(phase.words, machine)
    # The sender is through when it has sent and copied; the others when the last word has come. Whoever is later
    # decides.
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
    """Along one axis; or along the rows and then down one column, or in one chain through all PEs."""
    rect = phase.rect
    if phase.axis != "xy":
        pes, lines = count_lines(rect, phase.axis, phase.groups)
        return (MoveStep(reduce_terms(pes, phase.words, phase.algorithm, phase.size, machine), lines),)
    # The same choice as in the lowering and in the data reading, so that all three do the same additions.
    if choose_plane(rect, phase.words, phase.algorithm, machine) == "snake":
        return (MoveStep(collectives.chain_terms(rect.area, phase.words, machine)),)
    rows, column = replace(phase, axis="x"), replace(phase, axis="y", rect=Rect(rect.x, rect.y, 1, rect.height))
    return (*_reduce_steps(rows, machine), *_reduce_steps(column, machine))


def _all_reduce_steps(phase: AllReduce, machine: Machine) -> tuple[MoveStep, ...]:
    """A reduction and a broadcast; or rings, along the rows and then the columns if over both."""
    rect, axis, words, groups = phase.rect, phase.axis, phase.words, phase.groups
    if phase.algorithm == "ring":
        parts = [count_lines(rect, one, groups) for one in (axis if axis == "xy" else (axis,))]
        return tuple(MoveStep(collectives.ring_all_reduce_terms(pes, words, machine), lines) for pes, lines in parts)
    name = phase.algorithm
    if axis != "xy":
        # Over both axes the name stays open: each line chooses for its own length in `_reduce_steps`.
        name = name or choose_all_reduce(count_lines(rect, axis, groups)[0], words, machine)
    reduced = _reduce_steps(
        Reduce(rect, axis=axis, words=words, groups=groups, algorithm=name, size=phase.size), machine
    )
    return (*reduced, _broadcast_step(Broadcast(rect, axis=axis, words=words, groups=groups), machine))


def stream_terms(phase: Stream, machine: Machine) -> LineTerms:
    """Blocks between a line of cores beside the rectangle and its PEs; `energy` counts the hops of all words.

    Out of the rectangle they follow one another without a gap. Into it every core passes on what is not for it, the
    farthest block first, and then starts to take its own: that shows once if a block fits the queues between two cores,
    else once for every core. Of few words the slowest way is that of the last block but one.
    """
    rect = phase.rect
    # The feeders stand along the longer side: so the lines that words travel are the short ones, and most links are
    # used.
    short, long = sorted((rect.width, rect.height))
    # Words of one line, then of one PE; the PEs of the last, partial share are fewer than the line is long.
    total = ceil_div(ceil_div(phase.bytes * 8, machine.link_bits), long)
    if not total:
        return ZERO_TERMS
    share = ceil_div(total, short)
    pes = ceil_div(total, share)
    # Only counted, for the words on the wires: the block of PE i travels i + 1 hops.
    hops = long * sum((i + 1) * min(share, total - i * share) for i in range(pes))
    # The edge is one pipe for the whole wafer, 1.2 Tb/s on the WSE-2: it binds long before the links of a side do.
    edge = phase.bytes * 8 / machine.edge_bits_per_cycle if phase.port == "edge" else 0
    crossed = LineTerms(depth=1, distance=pes, energy=hops, contention=0, starts=1, local_cycles=edge)
    return slowest_terms((_fabric_stream(phase.direction, total, share, hops, machine), crossed), machine)


def _fabric_stream(direction: str, total: int, share: int, hops: int, machine: Machine) -> LineTerms:
    """A line of `total` words in blocks of `share`."""
    flow, pes = LineTerms(1, distance=1, energy=hops, contention=total, starts=1), ceil_div(total, share)
    if pes == 1:
        return flow
    # Blocks leave through the routers, by switch positions: a stream without gaps, or, if blocks are short, the latency
    # of the farthest.
    if direction == "out":
        return slowest_terms((flow, LineTerms(1, distance=pes, energy=hops, contention=share, starts=1)), machine)
    # A core relays what lies beyond it before it takes its own block. A block that the queues cannot hold makes the
    # core before it wait for that start, and so all along the line.
    if share > collectives.path_words(1, machine):
        return replace(flow, starts=pes)
    return slowest_terms(
        (replace(flow, starts=2), LineTerms(pes, distance=pes, energy=hops, contention=2 * share, starts=1)), machine
    )
