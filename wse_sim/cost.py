"""The first reading of a phase program: cycles, bytes and words on the wires, by closed forms.

Time is an algebra: `Seq` adds, `Par` takes the maximum, `Repeat` multiplies. Traffic always adds. Each leaf is rounded
up to whole cycles, so the laws of the algebra hold exactly.
"""

import math
from dataclasses import dataclass

from wse_sim import collectives
from wse_sim.collectives import Terms
from wse_sim.core_time import body_cycles
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Compute, Local, Par, Phase, Reduce, Repeat, Seq, Shift, Stream
from wse_sim.reduction_tree import auto_gen


@dataclass(frozen=True)
class Cost:
    """What a phase program takes.

    `latency_cycles` is the part of `cycles` that even a single wavelet would need; `compute_cycles` what would remain
    if all moves were free. `wire_words` counts wavelet-hops.
    """

    cycles: int = 0
    latency_cycles: int = 0
    compute_cycles: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    wire_words: int = 0

    def then(self, other: "Cost") -> "Cost":
        return Cost(
            self.cycles + other.cycles,
            self.latency_cycles + other.latency_cycles,
            self.compute_cycles + other.compute_cycles,
            *self._traffic(other),
        )

    def beside(self, other: "Cost") -> "Cost":
        return Cost(
            max(self.cycles, other.cycles),
            max(self.latency_cycles, other.latency_cycles),
            max(self.compute_cycles, other.compute_cycles),
            *self._traffic(other),
        )

    def times(self, n: int) -> "Cost":
        return Cost(
            self.cycles * n,
            self.latency_cycles * n,
            self.compute_cycles * n,
            self.bytes_in * n,
            self.bytes_out * n,
            self.wire_words * n,
        )

    def _traffic(self, other: "Cost") -> tuple[int, int, int]:
        return (
            self.bytes_in + other.bytes_in,
            self.bytes_out + other.bytes_out,
            self.wire_words + other.wire_words,
        )


FREE = Cost()


def cost(phase: Phase, machine: Machine) -> Cost:
    """Fold a phase program on `machine`."""
    match phase:
        case Seq(parts):
            total = FREE
            for one in parts:
                total = total.then(cost(one, machine))
            return total
        case Par(parts):
            total = FREE
            for one in parts:
                total = total.beside(cost(one, machine))
            return total
        case Repeat(times, body):
            return cost(body, machine).times(times)
        case Compute():
            return _compute(phase, machine)
        case Local(_, body):
            cycles = body_cycles(body, machine)
            return Cost(cycles, 0, cycles)
        case Stream():
            return _stream(phase, machine)
        case _:
            return _move(phase, machine)


def words(elements: int, itemsize: int, machine: Machine) -> int:
    """Wavelets that carry `elements` of `itemsize` bytes."""
    return ceil_div(elements * itemsize * 8, machine.link_bits)


def _compute(phase: Compute, machine: Machine) -> Cost:
    one_vector = phase.scalar_cycles
    if phase.length:
        elements = phase.length * phase.slowdown / machine.per_cycle(phase.op, phase.itemsize)
        one_vector += machine.dsd_setup_cycles + elements
    cycles = math.ceil(phase.vectors * one_vector)
    return Cost(cycles, 0, cycles)


def _stream(phase: Stream, machine: Machine) -> Cost:
    """Bytes over the longest side; the last of them crosses the rectangle along both axes and turns once."""
    if not phase.bytes:
        return FREE
    rect = phase.rect
    wavelets = words(phase.bytes, 1, machine)
    short, long = sorted((rect.width, rect.height))
    flow = ceil_div(wavelets, long) * machine.wavelet_cycles
    if phase.port == "edge":
        flow = max(flow, phase.bytes * 8 / machine.edge_bits_per_cycle)
    hops = rect.width + rect.height - 2
    latency = hops * machine.hop_cycles + 2 * machine.ramp_cycles + machine.turn_cycles
    bytes_in, bytes_out = (phase.bytes, 0) if phase.direction == "in" else (0, phase.bytes)
    # A PE lies (short + 1) / 2 hops from the side on the average.
    return Cost(
        math.ceil(flow + latency), math.ceil(latency), 0, bytes_in, bytes_out, ceil_div(wavelets * (short + 1), 2)
    )


