"""Closed forms for moves along a line of PEs: a few terms for each algorithm, one formula for all.

The frame is published: Luczynski et al., HPDC'24 (arXiv:2404.15888), a model of messages in wavelets on the WSE-2,
    T = max(C, E / N) + L + (2 T_R + 1) D
with the contention C (most wavelets through one ramp), the energy E (wavelet-hops) over N links, the distance L (hops
of the longest path) and the depth D (longest chain of dependent visits of a core). What that paper takes as one cycle
a wavelet and one a hop are parameters of the machine here. In all its algorithms C is at least E / N, so that E is only
counted here.

Added here is what the cores of the fabric do besides: every operation that cannot start before another has ended takes
its setup on the way (`starts`), a core that sends and receives at once takes turns between the two, and work on a core
alone (`local_cycles`) may come first. Where groups, trees or parts are uneven, the terms are those of the slowest way.
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
    """The terms of one algorithm on one line. Wavelets for `energy` and `contention`, hops for `distance`.

    `starts` counts operations whose setup nothing hides.
    """

    depth: float = 0
    distance: float = 0
    energy: float = 0
    contention: float = 0
    starts: int = 0
    local_cycles: float = 0

    def latency_cycles(self, machine: Machine) -> float:
        """The part that a single wavelet would take."""
        # A setup before the first word is latency too: a shorter message would wait for it just as long.
        setups = self.starts * machine.dsd_setup_cycles
        return self.distance * machine.hop_cycles + self.depth * machine.depth_step_cycles + setups

    def exact_cycles(self, machine: Machine) -> float:
        """The formula of the head of this file, with max(C, E / N) = C, before it is rounded to whole cycles."""
        return self.contention * machine.wavelet_cycles + self.local_cycles + self.latency_cycles(machine)

    def cycles(self, machine: Machine) -> int:
        """Whole cycles: the clock that ends a move is the one after its last word."""
        return math.ceil(self.exact_cycles(machine))


ZERO_TERMS = LineTerms()


def slowest_terms(ways: Iterable[LineTerms], machine: Machine) -> LineTerms:
    """Of several ways that words go at the same time the one that ends last."""
    return max(ways, key=lambda terms: terms.exact_cycles(machine))


def broadcast_terms(pes: int, words: int, source: int = 0) -> LineTerms:
    """One sender, a multicast along the line: B + P + 2 T_R cycles on the WSE-2, and a start."""
    # Nobody to send to: also no setup, for the lowering emits no operation then.
    if pes < 2 or not words:
        return ZERO_TERMS
    return LineTerms(1, distance=max(source, pes - 1 - source), energy=words * (pes - 1), contention=words, starts=1)


def plane_broadcast_terms(width: int, height: int, words: int, source: int = 0) -> LineTerms:
    """One PE to all, from a corner in B + M + N - 2 + 2 T_R + 1 cycles on the WSE-2, and a start."""
    if width * height < 2 or not words:
        return ZERO_TERMS
    # The farthest corner decides. One way of words forks at routers without a loss, so the distance is not the sum of
    # copies.
    row, column = divmod(source, width)
    far = max(row, height - 1 - row) + max(column, width - 1 - column)
    return LineTerms(1, distance=far, energy=words * (width * height - 1), contention=words, starts=1)


@lru_cache(maxsize=1024)
def shift_pairs(pes: int, hops: int, wrap: str = "") -> tuple[tuple[int, int], ...]:
    """Who sends to whom in a shift along a line of `pes`, as positions; a PE that would send to itself is left out."""
    ring = list(range(pes))
    if wrap == "folded":
        # Even positions outwards, odd ones back: both neighbours on the ring are at most two PEs away, and the far end
        # closes without a way over the whole line.
        ring = [*range(0, pes, 2), *reversed(range(1, pes, 2))]
    ends = [(i, i + hops) for i in range(pes)]
    # Without a wrap the pairs that leave the line are dropped below; with it they come in at the other end.
    if wrap:
        ends = [(i, j % pes) for i, j in ends]
    return tuple((ring[i], ring[j]) for i, j in ends if 0 <= j < pes and i != j)


def shift_terms(pes: int, words: int, hops: int, wrap: str, machine: Machine) -> LineTerms:
    """Every PE to the one `hops` further; where the line is closed to a ring see `phase.Shift`.

    The slowest of three: a core that sends and receives B words each, 2 B; the last words of a sender,
    which sends alone until its own words begin to come; and a link in the middle, which carries the words of `hops`
    senders: that which passes it last comes from the farthest if each sends one word, from any of them if many.
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
    # The last wavelet over the fullest link is any sender's if each has many, but that of the farthest if each has one;
    # (loads - 1) / words passes from the one case to the other.
    linked = LineTerms(
        1, distance=max(far for far, _ in ways), energy=total, contention=words * loads - (loads - 1) / words, starts=1
    )
    # A core that sends and receives issues 2 B operations in turn, whatever the links allow.
    shared = LineTerms(
        0, distance=0, energy=total, contention=2 * words if any(near is not None for _, near in ways) else 0, starts=1
    )
    return slowest_terms([linked, shared, *sent], machine)


