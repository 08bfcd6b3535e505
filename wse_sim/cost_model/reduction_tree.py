"""The best tree to reduce a line of PEs: dynamic programming over pre-order trees (auto-gen); and which way is fastest.

Source of the idea: Luczynski et al., HPDC'24. A pre-order tree cuts the line so that every PE gets the sums of those
stretches that follow it, one after the other; that of the last passes through. So a stretch of r PEs is a shorter one
of q, whose root has taken its sums, and the stretch of r - q behind it. The paper minimises the energy for every depth
and then its estimate of the time; here the time itself is minimised, which is that of the slowest way:
    e(r) = min over q of max(g(q) + setup + stolen, e(r - q) + q hops + 2 T_R + 1),    g(r) = e(r) + B
with e the cycle in which the root's first word can leave, and g the one in which its sum is complete.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from wse_sim.cost_model import collectives
from wse_sim.cost_model.collectives import REDUCE_ALGORITHMS, ZERO_TERMS, LineTerms
from wse_sim.layout import Rect
from wse_sim.machine import Machine

# Half of a router's 24 colours; the other half is left to what moves beside the tree.
MAX_TREE_COLOURS = 12
"""Ways over one router that a tree may have; the best tree for one word has many more on a long line."""


@dataclass(frozen=True)
class StretchTable:
    """For every number of PEs r up to `len(complete) - 1`: cycles until the root's first
    word can leave and until the sum is complete, and the best q."""

    leaves: np.ndarray
    complete: np.ndarray
    heads: np.ndarray


@lru_cache(maxsize=512)
def _compute_stretches(pes: int, words: int, machine: Machine) -> StretchTable:
    """All stretches up to `pes` PEs, a power of two."""
    # In each row below index n of a slice stands for q = n + 1, so all cuts of a stretch are weighed in one NumPy
    # expression; the loop over r stays, for every stretch needs the shorter ones.
    setup, stream = machine.dsd_setup_cycles, words * machine.wavelet_cycles
    # What the first word of the stretch behind needs to get to the root: q hops, and one visit of a core.
    hops = np.arange(pes + 1) * machine.hop_cycles + machine.depth_step_cycles
    queues = collectives.queue_words(machine)
    leaves, complete = np.full(pes + 1, np.inf), np.full(pes + 1, np.inf)
    # A single PE has its sum at once, and a first word out after one setup.
    leaves[1], complete[1] = setup, 0
    heads, crossed, children = (np.zeros(pes + 1, np.int32) for _ in range(3))
    for r in range(2, pes + 1):
        comes = leaves[r - 1 : 0 : -1] + hops[1:r]
        ready = complete[1:r]
        # As in `collectives.stolen_cycles`: words that come before the root can take them get every other turn on the
        # links of those that it still needs.
        stolen = np.clip(np.minimum(ready - comes - 1, min(queues, words)), 0, None)
        leave = np.maximum(ready + setup + stolen, comes)
        # A way has a colour of its own on every router that it crosses. `crossed` counts the most ways over one router
        # of a stretch, `children` those that end at its root: the way to the new root lies over the whole stretch of q.
        colours = np.maximum(np.maximum(crossed[r - 1 : 0 : -1], children[r - 1 : 0 : -1] + 1), crossed[1:r] + 1)
        # A tree that the router cannot hold is no candidate; a chain (q = r - 1) always fits, so one remains.
        leave[colours > MAX_TREE_COLOURS] = np.inf
        heads[r] = head = 1 + int(leave.argmin())
        leaves[r], crossed[r], children[r] = leave[head - 1], colours[head - 1], children[head] + 1
        complete[r] = leaves[r] + stream
    return StretchTable(leaves, complete, heads)


def _stretch_table(pes: int, words: int, machine: Machine) -> StretchTable:
    # A table has all shorter lines in it: rounding up to a power of two lets a sweep over sizes share a few tables.
    return _compute_stretches(1 << (pes - 1).bit_length(), words, machine)


@lru_cache(maxsize=4096)
def auto_gen_terms(pes: int, words: int, machine: Machine) -> LineTerms:
    """The terms of the fastest pre-order tree: those of its slowest way."""
    if pes < 2 or not words:
        return ZERO_TERMS
    parents = generate_tree(pes, words, machine)
    energy = words * sum(i - p for i, p in enumerate(parents) if p >= 0)
    return replace(_slowest_path_terms(_stretch_table(pes, words, machine), pes, words, machine), energy=energy)


def _slowest_path_terms(table: StretchTable, pes: int, words: int, machine: Machine) -> LineTerms:
    """From the root back to where the words that come last began."""
    depth, distance, sums, starts, stolen = 0, 0, 1, 0, 0.0
    while pes > 1:
        head = int(table.heads[pes])
        comes = table.leaves[pes - head] + head * machine.hop_cycles + machine.depth_step_cycles
        # The root waited for the stretch behind it: that is the way of the last word, so go on from there.
        if comes >= table.leaves[pes]:
            depth, distance, pes = depth + 1, distance + head, pes - head
        else:
            # Otherwise the root was still adding up what came before: the way goes through its own shorter stretch.
            stolen += float(table.leaves[pes] - table.complete[head] - machine.dsd_setup_cycles)
            sums, starts, pes = sums + (head > 1), starts + 1, head
            # Its own words only: no earlier operation, so the setup was already counted.
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
    """To whom each PE sends in the fastest pre-order tree; the root, PE 0, has -1.

    A PE takes the sums of its senders in the order of their positions.
    """
    heads = _stretch_table(pes, words, machine).heads
    parents = [-1] * pes
    # A stretch is its root with q - 1 others, then the next child at q: unwound from the last child to the first.
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


def reduce_terms(pes: int, words: int, algorithm: str, size: int, machine: Machine) -> LineTerms:
    """The terms of a reduction along a line; without a name those of the fastest."""
    if algorithm == "two_phase":
        return collectives.two_phase_terms(pes, words, machine, size)
    return REDUCTION_TERMS[algorithm or choose_reduce(pes, words, machine)](pes, words, machine)


@lru_cache(maxsize=4096)
def choose_reduce(pes: int, words: int, machine: Machine) -> str:
    """The name of the fastest reduction of a line, the simplest of those that are equally fast."""
    # `min` keeps the first of equals, and the table has the simplest first: a generated tree has to be faster to be
    # taken.
    return min(REDUCTION_TERMS, key=lambda name: REDUCTION_TERMS[name](pes, words, machine).cycles(machine))


def choose_all_reduce(pes: int, words: int, machine: Machine) -> str:
    """The name of the reduction that a broadcast follows.

    A ring is never faster here: each of its cores sends and receives 2 B (P - 1) / P words and takes turns between the
    two, which is no less than a chain and a broadcast take, before any start.
    """
    return choose_reduce(pes, words, machine)


def choose_plane(rect: Rect, words: int, algorithm: str, machine: Machine) -> str:
    """ "snake" for one chain through all PEs of a rectangle, "" for its rows and then a column.

    The chain is taken only if it is faster and no algorithm is named. It does not turn: cores pass the words on.
    """
    # With few words latency decides and two short lines win; with many the second pass over all words costs more than
    # the longer chain.
    rows, column = (reduce_terms(n, words, algorithm, 0, machine).cycles(machine) for n in (rect.width, rect.height))
    if algorithm or collectives.chain_terms(rect.area, words, machine).cycles(machine) >= rows + column:
        return ""
    return "snake"
