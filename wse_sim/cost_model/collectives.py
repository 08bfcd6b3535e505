"""Closed forms for moves along a line of PEs: a few terms for each algorithm, and one formula for all algorithms.

The model is that of Luczynski et al., HPDC'24 (arXiv:2404.15888), for messages in wavelets on the WSE-2:

    T = max(C, E / N) + L + (2 T_R + 1) D

C is the contention (most wavelets through one ramp), E the energy (wavelets times hops) over N links, L the distance
(hops of the longest path) and D the depth (longest chain of dependent visits of a core). Cycles of a wavelet and of a
hop are 1 in that paper; here they are parameters of the machine. In all algorithms of the paper C is at least E / N, so
E is only counted here and does not add cycles.

Three terms are added for the cores of the simulated fabric. Each operation that cannot start before another one has
ended adds its setup (`starts`). A core that sends and receives at once alternates between the two. Work within one core
may come first (`local_cycles`). If groups, trees or parts are uneven, the terms are those of the slowest path.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

import numpy as np

from wse_sim.layout import ceil_div
from wse_sim.machine import Machine


@dataclass(frozen=True)
class LineTerms:
    """The terms of one algorithm on one line; see the head of this file for the formula.

    - `depth`: dependent visits of a core (D)
    - `distance`: hops (L)
    - `energy`: wavelets times hops (E)
    - `contention`: wavelets through one ramp (C)
    - `starts`: operations whose setup does not overlap with anything
    - `local_cycles`: cycles of work within one core
    """

    depth: float = 0
    distance: float = 0
    energy: float = 0
    contention: float = 0
    starts: int = 0
    local_cycles: float = 0

    def latency_cycles(self, machine: Machine) -> float:
        """Return the part of the cycles that a single wavelet would take too: hops, core visits and setups."""
        # A setup before the first word is latency: a shorter message would wait for it as long.
        setups = self.starts * machine.loaded_setup_cycles
        return self.distance * machine.hop_cycles + self.depth * machine.depth_step_cycles + setups

    def exact_cycles(self, machine: Machine) -> float:
        """Return the cycles by the formula of the head of this file, with max(C, E / N) = C, before rounding up."""
        return self.contention * machine.wavelet_cycles + self.local_cycles + self.latency_cycles(machine)

    def cycles(self, machine: Machine) -> int:
        """Return the cycles, rounded up: a move ends with the clock after its last word."""
        return math.ceil(self.exact_cycles(machine))


ZERO_TERMS = LineTerms()
"""The terms of a move that does nothing."""


def slowest_terms(ways: Iterable[LineTerms], machine: Machine) -> LineTerms:
    """Return those of `ways`, paths of words at the same time, that take the most cycles; of equals the first.

    Raises ValueError if there are none.
    """
    return max(ways, key=lambda terms: terms.exact_cycles(machine))


def broadcast_terms(pes: int, words: int, source: int = 0) -> LineTerms:
    """Return the cost terms of a multicast from position `source` to all PEs of a line.

    From an end it takes B + P + 2 T_R cycles on the WSE-2, and a start; B is `words` and P is `pes`. Without words, or
    on a line of one PE, it takes none.
    """
    # No receiver: also no setup, since the lowering emits no operation then.
    if pes < 2 or not words:
        return ZERO_TERMS
    return LineTerms(1, distance=max(source, pes - 1 - source), energy=words * (pes - 1), contention=words, starts=1)


def plane_broadcast_terms(width: int, height: int, words: int, source: int = 0) -> LineTerms:
    """Return the cost terms of a multicast from PE number `source` (row after row) to all PEs of a rectangle.

    From a corner it takes B + M + N - 2 + 2 T_R + 1 cycles on the WSE-2, and a start; M and N are the sides, and B is
    `words`. Without words, or with one PE, it takes none.
    """
    if width * height < 2 or not words:
        return ZERO_TERMS
    # The farthest corner decides. Routers copy the words without a loss of rate, so there is one contention for all
    # copies.
    row, column = divmod(source, width)
    far = max(row, height - 1 - row) + max(column, width - 1 - column)
    return LineTerms(1, distance=far, energy=words * (width * height - 1), contention=words, starts=1)


@lru_cache(maxsize=1024)
def shift_pairs(pes: int, hops: int, wrap: str = "") -> tuple[tuple[int, int], ...]:
    """Return the (sender, receiver) positions of a shift by `hops` along a line of `pes` PEs.

    `wrap` is as in `phase.Shift`; `hops` may be negative. PEs that would send to themselves, or off an open line, are
    left out. Results are cached.
    """
    ring = list(range(pes))
    if wrap == "folded":
        # Even positions outwards, odd ones back: both neighbours on the ring are at most two PEs away, and the ring
        # closes without a path over the whole line.
        ring = [*range(0, pes, 2), *reversed(range(1, pes, 2))]
    ends = [(i, i + hops) for i in range(pes)]
    # Without a wrap, pairs that leave the line are dropped below; with a wrap they re-enter at the other end.
    if wrap:
        ends = [(i, j % pes) for i, j in ends]
    return tuple((ring[i], ring[j]) for i, j in ends if 0 <= j < pes and i != j)


def shift_terms(pes: int, words: int, hops: int, wrap: str, machine: Machine) -> LineTerms:
    """Return the cost terms of a shift of `words` by `hops` along a line of `pes` PEs; `wrap` as in `phase.Shift`.

    They are the slowest of three. First, a core that sends and receives B words each issues 2 B operations. Second, a
    sender works at full rate until its own words begin to arrive, and then alternates. Third, a link in the middle
    carries the words of `hops` senders; the last word over it comes from the farthest sender if each sends one word,
    and from any sender if each sends many.
    """
    pairs = shift_pairs(pes, hops, wrap)
    if not pairs or not words:
        return ZERO_TERMS
    loads, ways = _shift_link_loads(pairs, pes)
    total = words * sum(abs(i - j) for i, j in pairs)
    alone = [_alternation_cycles(words, near, machine) for _, near in ways]
    sent = [
        LineTerms(1, distance=far, energy=total, contention=wavelets, starts=1)
        for (far, _), wavelets in zip(ways, alone, strict=True)
    ]
    # The last wavelet over the fullest link comes from any sender if each has many, and from the farthest if each has
    # one. The term (loads - 1) / words interpolates between these cases.
    linked = LineTerms(
        1, distance=max(far for far, _ in ways), energy=total, contention=words * loads - (loads - 1) / words, starts=1
    )
    # A core that sends and receives issues 2 B operations in turn, whatever the links allow.
    shared = LineTerms(
        0, distance=0, energy=total, contention=2 * words if any(near is not None for _, near in ways) else 0, starts=1
    )
    return slowest_terms([linked, shared, *sent], machine)


def _alternation_cycles(words: int, near: int | None, machine: Machine) -> float:
    """Return the cycles of a core that sends `words` while as many words arrive from `near` hops away.

    Until the first word arrives it sends at full rate; then it alternates. `near` is None if it receives nothing.
    """
    if near is None:
        return words
    first_comes = machine.depth_step_cycles + machine.hop_cycles + (near - 1) * machine.hop_cycles
    return max(words, 2 * words - first_comes)


@lru_cache(maxsize=1024)
def _shift_link_loads(pairs: tuple[tuple[int, int], ...], pes: int) -> tuple[int, tuple[tuple[int, int | None], ...]]:
    """Return (most pairs over one link in one direction, kinds of senders) of a shift on a line of `pes` PEs.

    A kind of sender is (hops that it sends over, hops that its own words come from, or None if it receives none). Each
    kind occurs once, in no particular order. Results are cached.
    """
    most = 0
    # Links are full duplex: words to the right and to the left do not share a link.
    for way in ([(i, j) for i, j in pairs if i < j], [(j, i) for i, j in pairs if i > j]):
        # The paths over a link are those that have begun to its left and have not yet ended.
        begins = Counter(left for left, _ in way)
        ends = Counter(right for _, right in way)
        most = max(most, *accumulate(begins[at] - ends[at] for at in range(pes)))
    gets = {j: abs(j - i) for i, j in pairs}
    return most, tuple({(abs(j - i), gets.get(i)) for i, j in pairs})


def star_terms(pes: int, words: int, machine: Machine) -> LineTerms:
    """Return the cost terms of a reduction in which all PEs send directly to PE 0.

    With B words and P PEs it takes B (P - 1) + 2 T_R + 1 cycles on the WSE-2, a start, and one hop. Only the hop of the
    nearest PE counts: wavelets from farther PEs travel while those of nearer PEs queue at the root's ramp. Without
    words, or on one PE, it takes none. `machine` is unused.
    """
    if pes < 2 or not words:
        return ZERO_TERMS
    return LineTerms(1, distance=1, energy=words * pes * (pes - 1) / 2, contention=words * (pes - 1), starts=1)


def chain_terms(pes: int, words: int, machine: Machine) -> LineTerms:
    """Return the cost terms of a reduction in which each PE adds its words to the stream that passes it.

    With B words and P PEs it takes B + (2 T_R + 2) (P - 1) cycles on the WSE-2, and a start. Without words, or on one
    PE, it takes none. `machine` is unused.
    """
    if pes < 2 or not words:
        return ZERO_TERMS
    return LineTerms(pes - 1, distance=pes - 1, energy=words * (pes - 1), contention=words, starts=1)


def tree_terms(pes: int, words: int, machine: Machine) -> LineTerms:
    """Return the cost terms of a binary-tree reduction in log2 P rounds, rounded up.

    With B words and P PEs it takes B log2 P + (P - 1) + (2 T_R + 1) log2 P cycles on the WSE-2, and a start for each
    round. The paper prints a maximum of parts of this sum, which is smaller by at most the last two terms. Without
    words, or on one PE, it takes none. If P is no power of two, the slowest path decides.
    """
    if pes < 2 or not words:
        return ZERO_TERMS
    # In the round of step s every (2 s)-th PE receives from the PE s further. The last sender may be missing if the
    # length is no power of two.
    steps = [1 << n for n in range(math.ceil(math.log2(pes)))]
    hops = sum(step * len(range(step, pes, 2 * step)) for step in steps)
    return replace(_last_word_terms(pes, words, machine), energy=words * hops)


def _last_word_terms(pes: int, words: int, machine: Machine) -> LineTerms:
    """Return the cost terms, without energy, of the last word's path to the root of a binary tree: the slower of two
    paths.

    One path goes through the sender of the last round, the other through the root itself. One PE takes none.
    """
    if pes < 2:
        return ZERO_TERMS
    # The two halves of the last round: the sum of `near` is at the root, and `far` sends its sum over `step` hops.
    step = _next_power_of_two(pes) // 2
    near, far = (_last_word_terms(n, words, machine) for n in (step, pes - step))
    # First path: the far half is later, and its sum streams into a root that waits for it.
    comes = LineTerms(
        depth=far.depth + 1,
        distance=far.distance + step,
        energy=0,
        contention=far.contention + words,
        starts=far.starts + 1,
        local_cycles=far.local_cycles,
    )
    # Second path: the root still adds its own half when the far words arrive, and their queue delays the words that it
    # needs.
    early = near.exact_cycles(machine) - (comes.exact_cycles(machine) - words * machine.wavelet_cycles)
    stolen = stolen_cycles(early, words, step - 2 * _next_power_of_two(pes - step), machine)
    waits = LineTerms(
        depth=near.depth,
        distance=near.distance,
        energy=0,
        contention=near.contention + words,
        starts=near.starts + 1,
        local_cycles=near.local_cycles + stolen,
    )
    return slowest_terms((comes, waits), machine)


def queue_words(machine: Machine) -> float:
    """Return how many wavelets wait before a core that takes none: in its queue and in its router's queue."""
    return 2 * machine.queue_depth + machine.hop_cycles + machine.ramp_cycles - 2


