"""Cost of a phase program (cycles, bytes, words on the links), by closed forms.

The cycles of a `Seq` are the sum of its parts, and those of a `Repeat` a multiple. `Rounds` multiplies the cycles of a
few representative rounds. A `Par` takes at least the maximum of its parts and at most their sum, depending on the cores
that they share (`concurrent_phases.py`). Traffic always adds up. Each leaf is rounded up to whole cycles, so these
equations hold exactly.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from wse_sim.cost_model.collectives import LineTerms, shift_pairs
from wse_sim.cost_model.concurrent_phases import PhaseLoad, combine_loads
from wse_sim.cost_model.core_time import body_times
from wse_sim.cost_model.move_terms import MovePhase, MoveStep, copy_terms, count_lines, move_steps, stream_terms
from wse_sim.isa.issue_rates import vector_rate
from wse_sim.layout import ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Local, Par, Phase, Repeat, Rounds, Seq, Shift, Stream


@dataclass(frozen=True)
class Cost:
    """The cost of a phase program.

    - `cycles`: duration
    - `latency_cycles`: the part of `cycles` that a message of a single wavelet would need too
    - `compute_cycles`: the duration if all moves were free
    - `bytes_in`, `bytes_out`: bytes that streams move into and out of rectangles
    - `wire_words`: wavelets times the hops that they travel

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
        """Return the cost of this and then `other`: the sum of every field."""
        cycles, latency = self.cycles + other.cycles, self.latency_cycles + other.latency_cycles
        return self._with(other, cycles, latency, self.compute_cycles + other.compute_cycles)

    def overlap(self, other: "Cost") -> "Cost":
        """Return the cost of this and `other` at the same time on different cores.

        Cycles, latency and compute cycles are the maximum of both. Bytes and words are added.
        """
        cycles, latency = max(self.cycles, other.cycles), max(self.latency_cycles, other.latency_cycles)
        return self._with(other, cycles, latency, max(self.compute_cycles, other.compute_cycles))

    def _with(self, other: "Cost", cycles: int, latency_cycles: int, compute_cycles: int) -> "Cost":
        """Return a cost with the given cycles, and with the bytes and words of both costs added."""
        # Bytes and words are added in every composition, since they are sent whether parts overlap or not.
        return Cost(
            cycles=cycles,
            latency_cycles=latency_cycles,
            compute_cycles=compute_cycles,
            bytes_in=self.bytes_in + other.bytes_in,
            bytes_out=self.bytes_out + other.bytes_out,
            wire_words=self.wire_words + other.wire_words,
        )

    def times(self, n: int) -> "Cost":
        """Return the cost of `n` repetitions, one after the other: every field times `n`."""
        return Cost(**{name: value * n for name, value in vars(self).items()})


ZERO_COST = Cost()
"""The cost of doing nothing."""


def cost(phase: Phase, machine: Machine | str) -> Cost:
    """Return the cost of a phase program on `machine`, a machine or its name.

    Raises LazyError for an unknown name, and ValueError for a branch in a `Local` phase, whose time depends on data.

    >>> from wse_sim import TINY, Rect
    >>> from wse_sim.phase import Compute, Seq
    >>> twice = Compute(Rect(0, 0, 4, 4), "fma", vectors=2, length=100, itemsize=4)
    >>> cost(twice, TINY).cycles, cost(Seq((twice, twice)), "tiny").cycles
    (212, 424)
    """
    return _cost_of_object(_PhaseIdentity(phase), Machine.of(machine))


class _PhaseIdentity:
    """A phase as a key of a cache. Keys are equal if they have the same object, since comparing phases takes long."""

    def __init__(self, phase: Phase):
        self.phase = phase

    def __hash__(self) -> int:
        return id(self.phase)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _PhaseIdentity) and self.phase is other.phase


# The fastest of a few candidates is priced first as a candidate and then as the kernel that was chosen.
@lru_cache(maxsize=16)
def _cost_of_object(identity: _PhaseIdentity, machine: Machine) -> Cost:
    """Return the cost of a phase. The last few results are cached."""
    return _price_phase(identity.phase, machine)[0]


PricedPhase = tuple[Cost, PhaseLoad]
"""The cost of a phase, and the load that it puts on its cores."""


def _price_phase(phase: Phase, machine: Machine) -> PricedPhase:
    """Return the cost of a phase and its load on the cores, for phases that run at the same time."""
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
            # Priced once and multiplied: a training step repeats its rounds hundreds of times.
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


# A nested Par shares the same cores. `combine_loads` is not associative, so it needs all parts at once.
def _flatten_par(phase: Phase) -> Iterator[Phase]:
    """Yield the parts of a Par, with nested Pars replaced by their parts; any other phase yields itself."""
    for part in phase.parts if isinstance(phase, Par) else ():
        yield from _flatten_par(part)
    if not isinstance(phase, Par):
        yield phase


def _price_par(priced: Sequence[PricedPhase], machine: Machine) -> PricedPhase:
    """Return the cost and load of concurrent parts, from those of each part.

    Cycles are those of `combine_loads`, at least the maximum of the parts. Compute cycles are the same for local parts
    only. Latency is the maximum; bytes and words are added.
    """
    load = combine_loads([load for _, load in priced], machine)
    # The duration if moves were free: only local parts, which still run one after another on a core.
    work = combine_loads([load for _, load in priced if load.is_local], machine)
    total = ZERO_COST
    for part, _ in priced:
        total = total.overlap(part)
    # At least the compute cycles of the slowest part, even if the estimate of sharing rounds to less.
    compute = max(total.compute_cycles, math.ceil(work.cycles))
    return Cost(**{**vars(total), "cycles": max(total.cycles, math.ceil(load.cycles)), "compute_cycles": compute}), load


