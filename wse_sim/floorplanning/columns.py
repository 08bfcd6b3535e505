"""Orders of blocks in columns under small changes, compiled: the narrowest columns for each, and their wires.

`curves` has a row of least heights for each block. `line` holds an order in its first row, and in the second, for each
number of blocks, where the last column of the narrowest columns for them begins; `widths` how wide these are.
"""

import math
from typing import Any

from wse_sim.floorplanning.annealing import (
    INFEASIBLE,
    compile_entry_point,
    compile_inlined,
    doubled_wirelength,
    draw_random,
)

CompiledArray = Any
"""An array in compiled code."""


@compile_inlined
def pack_columns(
    curves: CompiledArray, line: CompiledArray, widths: CompiledArray, stack: CompiledArray, height: int
) -> int:
    """The width of the narrowest columns for all blocks in their order, `INFEASIBLE` if the mesh allows none.

    None is wider than `stack` is long.
    """
    blocks, room, widest = curves.shape[0], curves.shape[1], len(stack)
    for n in range(blocks + 1):
        widths[n] = INFEASIBLE
    widths[0] = 0
    for begin in range(blocks):
        left = min(widest, room - widths[begin])
        # No columns for the blocks before, or none that leave room.
        if left <= 0:
            continue
        for i in range(left):
            stack[i] = 0
        for stop in range(begin + 1, blocks + 1):
            block = line[0, stop - 1]
            for i in range(left):
                stack[i] += curves[block, i]
            # Too high even on all that is left: more blocks only make it higher.
            if stack[left - 1] > height:
                break
            # Heights fall with the width: the first that is low enough is found by halving.
            low, high = 0, left - 1
            while low < high:
                middle = (low + high) // 2
                if stack[middle] <= height:
                    high = middle
                else:
                    low = middle + 1
            if widths[begin] + low + 1 < widths[stop]:
                widths[stop] = widths[begin] + low + 1
                line[1, stop] = begin
    return int(widths[blocks])


@compile_inlined
def locate_columns(curves: CompiledArray, line: CompiledArray, widths: CompiledArray, centres: CompiledArray) -> None:
    """The doubled centres of all blocks; every other column runs upwards."""
    # From the last column to the first, for each knows the one before.
    stop, number = curves.shape[0], 0
    while stop > 0:
        begin = line[1, stop]
        wide = widths[stop] - widths[begin]
        y = 0
        for i in range(stop - begin):
            block = line[0, begin + i] if number % 2 == 0 else line[0, stop - 1 - i]
            high = curves[block, wide - 1]
            centres[block, 0] = 2 * widths[begin] + wide
            centres[block, 1] = 2 * y + high
            y += high
        stop = begin
        number += 1


@compile_inlined
def change_order(line: CompiledArray, old: CompiledArray, random: CompiledArray) -> None:
    """Change the order a little, from what is kept in `old`: swap two, move one, or turn a stretch around."""
    blocks = len(old)
    one = draw_random(random, blocks)
    # Mostly near: far changes cost wires.
    reach = 2 + draw_random(random, blocks) if draw_random(random, 4) == 0 else 5
    other = min(blocks - 1, max(0, one + draw_random(random, 2 * reach + 1) - reach))
    first, last = min(one, other), max(one, other)
    kind = draw_random(random, 3)
    for i in range(blocks):
        line[0, i] = old[i]
    if kind == 0:
        line[0, one], line[0, other] = old[other], old[one]
    elif kind == 1:
        for i in range(first, last + 1):
            line[0, i] = old[first + last - i]
    elif one < other:
        for i in range(one, other):
            line[0, i] = old[i + 1]
        line[0, other] = old[one]
    else:
        for i in range(other, one):
            line[0, i + 1] = old[i]
        line[0, other] = old[one]


@compile_entry_point(
    "void(int32[:,::1], int32[:,::1], int32[:,::1], int32[::1], int32[::1], int32[:,::1], int32[:,::1], int64[::1],"
    "uint64[::1], float64[::1], int64, int64, int64)"
)
def anneal_order(
    curves: CompiledArray,
    line: CompiledArray,
    orders: CompiledArray,
    widths: CompiledArray,
    stack: CompiledArray,
    centres: CompiledArray,
    ends: CompiledArray,
    weights: CompiledArray,
    random: CompiledArray,
    state: CompiledArray,
    width: int,
    height: int,
    changes: int,
) -> None:
    """Try `changes` changes of the order.

    `orders` are the one before a change and the best one. `state` holds the temperature, the factor by which it falls,
    what a column of PEs beyond the mesh costs, the cost of the order, and the least of one that fits.
    """
    old, best = orders[0], orders[1]
    for _ in range(changes):
        state[0] *= state[1]
        change_order(line, old, random)
        uniform = (draw_random(random, 1 << 30) + 0.5) / (1 << 30)
        allowed = state[3] - state[0] * math.log(uniform)
        total = pack_columns(curves, line, widths, stack, height)
        # As for trees, what cannot be accepted any more needs no wires.
        new = state[2] * max(0, total - width)
        if total >= INFEASIBLE or new > allowed:
            continue
        locate_columns(curves, line, widths, centres)
        new += doubled_wirelength(centres, ends, weights)
        if new <= allowed:
            state[3] = new
            for i in range(len(old)):
                old[i] = line[0, i]
            if total <= width and new < state[4]:
                state[4] = new
                for i in range(len(old)):
                    best[i] = line[0, i]
