"""Compiled simulated annealing of the order of blocks in columns.

- `curves`: [blocks, widths], the least heights of each block
- `line`: row 0 is an order of the blocks; row 1 is, for each number n, the start of the last column of the narrowest
  columns for the first n blocks
- `widths`: for each number n, the total width of these columns
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
    """Return the total width of the narrowest columns for all blocks in order, or `INFEASIBLE`.

    Writes `widths` and row 1 of `line`, where the columns begin. No column is wider than the length of `stack`, a
    scratch buffer, or higher than `height`. The total may use the whole number of widths that `curves` have.
    """
    blocks, room, widest = curves.shape[0], curves.shape[1], len(stack)
    for n in range(blocks + 1):
        widths[n] = INFEASIBLE
    widths[0] = 0
    for begin in range(blocks):
        left = min(widest, room - widths[begin])
        # The blocks before have no columns, or use the whole width.
        if left <= 0:
            continue
        for i in range(left):
            stack[i] = 0
        for stop in range(begin + 1, blocks + 1):
            block = line[0, stop - 1]
            for i in range(left):
                stack[i] += curves[block, i]
            # Too high at the maximum width: more blocks only increase the height.
            if stack[left - 1] > height:
                break
            # Heights do not increase with the width, so bisect for the least width that is low enough.
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
    """Write the doubled centres (x, y) of all blocks to `centres`, from the columns that `pack_columns` found.

    Every second column, counted from the last, runs upwards.
    """
    # Each column refers to the one before, so start with the last.
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
    """Write a changed copy of the order `old` to row 0 of `line`.

    The change swaps two blocks, moves one block, or reverses a range, each as likely. It may leave the order as it is.
    """
    blocks = len(old)
    one = draw_random(random, blocks)
    # Draw near positions mostly, because far moves lengthen wires.
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
    """Try `changes` changes of the order by simulated annealing. Updates `orders`, `random` and `state` in place.

    `orders` holds the accepted order and the best one that fits. The cost is twice the weighted wirelength, plus a cost
    for each column of PEs beyond `width`. `state` holds the temperature, its factor for each change, this cost of a
    column, the cost of the accepted order, and the least cost of an order that fits. `widths`, `stack`, `centres` and
    `line` are scratch buffers.
    """
    old, best = orders[0], orders[1]
    for _ in range(changes):
        state[0] *= state[1]
        change_order(line, old, random)
        uniform = (draw_random(random, 1 << 30) + 0.5) / (1 << 30)
        allowed = state[3] - state[0] * math.log(uniform)
        total = pack_columns(curves, line, widths, stack, height)
        # Reject without computing wires if the width alone costs too much.
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
