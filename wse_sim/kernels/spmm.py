"""A product with a sparse matrix that stays: the list of its elements on every PE, as the published kernel has it.

`sparse.py` prices the loop over the elements; here it runs, and the partial results are combined.
"""

import numpy as np

from wse_sim.isa.core_program import ITEM_BYTES, Memory
from wse_sim.isa.packing import pack, view
from wse_sim.kernels.kernel import INDEX, MeshKernel, Room, base_of
from wse_sim.layout import Rect, part
from wse_sim.phase import Local, Reduce, Seq


def spmm(rect: Rect, a: np.ndarray, columns: int, dtype: str = "float32") -> MeshKernel:
    """c [n, columns] = a b of a [n, k], given by its elements as `elements_of` lists them, and b [k, columns].

    Rows of a are cut along y, its columns and the rows of b along x. Every PE works on as many elements as the fullest
    one has; what others have too few is zero. c ends in the first column of PEs.
    """
    (n, k), room = a.shape, Room()
    most = elements_of(a, rect, dtype).shape[1] // rect.width
    column = Rect(rect.x, rect.y, 1, rect.height)
    c = room.place("c", column, n, columns, dtype, column_kind="replicated")
    b = room.place("b", rect, k, columns, dtype, is_turned=True, column_kind="replicated")
    listed = room.place("elements", rect, rect.height, rect.width * most, INDEX)
    numbers = room.vector(2, INDEX)
    # 16-bit numbers of one element: row, column, and a value of one or two.
    step = 2 + ITEM_BYTES[dtype] // 2
    value = Memory(
        base_of(listed.address, dtype) + (1 if dtype == "float32" else 2),
        stride=0,
        dtype=dtype,
        steps=(step * 2 // ITEM_BYTES[dtype],),
    )
    target = Memory(c.base, stride=1, dtype=dtype, index=numbers.base, index_step=columns)
    source = Memory(b.base, stride=1, dtype=dtype, index=numbers.base + 1, index_step=columns)
    build = room.builder()
    build.move(c.vector(), 0.0, c.elements)
    with build.loop(most // step):
        build.move(numbers, listed.vector(steps=(step,)), 2)
        build.fmac(target, value, source, target, columns)
    total = Reduce(rect, axis="x", words=c.words, at=c.address, dtype=dtype)
    return MeshKernel(Seq((Local(rect, build.body()), total)), (b, listed), (c,), room.words)


def elements_of(a: np.ndarray, rect: Rect, dtype: str = "float32") -> np.ndarray:
    """The elements of a [n, k] that are not zero, as numbers of 16 bits [height, width x as many as the fullest has].

    For each its row and column in the tile of its PE, and its value.
    """
    lists = []
    for y in range(rect.height):
        for x in range(rect.width):
            rows, columns = part("block", a.shape[0], rect.height, y), part("block", a.shape[1], rect.width, x)
            tile = np.asarray(a, np.float32)[rows.start : rows.stop, columns.start : columns.stop]
            row, column = np.nonzero(tile)
            values = view(pack(tile[row, column][:, None], dtype), INDEX)[:, : ITEM_BYTES[dtype] // 2]
            lists.append(np.concatenate([row[:, None], column[:, None], values], 1).astype(np.uint16).reshape(-1))
    # At least one element: a loop has at least one round, and an element of value zero adds nothing.
    most = max(2 + ITEM_BYTES[dtype] // 2, *(len(one) for one in lists))
    return np.array([np.pad(one, (0, most - len(one))) for one in lists]).reshape(rect.height, -1)