def path_words(hops: int, machine: Machine) -> float:
    """Return how many wavelets a sender can send while a core `hops` further takes none.

    It is the capacity of all queues and wires between them.
    """
    # The capacity of the ramps at both ends, plus that of the hops.
    ramps = 2 * (machine.queue_depth + machine.ramp_cycles) - 1
    return ramps + hops * _hop_words(machine)


def _hop_words(machine: Machine) -> float:
    """Return how many wavelets a hop holds: those in a queue and those on the wire.

    The wire has one wavelet for each cycle of latency, and at least one.
    """
    return machine.queue_depth + max(1, machine.hop_cycles) - 1


def stolen_cycles(early: float, words: int, hops: int, machine: Machine) -> float:
    """Return the cycles that sums on a link lose to another stream on it that arrives `early` cycles too soon.

    The early stream takes every other turn of the link until all queues before its core are full. These are the queues
    up to the link `hops` away from that core, where the sums begin. The loss is at most `words`, and at most `early` -
    1.
    """
    # Back-pressure: words that are not taken fill queue after queue towards their sender. They take no more turns once
    # the last queue on the shared links is full.
    on_the_way = max(0, hops) * _hop_words(machine)
    # At most the early words, the capacity of the queues, and all words.
    return max(0.0, min(early - 1, queue_words(machine) + on_the_way, words))


