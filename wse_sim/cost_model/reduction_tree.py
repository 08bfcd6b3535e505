"""Choose how to reduce a line of PEs, and find the best reduction tree by dynamic programming (auto-gen).

Source of the idea: Luczynski et al., HPDC'24. In a pre-order tree every PE receives, one after the other, the sums of
the stretches that follow it on the line, and adds the last sum to its own as a stream. So a stretch of r PEs consists
of a stretch of q PEs with the same root, and a stretch of r - q PEs after it. The paper minimises the energy for every
depth and then its estimate of the time. Here the time of the slowest path is minimised directly:

    e(r) = min over q of max(g(q) + setup + stolen, e(r - q) + q hops + 2 T_R + 1),    g(r) = e(r) + B

e is the cycle in which the root's first word can leave, and g the cycle in which its sum is complete.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from wse_sim.cost_model import collectives
from wse_sim.cost_model.collectives import REDUCE_ALGORITHMS, ZERO_TERMS, LineTerms
from wse_sim.layout import Rect
from wse_sim.machine import Machine

# Half of a router's 24 colours; the other half is for moves at the same time as the tree.
MAX_TREE_COLOURS = 12
"""Maximum number of paths of a tree over one router. The unrestricted best tree for one word has many more on a long
line.
"""


@dataclass(frozen=True)
class StretchTable:
    """Results of the dynamic program, indexed by the number of PEs r of a stretch.

    - `leaves`: cycles until the root's first word can leave
    - `complete`: cycles until the root's sum is complete
    - `heads`: the best q
    """

    leaves: np.ndarray
    complete: np.ndarray
    heads: np.ndarray


@lru_cache(maxsize=512)
def _compute_stretches(pes: int, words: int, machine: Machine) -> StretchTable:
    """Return the table of all stretches of up to `pes` PEs, a power of two, for `words` words. Results are cached.

    Trees with more than `MAX_TREE_COLOURS` paths over one router are left out.
    """
    # Index n of a slice below stands for q = n + 1, so NumPy compares all cuts of a stretch at once. The loop over r
    # remains, since every stretch needs the shorter ones.
    setup, stream = machine.loaded_setup_cycles, words * machine.wavelet_cycles
    # The latency of the second stretch's first word to the root: q hops, and one visit of a core.
    hops = np.arange(pes + 1) * machine.hop_cycles + machine.depth_step_cycles
    queues = collectives.queue_words(machine)
    leaves, complete = np.full(pes + 1, np.inf), np.full(pes + 1, np.inf)
    # A single PE has its sum immediately, and its first word leaves after one setup.
    leaves[1], complete[1] = setup, 0
    heads, crossed, children = (np.zeros(pes + 1, np.int32) for _ in range(3))
    for r in range(2, pes + 1):
        comes = leaves[r - 1 : 0 : -1] + hops[1:r]
        ready = complete[1:r]
        # As in `collectives.stolen_cycles`: words that arrive before the root can take them get every other turn on
        # links that the root still needs.
        stolen = np.clip(np.minimum(ready - comes - 1, min(queues, words)), 0, None)
        leave = np.maximum(ready + setup + stolen, comes)
        # A path needs a separate colour on every router that it crosses. `crossed` counts the most paths over one
        # router of a stretch, `children` those that end at its root. The path to the new root crosses the whole stretch
        # of q.
        colours = np.maximum(np.maximum(crossed[r - 1 : 0 : -1], children[r - 1 : 0 : -1] + 1), crossed[1:r] + 1)
        # Trees with too many colours are excluded; a chain (q = r - 1) always fits, so a candidate remains.
        leave[colours > MAX_TREE_COLOURS] = np.inf
        heads[r] = head = 1 + int(leave.argmin())
        leaves[r], crossed[r], children[r] = leave[head - 1], colours[head - 1], children[head] + 1
        complete[r] = leaves[r] + stream
    return StretchTable(leaves, complete, heads)


def _stretch_table(pes: int, words: int, machine: Machine) -> StretchTable:
    # A table contains all shorter lines: rounding up to a power of two lets a sweep over sizes share a few tables.
    return _compute_stretches(1 << (pes - 1).bit_length(), words, machine)


@lru_cache(maxsize=4096)
def auto_gen_terms(pes: int, words: int, machine: Machine) -> LineTerms:
    """Return the cost terms of the fastest pre-order tree, which are those of its slowest path, with the whole energy.

    Without words, or on one PE, it takes none. Results are cached.
    """
    if pes < 2 or not words:
        return ZERO_TERMS
    parents = generate_tree(pes, words, machine)
    energy = words * sum(i - p for i, p in enumerate(parents) if p >= 0)
    return replace(_slowest_path_terms(_stretch_table(pes, words, machine), pes, words, machine), energy=energy)


def _slowest_path_terms(table: StretchTable, pes: int, words: int, machine: Machine) -> LineTerms:
    """Return the cost terms, without energy, of the slowest path of a tree over `pes` PEs, traced from the root."""
    depth, distance, sums, starts, stolen = 0, 0, 1, 0, 0.0
    while pes > 1:
        head = int(table.heads[pes])
        comes = table.leaves[pes - head] + head * machine.hop_cycles + machine.depth_step_cycles
        # The root waited for the second stretch: the slowest path continues there.
        if comes >= table.leaves[pes]:
            depth, distance, pes = depth + 1, distance + head, pes - head
        else:
            # Otherwise the root was still adding earlier sums: the path continues in its own shorter stretch.
            stolen += float(table.leaves[pes] - table.complete[head] - machine.loaded_setup_cycles)
            sums, starts, pes = sums + (head > 1), starts + 1, head
            # A stretch of one PE has only its own words: no earlier operation, and its setup has been counted.
            if head == 1:
                return LineTerms(
                    depth=depth,
                    distance=distance,
                    energy=0,
                    contention=sums * words,
                    starts=starts,
                    local_cycles=stolen,
                )
    return LineTerms(
        depth=depth, distance=distance, energy=0, contention=sums * words, starts=starts + 1, local_cycles=stolen
    )


@lru_cache(maxsize=512)
def generate_tree(pes: int, words: int, machine: Machine) -> tuple[int, ...]:
    """Return, for each PE of a line, the PE that it sends to in the fastest pre-order tree; -1 for the root, PE 0.

    A PE receives the sums of its senders in the order of their positions. Results are cached.
    """
    heads = _stretch_table(pes, words, machine).heads
    parents = [-1] * pes
    # A stretch consists of the stretch of q PEs with the same root, and the next child at position q. It is unrolled
    # from the last child to the first.
    waiting = [(0, pes)]
    while waiting:
        root, count = waiting.pop()
        while count > 1:
            head = int(heads[count])
            parents[root + head] = root
            waiting.append((root + head, count - head))
            count = head
    return tuple(parents)


REDUCTION_TERMS: dict[str, Callable[[int, int, Machine], LineTerms]] = {**REDUCE_ALGORITHMS, "auto_gen": auto_gen_terms}
"""Name of a reduction, the simplest first -> function (PEs, words, machine) -> terms."""


def reduce_terms(pes: int, words: int, algorithm: str, size: int, machine: Machine) -> LineTerms:
    """Return the cost terms of a reduction along a line by `algorithm`; an empty name selects the fastest.

    `size` is the group size of "two_phase" and is ignored for other algorithms.
    """
    if algorithm == "two_phase":
        return collectives.two_phase_terms(pes, words, machine, size)
    return REDUCTION_TERMS[algorithm or choose_reduce(pes, words, machine)](pes, words, machine)


@lru_cache(maxsize=4096)
def choose_reduce(pes: int, words: int, machine: Machine) -> str:
    """Return the name of the fastest reduction of a line; of equally fast ones, the simplest."""
    # `min` returns the first of equal candidates, and the table has the simplest first.
    return min(REDUCTION_TERMS, key=lambda name: REDUCTION_TERMS[name](pes, words, machine).cycles(machine))


def choose_all_reduce(pes: int, words: int, machine: Machine) -> str:
    """Return the name of the fastest reduction for an all-reduce, which a broadcast follows.

    A ring is never faster in this model. Each core of a ring sends and receives 2 B (P - 1) / P words and alternates
    between the two, which takes at least as long as a chain and a broadcast even without starts.
    """
    return choose_reduce(pes, words, machine)


def choose_plane(rect: Rect, words: int, algorithm: str, machine: Machine) -> str:
    """Return "snake" if one chain through all PEs of a rectangle is fastest, or "" for its rows and then one column.

    The snake is chosen only if it is faster and no `algorithm` is named ("" names none). It has no turn cycles: at its
    corners cores forward the words.
    """
    # With few words latency decides, and two short lines are faster. With many words the second pass over all words
    # costs more than the longer chain.
    rows, column = (reduce_terms(n, words, algorithm, 0, machine).cycles(machine) for n in (rect.width, rect.height))
    if algorithm or collectives.chain_terms(rect.area, words, machine).cycles(machine) >= rows + column:
        return ""
    return "snake"