def _alternation_cycles(words: int, near: int | None, machine: Machine) -> float:
    """Cycles of a core that sends while words come from `near` hops away: its turn comes late once they arrive."""
    if near is None:
        return words
    first_comes = machine.depth_step_cycles + machine.hop_cycles + (near - 1) * machine.hop_cycles
    return max(words, 2 * words - first_comes)


@lru_cache(maxsize=1024)
def _shift_link_loads(pairs: tuple[tuple[int, int], ...], pes: int) -> tuple[int, tuple[tuple[int, int | None], ...]]:
    """The most pairs on one link in one direction; for each kind of sender how far it sends and what it gets from."""
    most = 0
    # Links are full duplex: words to the right never wait for words to the left.
    for way in ([(i, j) for i, j in pairs if i < j], [(j, i) for i, j in pairs if i > j]):
        # How many ways lie over a link is how many have begun to its left and not yet ended.
        begins = Counter(left for left, _ in way)
        ends = Counter(right for _, right in way)
        most = max(most, *accumulate(begins[at] - ends[at] for at in range(pes)))
    gets = {j: abs(j - i) for i, j in pairs}
    return most, tuple({(abs(j - i), gets.get(i)) for i, j in pairs})


def star_terms(pes: int, words: int, machine: Machine) -> LineTerms:
    """All to one, directly: B (P - 1) + 2 T_R + 1, a start, and the hop of the nearest.

    The distance is that of the nearest: the far wavelets travel while those of the near PEs queue at the root's ramp.
    """
    if pes < 2 or not words:
        return ZERO_TERMS
    return LineTerms(1, distance=1, energy=words * pes * (pes - 1) / 2, contention=words * (pes - 1), starts=1)


def chain_terms(pes: int, words: int, machine: Machine) -> LineTerms:
    """Each PE adds its words to the stream that passes: B + (2 T_R + 2) (P - 1), and a start."""
    if pes < 2 or not words:
        return ZERO_TERMS
    return LineTerms(pes - 1, distance=pes - 1, energy=words * (pes - 1), contention=words, starts=1)


def tree_terms(pes: int, words: int, machine: Machine) -> LineTerms:
    """Pairwise in log2 P rounds: B log2 P + (P - 1) + (2 T_R + 1) log2 P, and a start for each round.

    The paper prints a maximum over that whole sum, which is smaller by at most the last two terms.
    """
    if pes < 2 or not words:
        return ZERO_TERMS
    # In the round of step s every (2 s)-th PE gets from the one s further; the last sender may be missing on a line
    # that is no power of two.
    steps = [1 << n for n in range(math.ceil(math.log2(pes)))]
    hops = sum(step * len(range(step, pes, 2 * step)) for step in steps)
    return replace(_last_word_terms(pes, words, machine), energy=words * hops)


