"""A search for short wires: orders of blocks and slicing trees are changed a little at a time, mostly for the better.

Deterministic: how many changes are tried is given, and not the time that they take. `seconds`, of processors and not of
the clock, only end a search on a machine that is too slow for it. Two seeds run at once, on two threads.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lazytensor.system.threads import run_all
from wse_sim.floorplanning import annealing
from wse_sim.floorplanning.block_order import order_blocks
from wse_sim.floorplanning.columns import anneal_order
from wse_sim.floorplanning.serpentine import SerpentineColumns
from wse_sim.floorplanning.shape_curves import INFEASIBLE, ShapeCurve, inverse_curve
from wse_sim.floorplanning.slicing_tree import SlicingTree, find_ordered_tree, place_blocks, rename_blocks

WeightedNets = Sequence[tuple[int, int, int]]
"""Two blocks and the weight of what connects them."""

COLUMN_GROUP_SIZES = range(1, 6)
"""Blocks in a group of a column, from the shortest wires to the fullest mesh."""
RANDOM_SEEDS = (1, 2)
CHANGES_PER_ROUND = 5_000
"""Changes between two looks at the clock."""
OVERSIZE_DIVISOR = 16
"""A tree may be one part in so many larger than the mesh on its way to a better one."""


@dataclass(frozen=True)
class CoolingSchedule:
    """Temperatures at the beginning and the end, and what a row beyond the mesh costs then: in typical wires."""

    hot: float
    cold: float
    row_first: float
    row_last: float


ORDER_COOLING = CoolingSchedule(0.7, 0.02, 4.0, 4.0)
TREE_COOLINGS = (CoolingSchedule(0.7, 0.03, 7.0, 20.0), CoolingSchedule(0.5, 0.005, 0.5, 5.0))
"""The first keeps what is good about its start; the second leaves it behind, which pays for a few blocks."""
MAX_BLOCKS_FOR_SECOND_COOLING = 30
"""Blocks for which it does."""


@dataclass(frozen=True)
class WirelengthProblem:
    """Blocks, what connects them, and the mesh that they are to lie on."""

    curves: Sequence[ShapeCurve]
    wires: WeightedNets
    width: int
    height: int

    def length(self, tree: SlicingTree) -> float:
        """The wirelength of a tree: from centre to centre along rows and columns, times weights."""
        places = place_blocks(tree, self.curves, self.width, self.height)
        ends = [(r.x + r.width / 2, r.y + r.height / 2) for r in places]
        return sum(w * (abs(ends[a][0] - ends[b][0]) + abs(ends[a][1] - ends[b][1])) for a, b, w in self.wires)


def find_short_tree(task: WirelengthProblem, changes: int, seconds: float) -> SlicingTree | None:
    """A tree with short wires that fits the mesh, or None if no start was found. `changes` is how long to look."""
    starts = list(_initial_trees(task))
    end = time.process_time() + seconds
    if not starts or not task.wires or len(task.curves) < 3:
        return starts[0] if starts else None
    orders = run_all(
        [partial(_anneal_columns, task, seed, changes // 8, end) for seed in RANDOM_SEEDS], len(RANDOM_SEEDS)
    )
    starts += [tree for tree in orders if tree]
    starts.sort(key=task.length)
    coolings = TREE_COOLINGS if len(task.curves) <= MAX_BLOCKS_FOR_SECOND_COOLING else TREE_COOLINGS[:1]
    # The best two starts, or the only one twice.
    jobs = [(start, cooling) for cooling in coolings for start in (starts[0], starts[1 % len(starts)])]
    searches = [partial(shorten_wires, task, *job, changes, end, 1 + n % 2) for n, job in enumerate(jobs)]
    shorter = run_all(searches, len(RANDOM_SEEDS))
    return min((*starts, *shorter), key=task.length)


def has_fitting_tree(task: WirelengthProblem) -> bool:
    """Whether one of the trees that a search begins with fits the mesh."""
    return next(_initial_trees(task), None) is not None


def _initial_trees(task: WirelengthProblem) -> Iterator[SlicingTree]:
    """Trees that fit: the columns of the smallest groups that do, or whatever cuts do."""
    # Neighbours in the graph become neighbours in a column, which no later search has to find out.
    order = order_blocks(len(task.curves), [wire[:2] for wire in task.wires])
    line = [task.curves[n] for n in order]
    for group in COLUMN_GROUP_SIZES:
        tree = SerpentineColumns(line, task.width, task.height, group).tree()
        if tree:
            yield rename_blocks(tree, order)
            return
    tree = find_ordered_tree(line, task.width, task.height)
    if tree:
        yield rename_blocks(tree, order)


def _anneal_columns(task: WirelengthProblem, seed: int, changes: int, end: float) -> SlicingTree | None:
    """Columns of single blocks, in a better order."""
    n, order = len(task.curves), order_blocks(len(task.curves), [wire[:2] for wire in task.wires])
    wide = task.width + task.width // OVERSIZE_DIVISOR
    curves = np.array([[*curve, *[curve[-1]] * (wide - task.width)] for curve in task.curves], np.int32)
    # Wider columns than about three blocks of the mean area are never needed, and cost time.
    stack = np.zeros(min(wide, max(1, round(3 * task.width / n**0.5))), np.int32)
    line, orders, widths = np.zeros((2, n + 1), np.int32), np.array([order, order], np.int32), np.zeros(n + 1, np.int32)
    centres, (ends, weights) = np.zeros((n, 2), np.int32), _net_arrays(task)
    typical = _typical_wirelength(task)
    rounds = max(1, changes // CHANGES_PER_ROUND)
    state = _annealing_state(ORDER_COOLING, typical, rounds)
    for _ in range(rounds):
        sizes = (task.width, task.height, CHANGES_PER_ROUND)
        anneal_order(curves, line, orders, widths, stack, centres, ends, weights, _random_state(seed), state, *sizes)
        seed += len(RANDOM_SEEDS)
        if time.process_time() > end:
            break
    # Orders that never fitted end as the line that they began with, and then fit no better.
    best = tuple(int(v) for v in orders[1])
    tree = SerpentineColumns([task.curves[i] for i in best], task.width, task.height, 1).tree()
    return rename_blocks(tree, best) if tree else None


def shorten_wires(
    task: WirelengthProblem, tree: SlicingTree, cooling: CoolingSchedule, changes: int, end: float, seed: int
) -> SlicingTree:
    """A tree of the same blocks that fits the mesh if `tree` does, and whose wires are no longer."""
    n, nodes = len(task.curves), 2 * len(task.curves) - 1
    wide, high = (side + side // OVERSIZE_DIVISOR for side in (task.width, task.height))
    rows = np.full((nodes, wide + high), INFEASIBLE, np.int16)
    for i, curve in enumerate(task.curves):
        rows[i, : task.width], rows[i, task.width : wide] = curve, curve[-1]
        rows[i, wide:] = inverse_curve(curve, high)
    # Those of cuts follow when a search begins.
    table = _tree_table(tree)
    topologies = np.stack([table, table])
    kept, kept_nodes = np.zeros((2 * nodes, wide + high), np.int16), np.zeros(2 * nodes + 1, np.int32)
    centres, stack, (ends, weights) = np.zeros((n, 2), np.int32), np.zeros((nodes + 2, 5), np.int32), _net_arrays(task)
    typical, rounds, best = _typical_wirelength(task), max(1, changes // CHANGES_PER_ROUND), np.inf
    state, random = _annealing_state(cooling, typical, rounds), _random_state(seed)
    sizes = (wide, task.width, task.height)
    for turn in range(rounds):
        # What lies beyond the mesh costs more and more, so that the search may pass through it in the beginning only.
        state[2] = typical * cooling.row_first * (cooling.row_last / cooling.row_first) ** (turn / rounds)
        # Prices changed, so what the tree costs is counted anew.
        annealing.evaluate_tree(table, rows, kept_nodes, centres, stack, ends, weights, state, *sizes)
        state[4] = best = min(best, state[4])
        annealing.anneal_tree(
            table,
            rows,
            topologies,
            kept,
            kept_nodes,
            centres,
            stack,
            ends,
            weights,
            random,
            state,
            *sizes,
            CHANGES_PER_ROUND,
        )
        best = state[4]
        if time.process_time() > end:
            break
    cut, first, second = (tuple(int(v) for v in topologies[1, row, n:]) for row in range(3))
    return SlicingTree(cut, first, second, int(topologies[1, annealing.ROOT_ROW, 0]))


def _typical_wirelength(task: WirelengthProblem) -> float:
    """The doubled length of a wire between neighbours, times a mean weight: what temperatures are measured in."""
    mean = sum(w for _, _, w in task.wires) / len(task.wires)
    return 2 * mean * math.sqrt(task.width * task.height / len(task.curves))


def _annealing_state(cooling: CoolingSchedule, typical: float, rounds: int) -> NDArray[np.float64]:
    factor = (cooling.cold / cooling.hot) ** (1 / (rounds * CHANGES_PER_ROUND))
    return np.array([cooling.hot * typical, factor, cooling.row_first * typical, np.inf, np.inf])


def _net_arrays(task: WirelengthProblem) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    ends = np.array([wire[:2] for wire in task.wires], np.int32).reshape(-1, 2)
    return ends, np.array([wire[2] for wire in task.wires], np.int64)


def _random_state(seed: int) -> NDArray[np.uint64]:
    # Any odd multiplier that spreads small seeds over all bits does.
    return np.array([seed * 0x9E3779B97F4A7C15 % 2**64], np.uint64)


def _tree_table(tree: SlicingTree) -> NDArray[np.int32]:
    n = tree.blocks
    table = np.full((annealing.TREE_ROWS, 2 * n - 1), -1, np.int32)
    table[annealing.CUT_ROW, n:], table[annealing.FIRST_ROW, n:], table[annealing.SECOND_ROW, n:] = (
        tree.cuts,
        tree.first,
        tree.second,
    )
    for part in (tree.first, tree.second):
        table[annealing.PARENT_ROW, list(part)] = np.arange(n, 2 * n - 1)
    table[annealing.ROOT_ROW, 0] = tree.root
    return table
