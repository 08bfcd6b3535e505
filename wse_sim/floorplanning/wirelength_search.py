"""Search for floorplans with short wires, by simulated annealing of block orders and of slicing trees.

The search is deterministic: the number of changes is given, not a duration. `seconds` of processor time only end a
search on a machine that is too slow. Two seeds run at the same time on two threads.
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
"""(block, block, weight of their connection) for each net."""

COLUMN_GROUP_SIZES = range(1, 6)
"""Numbers of blocks in a group of a column, from the shortest wires to the fullest mesh."""
RANDOM_SEEDS = (1, 2)
CHANGES_PER_ROUND = 5_000
"""Number of changes between two checks of the time limit."""
OVERSIZE_DIVISOR = 16
"""During the search a tree may exceed the mesh by one part in this number."""


@dataclass(frozen=True)
class CoolingSchedule:
    """Temperatures at the start and the end, and the cost of a row beyond the mesh then, in typical wire lengths."""

    hot: float
    cold: float
    row_first: float
    row_last: float


ORDER_COOLING = CoolingSchedule(0.7, 0.02, 4.0, 4.0)
TREE_COOLINGS = (CoolingSchedule(0.7, 0.03, 7.0, 20.0), CoolingSchedule(0.5, 0.005, 0.5, 5.0))
"""The first schedule keeps what is good about the initial tree. The second leaves it, which helps for few blocks."""
MAX_BLOCKS_FOR_SECOND_COOLING = 30
"""Maximum number of blocks for which the second schedule is used."""


@dataclass(frozen=True)
class WirelengthProblem:
    """Blocks with their shape curves, weighted nets between them, and the size of the mesh."""

    curves: Sequence[ShapeCurve]
    wires: WeightedNets
    width: int
    height: int

    def length(self, tree: SlicingTree) -> float:
        """Return the weighted sum of the Manhattan distances between the centres of connected blocks, in PEs."""
        places = place_blocks(tree, self.curves, self.width, self.height)
        ends = [(r.x + r.width / 2, r.y + r.height / 2) for r in places]
        return sum(w * (abs(ends[a][0] - ends[b][0]) + abs(ends[a][1] - ends[b][1])) for a, b, w in self.wires)


def find_short_tree(task: WirelengthProblem, changes: int, seconds: float) -> SlicingTree | None:
    """Return a slicing tree with short wires that fits on the mesh, or None if no initial tree fits.

    `changes` is the number of changes for each search. `seconds` is the limit of processor time. Without wires, or with
    fewer than 3 blocks, the initial tree is returned. The result is the same at each call unless time runs out.
    """
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
    # Use the best two initial trees, or the only one twice.
    jobs = [(start, cooling) for cooling in coolings for start in (starts[0], starts[1 % len(starts)])]
    searches = [partial(shorten_wires, task, *job, changes, end, 1 + n % 2) for n, job in enumerate(jobs)]
    shorter = run_all(searches, len(RANDOM_SEEDS))
    return min((*starts, *shorter), key=task.length)


def has_fitting_tree(task: WirelengthProblem) -> bool:
    """Return whether `find_short_tree` would find an initial tree that fits on the mesh."""
    return next(_initial_trees(task), None) is not None


def _initial_trees(task: WirelengthProblem) -> Iterator[SlicingTree]:
    """Yield at most one tree that fits: columns with the smallest possible groups, or else any ordered slicing tree.

    Blocks are ordered so that connected ones are neighbours.
    """
    # Blocks that are connected become neighbours in a column.
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
    """Search an order of the blocks with short wires by annealing. Return its columns, or None if none fits.

    A column stacks blocks, one in each row. Makes about `changes` changes in rounds, and stops after the first round
    that ends later than `end` of `time.process_time()`.
    """
    n, order = len(task.curves), order_blocks(len(task.curves), [wire[:2] for wire in task.wires])
    wide = task.width + task.width // OVERSIZE_DIVISOR
    curves = np.array([[*curve, *[curve[-1]] * (wide - task.width)] for curve in task.curves], np.int32)
    # Columns wider than about three blocks of mean area are never needed and cost time.
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
    # If no order ever fitted, this is the initial one, which does not fit either.
    best = tuple(int(v) for v in orders[1])
    tree = SerpentineColumns([task.curves[i] for i in best], task.width, task.height, 1).tree()
    return rename_blocks(tree, best) if tree else None


def shorten_wires(
    task: WirelengthProblem, tree: SlicingTree, cooling: CoolingSchedule, changes: int, end: float, seed: int
) -> SlicingTree:
    """Return a slicing tree with the shortest wires found by annealing from `tree` on.

    It fits on the mesh if `tree` does. Makes about `changes` changes in rounds, and stops after the first round that
    ends later than `end` of `time.process_time()`. `seed` determines the random numbers.
    """
    n, nodes = len(task.curves), 2 * len(task.curves) - 1
    wide, high = (side + side // OVERSIZE_DIVISOR for side in (task.width, task.height))
    rows = np.full((nodes, wide + high), INFEASIBLE, np.int16)
    for i, curve in enumerate(task.curves):
        rows[i, : task.width], rows[i, task.width : wide] = curve, curve[-1]
        rows[i, wide:] = inverse_curve(curve, high)
    # The curves of cuts are computed by `evaluate_tree`.
    table = _tree_table(tree)
    topologies = np.stack([table, table])
    kept, kept_nodes = np.zeros((2 * nodes, wide + high), np.int16), np.zeros(2 * nodes + 1, np.int32)
    centres, stack, (ends, weights) = np.zeros((n, 2), np.int32), np.zeros((nodes + 2, 5), np.int32), _net_arrays(task)
    typical, rounds, best = _typical_wirelength(task), max(1, changes // CHANGES_PER_ROUND), np.inf
    state, random = _annealing_state(cooling, typical, rounds), _random_state(seed)
    sizes = (wide, task.width, task.height)
    for turn in range(rounds):
        # Increase the cost of rows beyond the mesh, so that only early trees may exceed it.
        state[2] = typical * cooling.row_first * (cooling.row_last / cooling.row_first) ** (turn / rounds)
        # The cost of a row has changed, so compute the tree's cost again.
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
    """Return the doubled length of a wire between neighbours times the mean weight: the unit of temperatures.

    Neighbours are a side of a square block of mean area apart. There has to be a wire.
    """
    mean = sum(w for _, _, w in task.wires) / len(task.wires)
    return 2 * mean * math.sqrt(task.width * task.height / len(task.curves))


def _annealing_state(cooling: CoolingSchedule, typical: float, rounds: int) -> NDArray[np.float64]:
    """Return the initial annealing state: temperature, factor, row cost, and two infinite costs.

    `typical` is the unit of temperatures and costs. The factor reaches the final temperature after `rounds` rounds.
    """
    factor = (cooling.cold / cooling.hot) ** (1 / (rounds * CHANGES_PER_ROUND))
    return np.array([cooling.hot * typical, factor, cooling.row_first * typical, np.inf, np.inf])


def _net_arrays(task: WirelengthProblem) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the ends [nets, 2] and the weights of the nets as arrays."""
    ends = np.array([wire[:2] for wire in task.wires], np.int32).reshape(-1, 2)
    return ends, np.array([wire[2] for wire in task.wires], np.int64)


def _random_state(seed: int) -> NDArray[np.uint64]:
    # Any odd multiplier that spreads small seeds over all bits works.
    return np.array([seed * 0x9E3779B97F4A7C15 % 2**64], np.uint64)


def _tree_table(tree: SlicingTree) -> NDArray[np.int32]:
    """Return a slicing tree as the table [TREE_ROWS, nodes] that `annealing` uses. Missing entries are -1."""
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