def _last_word_terms(pes: int, words: int, machine: Machine) -> LineTerms:
    """What the last word takes on the way to the root: through the sender of the last round, or through the root."""
    if pes < 2:
        return ZERO_TERMS
    # The two halves of the last round: `near` ends at the root, `far` sends its sum over `step` hops.
    step = _next_power_of_two(pes) // 2
    near, far = (_last_word_terms(n, words, machine) for n in (step, pes - step))
    # First way: the far half is later, and its sum streams into a root that waits for it.
    comes = LineTerms(
        depth=far.depth + 1,
        distance=far.distance + step,
        energy=0,
        contention=far.contention + words,
        starts=far.starts + 1,
        local_cycles=far.local_cycles,
    )
    # Second way: the root still adds up its own half when the far words arrive, and their queue holds up what it needs.
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
    """Wavelets that wait before a core that does not take them: in its own queue and in its router's."""
    return 2 * machine.queue_depth + machine.hop_cycles + machine.ramp_cycles - 2


def path_words(hops: int, machine: Machine) -> float:
    """Wavelets that a sender can give away while a core `hops` further takes none: what all queues on the way hold."""
    # The ramps at both ends, and then the hops between them.
    ramps = 2 * (machine.queue_depth + machine.ramp_cycles) - 1
    return ramps + hops * _hop_words(machine)


def _hop_words(machine: Machine) -> float:
    """Wavelets that a hop holds: a queue, and a wire as long as its latency, a wavelet a cycle and one at the least."""
    return machine.queue_depth + max(1, machine.hop_cycles) - 1


def stolen_cycles(early: float, words: int, hops: int, machine: Machine) -> float:
    """What sums on their way lose to a stream on the same links that comes `early` cycles before its turn.

    It takes every other turn of a link until the queues before its core are full: those behind the link that is `hops`
    away from there, where sums begin.
    """
    # Back-pressure: words that nobody takes fill queue after queue back towards their sender, and stop stealing turns
    # once the last one on the shared links is full.
    on_the_way = max(0, hops) * _hop_words(machine)
    # No more than come early, than the queues hold, than there are at all.
    return max(0.0, min(early - 1, queue_words(machine) + on_the_way, words))


def _next_power_of_two(count: int) -> int:
    """The least power of two that is not below `count`."""
    return 1 << (count - 1).bit_length()


def two_phase_terms(pes: int, words: int, machine: Machine, group: int = 0) -> LineTerms:
    """Chains in groups of S, then a chain over the G leaders: 2 B + (P - 1) + (S + G - 2) (2 T_R + 1), and two starts.

    `group` is S; 0 takes the square root of P, which has the least depth. A last group that is shorter sends earlier,
    and then the last but one decides.
    """
    if pes < 2 or not words:
        return ZERO_TERMS
    size = min(pes, group or max(1, round(math.sqrt(pes))))
    groups = ceil_div(pes, size)
    # One group, or groups of one: there is only one chain, and its leaders are all of it.
    if 1 in (size, groups):
        return chain_terms(pes, words, machine)
    last = pes - (groups - 1) * size
    energy = words * (2 * pes - groups - size)
    rounds = 1 + (last > 1)
    # First way: from the end of the line through the short last group and over all leaders.
    ragged = LineTerms(last - 1 + groups - 1, distance=pes - 1, energy=energy, contention=rounds * words, starts=rounds)
    # The last group's sum arrives at the group before it while that one still adds up, and both share a link.
    first = LineTerms(
        last - 1 + 1, distance=last - 1 + size, energy=0, contention=(rounds - 1) * words, starts=rounds
    ).exact_cycles(machine)
    early = chain_terms(size, words, machine).exact_cycles(machine) - first
    stolen = stolen_cycles(early, words, size - last - rounds, machine)
    # Second way: from the last full group, which is later than the short one by as many PEs as that lacks.
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
    """Reduce-scatter and all-gather on a folded ring, in 2 (P - 1) rounds.

    The paper has 2 (P - 1) B / P + 4 P - 6 + 2 (P - 1) (2 T_R + 1), for cores that send and receive at once. Here every
    round is a sending and a receiving, each with a start; every second core of the ring begins with the sending.
    """
    if pes < 2 or not words:
        return ZERO_TERMS
    rounds = 2 * (pes - 1)
    hops = sum(abs(i - j) for i, j in shift_pairs(pes, 1, "folded"))
    cycles = _ring_cycles(pes, words, machine)
    # The ring is simulated round by round, so its cycles are one number; as much of it as setups explain is called
    # starts, so that a latency can be told from a price for each word.
    starts = min(2 * rounds, int(cycles / machine.dsd_setup_cycles))
    rest = cycles - starts * machine.dsd_setup_cycles
    return LineTerms(energy=rounds * words / pes * hops, starts=starts, local_cycles=rest)


