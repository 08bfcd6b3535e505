"""The best tree to reduce a line of PEs: dynamic programming over pre-order trees (auto-gen).

Source: Luczynski et al., HPDC'24. A pre-order tree cuts the line so that every PE gets the sums of stretches that
follow it, one after the other. Its energy is the sum over all PEs of the distance to the one they send to; its fan-in,
the most sums that one PE takes in, bounds the contention. For each fan-in the least energy at every depth is found,
until the contention binds: deeper trees then save nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from wse_sim import collectives
from wse_sim.collectives import (
    NOTHING,
    REDUCE_ALGORITHMS,
    Terms,
    chain,
    star,
    tree,
    two_phase,
)
from wse_sim.layout import Rect
from wse_sim.machine import Machine

FAN_INS = (2, 3, 4, 5, 6, 8, 11, 16, 23, 32)
"""Bounds that are tried. A fan-in of 1 is the chain; a star has no better rival at depth 1."""


@dataclass(frozen=True)
class _Trees:
    """`energy[d][k][r]`: the least energy of a tree on r PEs, of depth d at most, whose root takes k sums at most.

    All other PEs take `fan_in` at most. Infinite where there is no such tree.
    """

    fan_in: int
    energy: list[np.ndarray]


@lru_cache(maxsize=64)
def _trees(pes: int, fan_in: int) -> _Trees:
    """Deeper and deeper trees until the energy of `pes` PEs is no more than the contention."""
    alone = np.full((fan_in + 1, pes + 1), np.inf)
    alone[:, 1] = 0
    energy = [alone]
    while energy[-1][fan_in, pes] > fan_in * (pes - 1):
        energy.append(_deeper(energy[-1][fan_in], fan_in))
    return _Trees(fan_in, energy)


def _deeper(below: np.ndarray, fan_in: int) -> np.ndarray:
    """The energies at one more depth: the root has some sums already, and the stretch behind it sends the last one."""
    pes = len(below) - 1
    rows = [np.full(pes + 1, np.inf)]
    rows[0][1] = 0
    for _ in range(fan_in):
        head = rows[-1] + np.arange(pes + 1)  # a stretch that begins q PEs behind the root sends over q hops
        rows.append(np.minimum(rows[-1], _least_sums(head, below)))
    return np.stack(rows)


def _least_sums(head: np.ndarray, tail: np.ndarray) -> np.ndarray:
    """For each r the least head[q] + tail[r - q]."""
    padded = np.concatenate([np.full(len(head) - 1, np.inf), head])
    return (sliding_window_view(padded, len(head))[:, ::-1] + tail).min(axis=1)


def _candidates(pes: int, words: int) -> Iterator[tuple[Terms, int, int]]:
    """Terms, fan-in and depth of the best trees of every fan-in and depth."""
    for fan_in in FAN_INS:
        if fan_in < pes:
            for depth, energy in enumerate(_trees(pes, fan_in).energy):
                least = energy[fan_in, pes]
                if np.isfinite(least):
                    yield Terms(depth, pes - 1, words * float(least), words * fan_in, pes - 1), fan_in, depth


def auto_gen(pes: int, words: int, machine: Machine) -> Terms:
    """The terms of the fastest pre-order tree of all that are tried, the published algorithms among them.

    The trees of a line are found once, in 0.2 s for 512 PEs; so reports, which ask for many lines, do not use them.
    """
    if pes < 2 or not words:
        return NOTHING
    published = (algorithm(pes, words) for algorithm in (star, chain, tree, two_phase))
    return min((*published, *(terms for terms, *_ in _candidates(pes, words))), key=lambda t: t.cycles(machine))


def generated_tree(pes: int, words: int, machine: Machine) -> tuple[int, ...]:
    """To whom each PE sends in the fastest tree that dynamic programming finds; the root, PE 0, has -1.

    A PE takes the sums of its senders in the order of their positions. Chains and stars are trees of this kind too,
    but are left to their own names. Raises ValueError for fewer than three PEs, which leave no choice.
    """
    if pes < 3:
        raise ValueError(f"{pes} PEs have only one tree")
    _, fan_in, depth = min(_candidates(pes, words), key=lambda c: c[0].cycles(machine))
    parents = [-1] * pes
    _plant(parents, _trees(pes, fan_in), 0, pes, depth)
    return tuple(parents)


def _plant(parents: list[int], trees: _Trees, root: int, pes: int, depth: int) -> None:
    """Fill in the stretch of `pes` PEs behind and with `root`, from its last sum to its first."""
    sums = trees.fan_in
    while pes > 1:
        here = trees.energy[depth]
        while here[sums - 1, pes] == here[sums, pes]:
            sums -= 1
        below = trees.energy[depth - 1][trees.fan_in]
        head = next(q for q in range(1, pes) if here[sums - 1, q] + q + below[pes - q] == here[sums, pes])
        parents[root + head] = root
        _plant(parents, trees, root + head, pes - head, depth - 1)
        pes, sums = head, sums - 1


def choose_reduce(pes: int, words: int, machine: Machine) -> str:
    """The name of the fastest reduction of a line."""
    names = ("chain", "tree", "two_phase")
    return min(names, key=lambda name: REDUCE_ALGORITHMS[name](pes, words).cycles(machine))


def choose_all_reduce(pes: int, words: int, machine: Machine) -> str:
    """ "ring", or the name of the reduction that a broadcast follows."""
    name = choose_reduce(pes, words, machine)
    steps = REDUCE_ALGORITHMS[name](pes, words).cycles(machine) + collectives.broadcast(pes, words).cycles(machine)
    return "ring" if collectives.ring_all_reduce(pes, words).cycles(machine) < steps else name


def choose_plane(rect: Rect, words: int, algorithm: str, machine: Machine) -> str:
    """ "snake" for one chain through all PEs of a rectangle, "" for its rows and then a column."""
    return ""
