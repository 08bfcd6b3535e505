"""Closed forms for moves along a line of PEs: four terms for each algorithm, one formula for all.

Source: Luczynski et al., HPDC'24 (arXiv:2404.15888), a model of messages in wavelets on the WSE-2:
    T = max(C, E / N) + L + (2 T_R + 1) D
with the contention C (most wavelets through one ramp), the energy E (wavelet-hops) over N links, the distance L (hops
of the longest path) and the depth D (longest chain of dependent visits of a core). What that paper takes as one cycle
a wavelet and one a hop are parameters of the machine here.
"""

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from wse_sim.layout import ceil_div
from wse_sim.machine import Machine


@dataclass(frozen=True)
class Terms:
    """The terms of one algorithm on one line. Wavelets for `energy` and `contention`, hops for `distance`."""

    depth: float = 0
    distance: float = 0
    energy: float = 0
    contention: float = 0
    links: int = 1

    def latency_cycles(self, machine: Machine) -> float:
        """The part that a single wavelet would take."""
        return self.distance * machine.hop_cycles + self.depth * machine.depth_step_cycles

    def cycles(self, machine: Machine) -> int:
        stream = max(self.contention, self.energy / self.links) * machine.wavelet_cycles
        return math.ceil(stream + self.latency_cycles(machine))


NOTHING = Terms()


def broadcast(pes: int, words: int) -> Terms:
    """One sender, a multicast along the line: B + P + 2 T_R cycles on the WSE-2."""
    if pes < 2 or not words:
        return NOTHING
    return Terms(1, pes - 1, words * (pes - 1), words, pes - 1)


def broadcast_plane(width: int, height: int, words: int) -> Terms:
    """One corner to all PEs: B + M + N - 2 + 2 T_R + 1 cycles on the WSE-2."""
    if width * height < 2 or not words:
        return NOTHING
    links = width * height - 1
    return Terms(1, width + height - 2, words * links, words, links)


@lru_cache(maxsize=1024)
def shift_pairs(pes: int, hops: int, wrap: str = "") -> tuple[tuple[int, int], ...]:
    """Who sends to whom in a shift along a line of `pes`, as positions; a PE that would send to itself is left out."""
    ring = list(range(pes))
    if wrap == "folded":
        ring = [*range(0, pes, 2), *reversed(range(1, pes, 2))]
    ends = [(i, i + hops) for i in range(pes)]
    if wrap:
        ends = [(i, j % pes) for i, j in ends]
    return tuple((ring[i], ring[j]) for i, j in ends if 0 <= j < pes and i != j)


def shift(pes: int, words: int, hops: int, wrap: str = "") -> Terms:
    """Every PE to the one `hops` further; a link in the middle carries the words of `hops` senders.

    Where the line is closed to a ring (see `phase.Shift`), the way is as long as that of the farthest pair.
    """
    pairs = shift_pairs(pes, hops, wrap)
    if not pairs or not words:
        return NOTHING
    distances = [abs(j - i) for i, j in pairs]
    return Terms(1, max(distances), words * sum(distances), words * _busiest_link(pairs, pes), pes - 1)


def _busiest_link(pairs: tuple[tuple[int, int], ...], pes: int) -> int:
    """The most pairs whose way goes over one link in one direction."""
    most = 0
    for way in ([(i, j) for i, j in pairs if i < j], [(j, i) for i, j in pairs if i > j]):
        begins = Counter(left for left, _ in way)
        ends = Counter(right for _, right in way)
        most = max(most, *accumulate(begins[at] - ends[at] for at in range(pes)))
    return most


def star(pes: int, words: int) -> Terms:
    """All to one, directly: B (P - 1) + 2 T_R + 1.

    The distance is 0: the far wavelets travel while those of the near PEs queue at the root's ramp.
    """
    if pes < 2 or not words:
        return NOTHING
    return Terms(1, 0, words * pes * (pes - 1) / 2, words * (pes - 1), pes - 1)


def chain(pes: int, words: int) -> Terms:
    """Each PE adds its words to the stream that passes: B + (2 T_R + 2) (P - 1)."""
    if pes < 2 or not words:
        return NOTHING
    return Terms(pes - 1, pes - 1, words * (pes - 1), words, pes - 1)


def tree(pes: int, words: int) -> Terms:
    """Pairwise in log2 P rounds: B log2 P + (P - 1) + (2 T_R + 1) log2 P.

    The paper prints a maximum over that whole sum, which is smaller by at most the last two terms.
    """
    if pes < 2 or not words:
        return NOTHING
    rounds = math.ceil(math.log2(pes))
    return Terms(rounds, pes - 1, words * pes * rounds / 2, words * rounds, pes - 1)


def two_phase(pes: int, words: int, group: int = 0) -> Terms:
    """Chains in groups of S, then a chain over the G leaders: 2 B + (P - 1) + (S + G - 2) (2 T_R + 1).

    `group` is S; 0 takes the square root of P, which has the least depth.
    """
    if pes < 2 or not words:
        return NOTHING
    size = group or max(1, round(math.sqrt(pes)))
    groups = ceil_div(pes, size)
    return Terms(size + groups - 2, pes - 1, words * (2 * pes - groups - size), 2 * words, pes - 1)


REDUCE_ALGORITHMS = {"star": star, "chain": chain, "tree": tree, "two_phase": two_phase}


def best_reduce(pes: int, words: int, machine: Machine) -> tuple[str, Terms]:
    """The name and the terms of the algorithm that the model finds fastest."""
    rows = ((name, algorithm(pes, words)) for name, algorithm in REDUCE_ALGORITHMS.items())
    return min(rows, key=lambda row: row[1].cycles(machine))


def ring_all_reduce(pes: int, words: int) -> Terms:
    """Reduce-scatter and all-gather on a folded ring: 2 (P - 1) B / P + 4 P - 6 + 2 (P - 1) (2 T_R + 1)."""
    if pes < 2 or not words:
        return NOTHING
    rounds = 2 * (pes - 1)
    share = rounds * words / pes
    # Folded onto the line, the ring uses each of the 2 (P - 1) directed links once.
    return Terms(rounds, 4 * pes - 6, share * rounds, share, rounds)