@lru_cache(maxsize=256)
def _ring_cycles(pes: int, words: int, machine: Machine) -> float:
    """Round after round: when each core of the ring has sent and received.

    A sending ends when all but as many words are taken as the queues on the way hold.
    """
    setup, ring = machine.dsd_setup_cycles, [i for i, _ in _ring_pairs(pes)]
    hops = np.array([abs(i - j) for i, j in _ring_pairs(pes)])
    steps = machine.depth_step_cycles + hops * machine.hop_cycles
    way_holds = np.array([path_words(int(n), machine) for n in hops])
    # Part k of the words is cut as `lowering.reductions` cuts it, so that uneven parts are priced in the right rounds.
    sizes = np.diff([words * k // pes for k in range(pes + 1)]) * machine.wavelet_cycles
    rank = np.arange(pes)
    # Every second core of the ring sends before it receives; else all would wait with full queues for one another.
    first, second = rank[rank % 2 == 0], rank[rank % 2 == 1]
    free = np.zeros(len(ring))
    for number in range(2 * (pes - 1)):
        size = sizes[(rank - number) % pes]
        # On an odd ring the first and the last rank are both even and neighbours, so the last one sends after the first
        # has.
        groups = [first[:-1], first[-1:], second] if pes % 2 else [first, second]
        for senders in groups:
            _advance_ring_step(free, senders, size, setup, steps, way_holds)
    return float(free.max())


def _ring_pairs(pes: int) -> list[tuple[int, int]]:
    """The pairs of a folded ring in its order, from PE 0."""
    after = dict(shift_pairs(pes, 1, "folded"))
    pairs = [(0, after[0])]
    while len(pairs) < pes:
        pairs.append((pairs[-1][1], after[pairs[-1][1]]))
    return pairs


def _advance_ring_step(
    free: np.ndarray, senders: np.ndarray, size: np.ndarray, setup: float, steps: np.ndarray, way_holds: np.ndarray
) -> None:
    """Some cores of a ring send to the next ones: advance the cycles at which both are free."""
    # With fewer words than PEs some parts are empty: their operations are not emitted.
    senders = senders[size[senders] > 0]
    takers = (senders + 1) % len(free)
    begins = free[senders] + setup
    # The receiver's operation starts when it is set up and the first word is there, whichever comes last.
    comes = np.maximum(free[takers] + setup, begins + steps[senders])
    count = size[senders]
    # A sender is through when its last word is out of its hands, which the queues on the way allow before it is
    # received.
    free[senders] = np.maximum(begins + count, comes + count - way_holds[senders])
    free[takers] = comes + count


REDUCE_ALGORITHMS: dict[str, Callable[[int, int, Machine], LineTerms]] = {
    "chain": chain_terms,
    "tree": tree_terms,
    "two_phase": two_phase_terms,
    "star": star_terms,
}
