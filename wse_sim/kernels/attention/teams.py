"""Kernel calls of attention blocks: how a rectangle is cut into teams, and the operands of each team."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES
from wse_sim.kernels.attention.block import ScoreBlock
from wse_sim.kernels.attention.tiles import LIMB, PLACES, Teams, block_kernel, words_needed
from wse_sim.kernels.elementwise.random_bits import state_limbs
from wse_sim.kernels.kernel import WIDE, MeshKernel
from wse_sim.kernels.matmul.stationary_operand import whole_chunk
from wse_sim.kernels.mesh_call import Arrays, Cores, MeshCall
from wse_sim.kernels.nest import core_type
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine

MOST_PARTS = 8
"""Sides of teams are candidates down to this fraction of the rectangle's side."""
SCORE_CYCLES, DRAW_CYCLES = 100, 300
"""Approximate cycles for each score, besides products; for comparing teams only. `DRAW_CYCLES` is for each random
number.
"""


def run_block(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` of an attention block on the teams of PEs that `arrange_block` chooses for these cores.

    Each round computes as many heads as there are teams. Sums are in float32. `reads` is unused.
    """
    block: ScoreBlock = instr.attrs["block"].on_cores(core_type, lambda nest: nest)
    calls = instr.attrs["attrs"]["call"]
    teams = arrange_block(block, cores.rect.width, cores.rect.height, cores.machine, WIDE)
    rounds = ceil_div(block.heads, teams.count)

    def give(arrays: Arrays, number: int) -> Mapping[str, np.ndarray]:
        operands: dict[str, np.ndarray] = {}
        for team in range(teams.count):
            # Teams beyond the last head compute it again, and their results are ignored.
            head = min(number * teams.count + team, block.heads - 1)
            for given in block.given:
                operand = block.operand(given, arrays, head)
                is_state = block.values[given.value].kind == "state"
                operands[f"{given.value}.{team}"] = state_limbs(operand) if is_state else operand
            if calls:
                operands |= {f"{name}.{team}": array for name, array in _places(block, head).items()}
        return operands

    def take(results: Mapping[str, np.ndarray], writes: Arrays, number: int) -> None:
        for (value, is_turned), write in zip(block.results, writes, strict=True):
            whole = write.reshape(block.heads, *write.shape[-2:])
            for team in range(min(teams.count, block.heads - number * teams.count)):
                matrix = results[f"{value}.{team}"]
                whole[number * teams.count + team] = matrix.T if is_turned else matrix

    return MeshCall(block_kernel(cores.rect, block, teams, WIDE, calls), give, take, rounds)


def block_in_rounds(block: ScoreBlock, rect: Rect, machine: Machine, sum_dtype: str) -> MeshKernel:
    """Return the kernel of a block on the fastest teams, with all its rounds and the operands of one round, for
    pricing.

    Its draws have the number 0, which does not affect the price.
    """
    return _in_rounds(
        rect.x, rect.y, block, arrange_block(block, rect.width, rect.height, machine, sum_dtype), sum_dtype
    )


# A small block gets the same teams on any large rectangle, and plans try hundreds of those.
@lru_cache(maxsize=4096)
def _in_rounds(x: int, y: int, block: ScoreBlock, teams: Teams, sum_dtype: str) -> MeshKernel:
    calls = [0] * sum(step.op == "draw" for step in block.steps)
    corner = Rect(x, y, teams.width * teams.across, teams.height * teams.down)
    return block_kernel(corner, block, teams, sum_dtype, calls).repeated(ceil_div(block.heads, teams.count))


def _places(block: ScoreBlock, head: int) -> dict[str, np.ndarray]:
    """Return the operands `PLACES` of one head, by name, from which the random number of each score follows.

    "row_low" and "row_high" are, for each row, the lower 16 bits and the rest of the number of its first score, counted
    over all heads. "column" is the index of each key.
    """
    first = (head * block.rows + np.arange(block.rows)) * block.keys
    return dict(zip(PLACES, (first % LIMB, first // LIMB, np.arange(block.keys)), strict=True))


@lru_cache(maxsize=4096)
def arrange_block(block: ScoreBlock, width: int, height: int, machine: Machine, sum_dtype: str) -> Teams:
    """Return the teams that compute a block fastest on `width` x `height` PEs, among those that fit the memory of a PE.

    The time is an estimate, not a price. `sum_dtype` is the type of sums, "" for that of their results. If none fits,
    return the teams that need the least memory. Results are cached.
    """
    ways = sorted(_ways(block, width, height), key=lambda teams: _estimate(block, teams, machine))
    usable = machine.usable_bytes_per_pe // WORD_BYTES
    # Only the estimate decides: pricing all candidates would take longer than all other kernels of a network.
    for way in ways:
        if teams := _with_chunk(block, way, usable, sum_dtype):
            return teams
    # If none fits, the one with the least memory: an error can then report by how much it is too large.
    least = [replace(way, chunk=whole_chunk(1, WIDE)) for way in ways]
    return min(least, key=lambda teams: words_needed(block, teams, sum_dtype))


def _ways(block: ScoreBlock, width: int, height: int) -> Iterator[Teams]:
    """Yield candidate teams for a block on `width` x `height` PEs, for all sides that `_sides` returns.

    There are as many teams as fit, but not more than heads. The chunk is all rows of a PE.
    """
    for wide in _sides(width, block.keys):
        for high in _sides(height, block.rows):
            across, down = width // wide, height // high
            # More teams than heads would be idle.
            across = min(across, block.heads)
            yield Teams(wide, high, across, min(down, ceil_div(block.heads, across)), ceil_div(block.rows, high))


def _sides(line: int, extent: int) -> list[int]:
    """Return the sides to try for a team, in ascending order and at most `extent`, the number of rows or keys.

    They are `line` // n for n up to `MOST_PARTS`, and the powers of two up to `line`, a number of PEs.
    """
    sides = {*(line // n for n in range(1, min(MOST_PARTS, line) + 1)), *(1 << n for n in range(line.bit_length()))}
    # PEs without a row or key would be idle.
    return sorted({min(side, extent) for side in sides})


def _with_chunk(block: ScoreBlock, way: Teams, usable: int, sum_dtype: str) -> Teams | None:
    """Return `way` with the largest chunk of rows that needs at most `usable` words on a PE; None if none fits.

    Candidates are `way.chunk` and repeated halves of it, rounded up by `whole_chunk`.
    """
    chunks = [way.chunk]
    while (smaller := whole_chunk(chunks[-1] // 2, "bfloat16")) < chunks[-1]:
        chunks.append(smaller)
    at = bisect_left(chunks, True, key=lambda n: words_needed(block, replace(way, chunk=n), sum_dtype) <= usable)
    return replace(way, chunk=chunks[at]) if at < len(chunks) else None


def _estimate(block: ScoreBlock, teams: Teams, machine: Machine) -> float:
    """Return an estimate of the cycles of all rounds of a block, for comparing teams only.

    It counts work on the scores of a PE, statistics along rows, and moves of operands and results.
    """
    rows, keys = ceil_div(block.rows, teams.height), ceil_div(block.keys, teams.width)
    start = machine.dsd_setup_cycles + machine.loop_cycles
    draws = sum(step.op == "draw" for step in block.steps)
    # Work that is equal for all scores counts too, since teams differ in the number of scores of a PE.
    work = float((SCORE_CYCLES + DRAW_CYCLES * draws) * rows * keys)
    moved = 0.0
    for step in block.steps:
        if step.op in ("pairs", "row_sum", "key_sum"):
            matrix = block.values[step.reads[1]]
            sides, inner = {
                "pairs": ((rows, keys), matrix.width),
                "row_sum": ((rows, matrix.width), keys),
                "key_sum": ((keys, matrix.width), rows),
            }[step.op]
            # As in `tile_product.multiply_short`, vectors are along the longest of the three extents.
            short, long = sorted(sides)
            if step.op == "pairs" and inner > long:
                long, inner = inner, long
            work += inner * short * (start + long / machine.per_cycle("product", ITEM_BYTES[matrix.dtype]))
        elif step.op == "softmax":
            work += 4 * (rows + teams.width * machine.depth_step_cycles)
    for n in {*(g.value for g in block.given), *(n for n, _ in block.results)}:
        value = block.values[n]
        extent = {"rows": rows, "keys": keys}.get(value.kind, 0)
        moved += extent * value.width * ITEM_BYTES.get(value.dtype, WORD_BYTES) / WORD_BYTES
    moved += (teams.width + teams.height) * machine.hop_cycles
    return ceil_div(block.heads, teams.count) * (work + moved)
