"""The first reading of a phase program: cycles, bytes and words on the wires, by closed forms.

Time is an algebra: `Seq` adds, `Repeat` multiplies, `Rounds` multiplies the few that it looks at, and `Par` takes the
maximum of what its parts take when they share cores (`concurrent_phases.py`), which lies between their maximum and
their sum. Traffic always adds. Each leaf is rounded up to whole cycles, so the laws of the algebra hold exactly.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wse_sim.cost_model.collectives import LineTerms, shift_pairs
from wse_sim.cost_model.concurrent_phases import PhaseLoad, combine_loads
from wse_sim.cost_model.core_time import body_times
from wse_sim.cost_model.move_terms import MovePhase, MoveStep, copy_terms, count_lines, move_steps, stream_terms
from wse_sim.layout import ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Local, Par, Phase, Repeat, Rounds, Seq, Shift, Stream


@dataclass(frozen=True)
class Cost:
    """What a phase program takes.

    `latency_cycles` is the part of `cycles` that even a single wavelet would need; `compute_cycles` what would remain
    if all moves were free. `wire_words` counts wavelet-hops.

    >>> Cost(cycles=3).then(Cost(cycles=4)).cycles
    7
    """

    cycles: int = 0
    latency_cycles: int = 0
    compute_cycles: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    wire_words: int = 0

    def then(self, other: "Cost") -> "Cost":
        """Both, one after the other."""
        cycles, latency = self.cycles + other.cycles, self.latency_cycles + other.latency_cycles
        return self._with(other, cycles, latency, self.compute_cycles + other.compute_cycles)

    def overlap(self, other: "Cost") -> "Cost":
        """Both at the same time, as if they shared nothing but wires."""
        cycles, latency = max(self.cycles, other.cycles), max(self.latency_cycles, other.latency_cycles)
        return self._with(other, cycles, latency, max(self.compute_cycles, other.compute_cycles))

    def _with(self, other: "Cost", cycles: int, latency_cycles: int, compute_cycles: int) -> "Cost":
        # Bytes and words are sent whether parts overlap or not: they add up in every composition.
        return Cost(
            cycles=cycles,
            latency_cycles=latency_cycles,
            compute_cycles=compute_cycles,
            bytes_in=self.bytes_in + other.bytes_in,
            bytes_out=self.bytes_out + other.bytes_out,
            wire_words=self.wire_words + other.wire_words,
        )

    def times(self, n: int) -> "Cost":
        """The same `n` times, one after the other."""
        return Cost(**{name: value * n for name, value in vars(self).items()})


ZERO_COST = Cost()


def cost(phase: Phase, machine: Machine) -> Cost:
    """Fold a phase program on `machine`.

    >>> from wse_sim import TINY, Rect
    >>> from wse_sim.phase import Compute, Seq
    >>> twice = Compute(Rect(0, 0, 4, 4), "fma", vectors=2, length=100, itemsize=4)
    >>> cost(twice, TINY).cycles, cost(Seq((twice, twice)), TINY).cycles
    (212, 424)
    """
    return _price_phase(phase, machine)[0]


PricedPhase = tuple[Cost, PhaseLoad]


def _price_phase(phase: Phase, machine: Machine) -> PricedPhase:
    """What a phase takes, and what it takes from others at the same time."""
    match phase:
        case Seq(parts):
            total, load = ZERO_COST, PhaseLoad()
            for one in parts:
                part_cost, part_load = _price_phase(one, machine)
                total, load = total.then(part_cost), load.then(part_load)
            return total, load
        case Par():
            return _price_par([_price_phase(one, machine) for one in _flatten_par(phase)], machine)
        case Repeat(times, body):
            # Folded once and multiplied: a training step repeats its rounds hundreds of times.
            round_cost, round_load = _price_phase(body, machine)
            return round_cost.times(times), round_load.times(times)
        case Rounds():
            total, load = ZERO_COST, PhaseLoad()
            for one, times in phase.priced_rounds:
                round_cost, round_load = _price_phase(one, machine)
                total, load = total.then(round_cost.times(times)), load.then(round_load.times(times))
            return total, load
        case Compute():
            return _price_compute(phase, machine)
        case Local(rect, body):
            cycles, issue_cycles = body_times(body, machine)
            return Cost(cycles, latency_cycles=0, compute_cycles=cycles), PhaseLoad(
                (rect,), cycles, issue_cycles=issue_cycles
            )
        case Stream():
            return _price_stream(phase, machine)
        case _:
            return _price_move(phase, machine)


# A Par in a Par shares the same cores, and `combine_loads` is no associative fold: it has to see all parts at once.
def _flatten_par(phase: Phase) -> Iterator[Phase]:
    """The parts of a Par, and those of the Pars in it."""
    for part in phase.parts if isinstance(phase, Par) else ():
        yield from _flatten_par(part)
    if not isinstance(phase, Par):
        yield phase


def _price_par(priced: Sequence[PricedPhase], machine: Machine) -> PricedPhase:
    load = combine_loads([load for _, load in priced], machine)
    # What would remain if moves were free: local parts alone, which still follow one another on a core.
    work = combine_loads([load for _, load in priced if load.is_local], machine)
    total = ZERO_COST
    for part, _ in priced:
        total = total.overlap(part)
    # Never less than the slowest part alone, even where the estimate of sharing rounds lower.
    compute = max(total.compute_cycles, math.ceil(work.cycles))
    return Cost(**{**vars(total), "cycles": max(total.cycles, math.ceil(load.cycles)), "compute_cycles": compute}), load


def wavelet_count(elements: int, itemsize: int, machine: Machine) -> int:
    """Wavelets that carry `elements` of `itemsize` bytes."""
    return ceil_div(elements * itemsize * 8, machine.link_bits)


def _price_compute(phase: Compute, machine: Machine) -> PricedPhase:
    one_vector = issue_cycles = phase.scalar_cycles
    if phase.length:
        # Lanes that are not full take a whole cycle: the length is rounded up before a conflict stretches it.
        elements = math.ceil(phase.length / machine.per_cycle(phase.op, phase.itemsize)) * phase.slowdown
        one_vector += machine.dsd_setup_cycles + elements
        # Of a setup only the first cycle is issued; the rest passes in the descriptors and leaves the slot to others.
        issue_cycles += 1 + elements
    cycles = math.ceil(phase.vectors * one_vector)
    return Cost(cycles, latency_cycles=0, compute_cycles=cycles), PhaseLoad(
        (phase.rect,), cycles, issue_cycles=phase.vectors * issue_cycles
    )


def _price_stream(phase: Stream, machine: Machine) -> PricedPhase:
    """Words that go out pass the cores of others by their routers alone, but wait for those cores' own."""
    terms = stream_terms(phase, machine)
    stream_cost, load = _cost_from_terms(terms, 1, machine), _move_load(phase, [MoveStep(terms)], machine)
    if phase.direction == "in":
        return replace(stream_cost, bytes_in=phase.bytes), load
    # Outwards the routers' switches let the blocks of others through, so a core issues its own block only.
    # Its own block of the stream is all that a core issues.
    own = ceil_div(wavelet_count(phase.bytes, 1, machine), phase.rect.area) * machine.wavelet_cycles
    return replace(stream_cost, bytes_out=phase.bytes), replace(load, issue_cycles=own, later_cycles=0.0)


