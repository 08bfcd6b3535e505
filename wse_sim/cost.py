"""The first reading of a phase program: cycles, bytes and words on the wires, by closed forms.

Time is an algebra: `Seq` adds, `Par` takes the maximum, `Repeat` multiplies. Traffic always adds. Each leaf is rounded
up to whole cycles, so the laws of the algebra hold exactly.
"""

import math
from dataclasses import dataclass, replace

from wse_sim.collectives import Terms
from wse_sim.core_time import body_cycles
from wse_sim.layout import ceil_div
from wse_sim.machine import Machine
from wse_sim.move_terms import Move, steps_of, stream_terms
from wse_sim.phase import Compute, Local, Par, Phase, Repeat, Seq, Stream


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
        elements = math.ceil(phase.length / machine.per_cycle(phase.op, phase.itemsize))
        one_vector += machine.dsd_setup_cycles + elements * phase.slowdown
    cycles = math.ceil(phase.vectors * one_vector)
    return Cost(cycles, 0, cycles)


def _stream(phase: Stream, machine: Machine) -> Cost:
    taken = _from_terms(stream_terms(phase, machine), 1, machine)
    bytes_in, bytes_out = (phase.bytes, 0) if phase.direction == "in" else (0, phase.bytes)
    return replace(taken, bytes_in=bytes_in, bytes_out=bytes_out)


def _move(phase: Move, machine: Machine) -> Cost:
    total = FREE
    for step in steps_of(phase, machine):
        total = total.then(_from_terms(step.terms, step.lines, machine))
    return total


def _from_terms(terms: Terms, lines: int, machine: Machine) -> Cost:
    latency = math.ceil(terms.latency_cycles(machine))
    return Cost(terms.cycles(machine), latency, 0, 0, 0, math.ceil(terms.energy) * lines)
