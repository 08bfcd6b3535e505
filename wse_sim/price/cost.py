"""The first reading of a phase program: cycles, bytes and words on the wires, by closed forms.

Time is an algebra: `Seq` adds, `Repeat` multiplies, and `Par` takes the maximum of what its parts take when they share
cores (`sharing.py`), which lies between their maximum and their sum. Traffic always adds. Each leaf is rounded up to
whole cycles, so the laws of the algebra hold exactly.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wse_sim.layout import ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Local, Par, Phase, Repeat, Seq, Shift, Stream
from wse_sim.price.collectives import Terms, shift_pairs
from wse_sim.price.core_time import body_beats, body_cycles
from wse_sim.price.move_terms import Move, MoveStep, copy_terms, lines_of, steps_of, stream_terms
from wse_sim.price.sharing import Load, together


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
        """Both at the same time, as if they shared nothing but wires."""
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
    return _fold(phase, machine)[0]


Priced = tuple[Cost, Load]


def _fold(phase: Phase, machine: Machine) -> Priced:
    """What a phase takes, and what it takes from others at the same time."""
    match phase:
        case Seq(parts):
            total, load = FREE, Load()
            for one in parts:
                taken, held = _fold(one, machine)
                total, load = total.then(taken), load.then(held)
            return total, load
        case Par():
            return _par([_fold(one, machine) for one in _flat(phase)], machine)
        case Repeat(times, body):
            taken, held = _fold(body, machine)
            return taken.times(times), held.times(times)
        case Compute():
            return _compute(phase, machine)
        case Local(rect, body):
            cycles = body_cycles(body, machine)
            return Cost(cycles, 0, cycles), Load((rect,), cycles, beats=body_beats(body, machine))
        case Stream():
            return _stream(phase, machine)
        case _:
            return _move(phase, machine)


def _flat(phase: Phase) -> Iterator[Phase]:
    """The parts of a Par, and those of the Pars in it."""
    for part in phase.parts if isinstance(phase, Par) else ():
        yield from _flat(part)
    if not isinstance(phase, Par):
        yield phase


def _par(priced: Sequence[Priced], machine: Machine) -> Priced:
    load = together([held for _, held in priced], machine)
    work = together([held for _, held in priced if held.is_local], machine)
    total = FREE
    for taken, _ in priced:
        total = total.beside(taken)
    compute = max(total.compute_cycles, math.ceil(work.cycles))
    return replace(total, cycles=max(total.cycles, math.ceil(load.cycles)), compute_cycles=compute), load


def words(elements: int, itemsize: int, machine: Machine) -> int:
    """Wavelets that carry `elements` of `itemsize` bytes."""
    return ceil_div(elements * itemsize * 8, machine.link_bits)


def _compute(phase: Compute, machine: Machine) -> Priced:
    one_vector = beats = phase.scalar_cycles
    if phase.length:
        elements = math.ceil(phase.length / machine.per_cycle(phase.op, phase.itemsize)) * phase.slowdown
        one_vector += machine.dsd_setup_cycles + elements
        beats += 1 + elements
    cycles = math.ceil(phase.vectors * one_vector)
    return Cost(cycles, 0, cycles), Load((phase.rect,), cycles, beats=phase.vectors * beats)


def _stream(phase: Stream, machine: Machine) -> Priced:
    """Words that go out pass the cores of others by their routers alone, but wait for those cores' own."""
    terms = stream_terms(phase, machine)
    taken = _from_terms(terms, 1, machine)
    if phase.direction == "in":
        return replace(taken, bytes_in=phase.bytes), _load(phase, [MoveStep(terms)], machine)
    held = _load(phase, [MoveStep(terms)], machine)
    own = ceil_div(words(phase.bytes, 1, machine), phase.rect.area) * machine.wavelet_cycles
    return replace(taken, bytes_out=phase.bytes), replace(held, beats=own, later_cycles=0.0)


def _move(phase: Move, machine: Machine) -> Priced:
    steps = steps_of(phase, machine)
    total = FREE
    for step in steps:
        total = total.then(_from_terms(step.terms, step.lines, machine))
    return total, _load(phase, steps, machine)


def _load(phase: Move | Stream, steps: Sequence[MoveStep], machine: Machine) -> Load:
    """Operations that start one after another in a step count as equally long; a core of a shift has two at once."""
    taken = [step.terms.cycles(machine) for step in steps]
    if not any(step.terms.energy for step in steps):
        return Load((phase.rect,), sum(taken), beats=sum(taken))
    passed = sum(step.terms.contention for step in steps) * machine.wavelet_cycles
    if isinstance(phase, Shift):
        return _shift_load(phase, steps[0].terms, machine)
    first = next(step.terms for step in steps if step.terms.starts)
    later = sum(taken) - first.cycles(machine) / first.starts
    if isinstance(phase, Broadcast):
        later = copy_terms(phase.words, machine).cycles(machine) if phase.take != phase.put else 0
    quiet = machine.dsd_setup_cycles
    return Load((phase.rect,), sum(taken), passed, passed, later, is_local=False, quiet_cycles=quiet)


def _shift_load(phase: Shift, terms: Terms, machine: Machine) -> Load:
    """Most cores both send and receive; the links may take longer than that."""
    pairs = shift_pairs(lines_of(phase.rect, phase.axis)[0], phase.hops, phase.wrap)
    threads = 2 if {pair[0] for pair in pairs} & {pair[1] for pair in pairs} else 1
    cycles, own = terms.cycles(machine), threads * phase.words * machine.wavelet_cycles
    lead = copy_terms(phase.words, machine).cycles(machine) if terms.starts > 1 else 0
    slack = max(0.0, terms.contention * machine.wavelet_cycles - own)
    return Load((phase.rect,), cycles, own, own, 0, False, threads, lead, slack, machine.dsd_setup_cycles)


def _from_terms(terms: Terms, lines: int, machine: Machine) -> Cost:
    latency = math.ceil(terms.latency_cycles(machine))
    return Cost(terms.cycles(machine), latency, 0, 0, 0, math.ceil(terms.energy) * lines)