def _price_move(phase: MovePhase, machine: Machine) -> PricedPhase:
    steps = move_steps(phase, machine)
    total = ZERO_COST
    for step in steps:
        total = total.then(_cost_from_terms(step.terms, step.lines, machine))
    return total, _move_load(phase, steps, machine)


def _move_load(phase: MovePhase | Stream, steps: Sequence[MoveStep], machine: Machine) -> PhaseLoad:
    """Operations that start one after another in a step count as equally long; a core of a shift has two at once."""
    cycles = sum(step.terms.cycles(machine) for step in steps)
    # Without a wavelet on a link it is a copy within each core's memory, and that is local work.
    if not any(step.terms.energy for step in steps):
        return PhaseLoad((phase.rect,), cycles, issue_cycles=cycles)
    passed = sum(step.terms.contention for step in steps) * machine.wavelet_cycles
    if isinstance(phase, Shift):
        return _shift_load(phase, steps[0].terms, machine)
    # All but the first operation can be held up by local work on the same cores, since tasks run to their end.
    first = next(step.terms for step in steps if step.terms.starts)
    later = cycles - first.cycles(machine) / first.starts
    # A broadcast is one operation on every core, but for the copy that its sender makes afterwards.
    later_words = passed * later / cycles
    if isinstance(phase, Broadcast):
        later_words, later = 0.0, copy_terms(phase.words, machine).cycles(machine) if phase.take != phase.put else 0
    return PhaseLoad(
        rects=(phase.rect,),
        cycles=cycles,
        words=passed,
        issue_cycles=passed,
        later_cycles=later,
        later_words=later_words,
        is_local=False,
        quiet_cycles=machine.dsd_setup_cycles,
    )


def _shift_load(phase: Shift, terms: LineTerms, machine: Machine) -> PhaseLoad:
    """Most cores both send and receive; the links may take longer than that."""
    pairs = shift_pairs(count_lines(phase.rect, phase.axis)[0], phase.hops, phase.wrap)
    # Sending and receiving are two microthreads of a core: each asks for the issue slot on its own.
    threads = 2 if {pair[0] for pair in pairs} & {pair[1] for pair in pairs} else 1
    cycles, own = terms.cycles(machine), threads * phase.words * machine.wavelet_cycles
    # A second start is the copy out of the way, which comes before the first word is sent.
    lead = copy_terms(phase.words, machine).cycles(machine) if terms.starts > 1 else 0
    # Over several hops a link in the middle carries more words than any core sends: its cores have turns to spare.
    slack = max(0.0, terms.contention * machine.wavelet_cycles - own)
    return PhaseLoad(
        rects=(phase.rect,),
        cycles=cycles,
        words=own,
        issue_cycles=own,
        is_local=False,
        threads=threads,
        lead_cycles=lead,
        issue_slack_cycles=slack,
        quiet_cycles=machine.dsd_setup_cycles,
    )


def _cost_from_terms(terms: LineTerms, lines: int, machine: Machine) -> Cost:
    latency = math.ceil(terms.latency_cycles(machine))
    return Cost(terms.cycles(machine), latency, wire_words=math.ceil(terms.energy) * lines)