def _move(phase: Shift | Broadcast | Reduce | AllReduce, machine: Machine) -> Cost:
    if not isinstance(phase, Shift) and phase.axis == "xy":
        return _move_plane(phase, machine)
    pes, lines = _lines(phase.rect, phase.axis, getattr(phase, "groups", 1))
    if not pes:
        return FREE
    if isinstance(phase, AllReduce):
        return _all_reduce_line(pes, lines, phase.words, machine)
    return _from_terms(_line_terms(phase, pes, machine), lines, machine)


def _lines(rect: Rect, axis: str, groups: int) -> tuple[int, int]:
    """PEs of one line, and how many such lines the rectangle has."""
    length, across = (rect.width, rect.height) if axis == "x" else (rect.height, rect.width)
    return length // groups, across * groups


def _line_terms(phase: Shift | Broadcast | Reduce, pes: int, machine: Machine) -> Terms:
    if isinstance(phase, Shift):
        return collectives.shift(pes, phase.words, phase.hops, phase.wrap)
    if isinstance(phase, Broadcast):
        return collectives.broadcast(pes, phase.words)
    return _reduce_terms(phase, pes, machine)


def _reduce_terms(phase: Reduce, pes: int, machine: Machine) -> Terms:
    if phase.algorithm == "auto_gen":
        return auto_gen(pes, phase.words, machine)
    if phase.algorithm == "two_phase":
        return collectives.two_phase(pes, phase.words, phase.size)
    if phase.algorithm:
        return collectives.REDUCE_ALGORITHMS[phase.algorithm](pes, phase.words)
    return collectives.best_reduce(pes, phase.words, machine)[1]


def _from_terms(terms: Terms, lines: int, machine: Machine) -> Cost:
    latency = math.ceil(terms.latency_cycles(machine))
    return Cost(terms.cycles(machine), latency, 0, 0, 0, math.ceil(terms.energy) * lines)


def _all_reduce_line(pes: int, lines: int, count: int, machine: Machine) -> Cost:
    """The faster of a ring and a reduction followed by a broadcast."""
    reduced = _from_terms(collectives.best_reduce(pes, count, machine)[1], lines, machine)
    two_steps = reduced.then(_from_terms(collectives.broadcast(pes, count), lines, machine))
    ring = _from_terms(collectives.ring_all_reduce(pes, count), lines, machine)
    return min(two_steps, ring, key=lambda c: c.cycles)


def _move_plane(phase: Broadcast | Reduce | AllReduce, machine: Machine) -> Cost:
    """Both axes: a reduction, then for an all-reduce the answer goes back from the corner."""
    rect = phase.rect
    if isinstance(phase, Reduce):
        return _reduce_plane(phase, machine)
    if isinstance(phase, AllReduce):
        back = _move_plane(Broadcast(rect, "xy", phase.words), machine)
        return _reduce_plane(Reduce(rect, "xy", phase.words), machine).then(back)
    flood = collectives.broadcast_plane(rect.width, rect.height, phase.words)
    has_turn = rect.width > 1 and rect.height > 1 and phase.words > 0
    return _from_terms(flood, 1, machine).then(_turns(int(has_turn), machine))


def _reduce_plane(phase: Reduce, machine: Machine) -> Cost:
    """Along the rows and then down one column; or one chain through all PEs, if that is faster and none is named.

    The chain snakes along the longer axis and turns twice at the end of each of its lines.
    """
    rect = phase.rect
    rows = _from_terms(_reduce_terms(phase, rect.width, machine), rect.height, machine)
    column = _from_terms(_reduce_terms(phase, rect.height, machine), 1, machine)
    if phase.algorithm or not phase.words:
        return rows.then(column)
    turns = 2 * (min(rect.width, rect.height) - 1)
    snake = _from_terms(collectives.chain(rect.area, phase.words), 1, machine).then(_turns(turns, machine))
    return min(rows.then(column), snake, key=lambda c: c.cycles)


def _turns(count: int, machine: Machine) -> Cost:
    cycles = math.ceil(count * machine.turn_cycles)
    return Cost(cycles, cycles)