def wavelet_count(elements: int, itemsize: int, machine: Machine) -> int:
    """Return how many wavelets of `machine.link_bits` bits carry `elements` of `itemsize` bytes."""
    return ceil_div(elements * itemsize * 8, machine.link_bits)


def _price_compute(phase: Compute, machine: Machine) -> PricedPhase:
    """Return the cost and load of a `Compute`, rounded up to whole cycles.

    Each vector operation takes its scalar cycles, a setup, and its elements; without elements only scalar cycles. The
    descriptors of the operations are loaded once.
    """
    one_vector = issue_cycles = phase.scalar_cycles
    load = 0.0
    if phase.length:
        # A partly filled vector lane takes a whole cycle, so the length is rounded up before the slowdown is applied.
        rate = vector_rate(phase.op, phase.itemsize, phase.apart, machine)
        elements = math.ceil(phase.length / rate) * phase.slowdown
        one_vector += machine.dsd_setup_cycles + elements
        load = machine.descriptor_load_cycles if phase.vectors else 0.0
        # Only the first cycle of a setup takes the issue slot; other threads can use the rest.
        issue_cycles += 1 + elements
    cycles = math.ceil(load + phase.vectors * one_vector)
    return Cost(cycles, latency_cycles=0, compute_cycles=cycles), PhaseLoad(
        (phase.rect,), cycles, issue_cycles=phase.vectors * issue_cycles
    )


def _price_stream(phase: Stream, machine: Machine) -> PricedPhase:
    """Return the cost and load of a stream.

    Into a rectangle, cores forward the words of others and are busy with them. Out of it only routers forward them, so
    a core is busy with its own block only, but it waits for the words that pass.
    """
    terms = stream_terms(phase, machine)
    stream_cost, load = _cost_from_terms(terms, 1, machine), _move_load(phase, [MoveStep(terms)], machine)
    if phase.direction == "in":
        return replace(stream_cost, bytes_in=phase.bytes), load
    # In the direction "out" the routers' switches let the blocks of others pass, so a core issues only its own block.
    own = ceil_div(wavelet_count(phase.bytes, 1, machine), phase.rect.area) * machine.wavelet_cycles
    return replace(stream_cost, bytes_out=phase.bytes), replace(load, issue_cycles=own, later_cycles=0.0)


def _price_move(phase: MovePhase, machine: Machine) -> PricedPhase:
    """Return the cost and load of a move: the sum of the costs of its steps; zero without words."""
    steps = move_steps(phase, machine)
    total = ZERO_COST
    for step in steps:
        total = total.then(_cost_from_terms(step.terms, step.lines, machine))
    return total, _move_load(phase, steps, machine)


def _move_load(phase: MovePhase | Stream, steps: Sequence[MoveStep], machine: Machine) -> PhaseLoad:
    """Return the load of a move on its cores.

    A move without a wavelet on any link counts as local work. All operations of a step that start one after another
    count as equally long; those after the first one are later. A core of a shift may have two operations at once.
    """
    cycles = sum(step.terms.cycles(machine) for step in steps)
    # A move without a wavelet on any link is a copy within each core's memory, which is local work.
    if not any(step.terms.energy for step in steps):
        return PhaseLoad((phase.rect,), cycles, issue_cycles=cycles)
    passed = sum(step.terms.contention for step in steps) * machine.wavelet_cycles
    if isinstance(phase, Shift):
        return _shift_load(phase, steps[0].terms, machine)
    # Local work on the same cores can delay all but the first operation, since tasks run to their end.
    first = next(step.terms for step in steps if step.terms.starts)
    later = cycles - first.cycles(machine) / first.starts
    # A broadcast is a single operation on every core, except that its sender may copy the words afterwards.
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
        quiet_cycles=machine.loaded_setup_cycles,
    )


def _shift_load(phase: Shift, terms: LineTerms, machine: Machine) -> PhaseLoad:
    """Return the load of a shift: cores that send and receive have two threads, and links may take longer than the
    cores.

    A copy of words that would be overwritten is in `lead_cycles`.
    """
    pairs = shift_pairs(count_lines(phase.rect, phase.axis)[0], phase.hops, phase.wrap)
    # Sending and receiving are two microthreads of a core, and each needs the issue slot.
    threads = 2 if {pair[0] for pair in pairs} & {pair[1] for pair in pairs} else 1
    cycles, own = terms.cycles(machine), threads * phase.words * machine.wavelet_cycles
    # A second start is the copy of words that would be overwritten, made before the first word is sent.
    lead = copy_terms(phase.words, machine).cycles(machine) if terms.starts > 1 else 0
    # Over several hops a link in the middle carries more words than any core sends, so the cores have spare issue
    # cycles.
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
        quiet_cycles=machine.loaded_setup_cycles,
    )


def _cost_from_terms(terms: LineTerms, lines: int, machine: Machine) -> Cost:
    latency = math.ceil(terms.latency_cycles(machine))
    return Cost(terms.cycles(machine), latency, wire_words=math.ceil(terms.energy) * lines)
