"""Sums of integers of 64 bits, as seeds and counters are: limbs of 16 bits and a carry, exact in float32."""

import numpy as np

from wse_sim.kernels.kernel import INDEX, MeshKernel, Room, operand_at
from wse_sim.kernels.random_bits import LIMBS
from wse_sim.layout import Rect
from wse_sim.phase import Local


def add_counters(rect: Rect, count: int) -> MeshKernel:
    """c = a + b, modulo 2 ** 64, of `count` integers each, as limbs [count, 4]."""
    room = Room()
    a, b, c = (room.place(name, rect, count, 1, INDEX, depth=LIMBS) for name in "abc")
    rows = a.tile_rows * a.tile_columns
    total, carried, other = (room.vector(rows) for _ in range(3))
    build = room.builder()
    build.move(carried, 0.0, rows)
    for limb in range(LIMBS):
        first, second, target = (operand_at(p.address, INDEX, limb, LIMBS) for p in (a, b, c))
        build.convert(total, first, rows)
        build.add(total, total, carried, rows)
        build.convert(other, second, rows)
        build.add(total, total, other, rows)
        build.greater(carried, total, 65535.0, rows)
        build.fmac(total, carried, -65536.0, total, rows)
        build.convert(target, total, rows)
    return MeshKernel(Local(rect, build.body()), (a, b), (c,), room.words)


def limbs_of(numbers: np.ndarray) -> np.ndarray:
    """Limbs [count, 4], the lowest first."""
    return np.ascontiguousarray(numbers, "<i8").view("<u2").reshape(-1, LIMBS)


def of_limbs(limbs: np.ndarray) -> np.ndarray:
    """The integers of limbs [count, 4]."""
    return np.ascontiguousarray(limbs.astype("<u2")).view("<i8").reshape(-1).astype(np.int64)