def _next_power_of_two(count: int) -> int:
    """Return the smallest power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()


def two_phase_terms(pes: int, words: int, machine: Machine, group: int = 0) -> LineTerms:
    """Return the cost terms of chains within groups of S PEs, followed by a chain over the G group leaders.

    They take 2 B + (P - 1) + (S + G - 2) (2 T_R + 1) cycles on the WSE-2, and two starts. `group` is S; 0 means the
    square root of P, which has the least depth. With one group, or groups of one PE, it is a single chain. If the last
    group is shorter, it sends earlier, and the last full group may decide. Without words, or on one PE, it takes none.
    """
    if pes < 2 or not words:
        return ZERO_TERMS
    size = min(pes, group or max(1, round(math.sqrt(pes))))
    groups = ceil_div(pes, size)
    # With one group, or groups of one PE, there is only one chain.
    if 1 in (size, groups):
        return chain_terms(pes, words, machine)
    last = pes - (groups - 1) * size
    energy = words * (2 * pes - groups - size)
    rounds = 1 + (last > 1)
    # First path: from the end of the line through the short last group and over all leaders.
    ragged = LineTerms(last - 1 + groups - 1, distance=pes - 1, energy=energy, contention=rounds * words, starts=rounds)
    # The last group's sum arrives at the previous group while that one still adds, and both share a link.
    first = LineTerms(
        last - 1 + 1, distance=last - 1 + size, energy=0, contention=(rounds - 1) * words, starts=rounds
    ).exact_cycles(machine)
    early = chain_terms(size, words, machine).exact_cycles(machine) - first
    stolen = stolen_cycles(early, words, size - last - rounds, machine)
    # Second path: from the last full group, which ends later than the short one.
    whole = LineTerms(
        depth=size - 1 + groups - 2,
        distance=size - 1 + (groups - 2) * size,
        energy=energy,
        contention=2 * words,
        starts=2,
        local_cycles=stolen,
    )
    return slowest_terms((ragged, whole), machine)


def ring_all_reduce_terms(pes: int, words: int, machine: Machine) -> LineTerms:
    """Return the cost terms of an all-reduce by reduce-scatter and all-gather on a folded ring, in 2 (P - 1) rounds.

    With B words and P PEs the paper has 2 (P - 1) B / P + 4 P - 6 + 2 (P - 1) (2 T_R + 1), for cores that send and
    receive at once. Here every round is a send and a receive, each with a start; every second core of the ring sends
    first. The cycles are from a simulation, and are reported as `starts` and `local_cycles` only. Without words, or on
    one PE, it takes none.
    """
    if pes < 2 or not words:
        return ZERO_TERMS
    rounds = 2 * (pes - 1)
    hops = sum(abs(i - j) for i, j in shift_pairs(pes, 1, "folded"))
    cycles = _ring_cycles(pes, words, machine)
    # The ring is simulated round by round, so its cycles are one number. The part that setups explain is reported as
    # starts, to separate latency from the cost of each word.
    starts = min(2 * rounds, int(cycles / machine.loaded_setup_cycles))
    rest = cycles - starts * machine.loaded_setup_cycles
    return LineTerms(energy=rounds * words / pes * hops, starts=starts, local_cycles=rest)


@lru_cache(maxsize=256)
def _ring_cycles(pes: int, words: int, machine: Machine) -> float:
    """Return the cycles of a ring all-reduce, from a simulation of when each core has sent and received in each round.

    A send ends when the remaining words fit the queues on the path. Results are cached.
    """
    setup, ring = machine.loaded_setup_cycles, [i for i, _ in _ring_pairs(pes)]
    hops = np.array([abs(i - j) for i, j in _ring_pairs(pes)])
    steps = machine.depth_step_cycles + hops * machine.hop_cycles
    way_holds = np.array([path_words(int(n), machine) for n in hops])
    # Parts are cut as in `lowering.reductions`, so that uneven parts are priced in the right rounds.
    sizes = np.diff([words * k // pes for k in range(pes + 1)]) * machine.wavelet_cycles
    rank = np.arange(pes)
    # Every second core of the ring sends before it receives; otherwise all would wait with full queues for one another.
    first, second = rank[rank % 2 == 0], rank[rank % 2 == 1]
    free = np.zeros(len(ring))
    for number in range(2 * (pes - 1)):
        size = sizes[(rank - number) % pes]
        # On an odd ring the first and the last rank are both even and neighbours, so the last one sends after the
        # first.
        groups = [first[:-1], first[-1:], second] if pes % 2 else [first, second]
        for senders in groups:
            _advance_ring_step(free, senders, size, setup, steps, way_holds)
    return float(free.max())


def _ring_pairs(pes: int) -> list[tuple[int, int]]:
    """Return the (sender, receiver) pairs of a folded ring in ring order, from PE 0."""
    after = dict(shift_pairs(pes, 1, "folded"))
    pairs = [(0, after[0])]
    while len(pairs) < pes:
        pairs.append((pairs[-1][1], after[pairs[-1][1]]))
    return pairs


def _advance_ring_step(
    free: np.ndarray, senders: np.ndarray, size: np.ndarray, setup: float, steps: np.ndarray, way_holds: np.ndarray
) -> None:
    """Let the ring ranks `senders` send to their successors, and update `free` in place.

    `free[rank]` is the cycle at which a core can start its next operation. `size` is the cycles of the words that each
    rank sends; ranks without words do nothing. `steps` is the latency to the successor, and `way_holds` the wavelets
    that the queues between them hold.
    """
    # With fewer words than PEs some parts are empty, and no operations are emitted for them.
    senders = senders[size[senders] > 0]
    takers = (senders + 1) % len(free)
    begins = free[senders] + setup
    # The receiver starts when it is set up and the first word has arrived, whichever is later.
    comes = np.maximum(free[takers] + setup, begins + steps[senders])
    count = size[senders]
    # A sender has finished when it has sent its last word. The queues on the path allow that before the word is
    # received.
    free[senders] = np.maximum(begins + count, comes + count - way_holds[senders])
    free[takers] = comes + count


REDUCE_ALGORITHMS: dict[str, Callable[[int, int, Machine], LineTerms]] = {
    "chain": chain_terms,
    "tree": tree_terms,
    "two_phase": two_phase_terms,
    "star": star_terms,
}
"""Name of a reduction -> function (PEs, words, machine) -> terms. The generated tree is in `reduction_tree`."""
