"""Sparse matrix times dense matrix: a published program, a stationary sparse matrix, and streamed sparse weights.

`spmm_loop` and `dense_loop` are prices of the public SpMM_Cerebras repository: one vector multiply-add in float32 for
each stored element of a PE's tile. The rows of B are local, and the published counters stop before the partial results
are combined. The scalar code around an operation is not published; four constants replace it, fitted on four of the
rows (`wse_sim.validation` marks them). `spmm` is a kernel with this loop that also combines the results.

`streamed_product` sends only weights that are not zero, and each weight triggers its work. Activations stay on the
mesh, inputs along y and tokens along x. A column of cores on the left sends each row the weights of its inputs, which
all PEs of the row receive. A float32 weight is two wavelets: the indices of its input and output, and its value. A
16-bit weight is a single wavelet of input index and value, in the order of outputs; the program has the number of
weights of each output. Partial sums of a column then go up to its first PE. All weights of a row arrive before its work
begins: the overlap of the two on the machine is not modelled.
"""

from collections.abc import Sequence

import numpy as np

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import ITEM_BYTES, Memory
from wse_sim.isa.packing import pack, view_elements
from wse_sim.kernels.collective import scalar
from wse_sim.kernels.kernel import INDEX, Allocator, MeshKernel, Placed, base_of
from wse_sim.layout import Rect, part_range
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Local, Par, Phase, Reduce, Seq

# Fitted on COO 64x8 with 5 and 10 % (68 columns), COO 128x16 with 20 % (132 columns) and CSC 64x8 with 5 %.
ELEMENT_SCALAR_CYCLES = 33  # for each element: read an index and a value, find two rows, close the loop
PADDED_SLOWDOWN = 1.19  # rows of B are padded against bank conflicts, which does not avoid all of them
LINE_SCALAR_CYCLES = 45  # for each step to the next compressed row or column
LAUNCH_CYCLES = 1640  # before the first element and after the last one, between the two time stamps


def spmm_loop(rect: Rect, elements: float, lines: int, columns: int) -> Phase:
    """Return a phase, for pricing only, of the published loop with `elements` stored elements on a PE.

    They are in `lines` compressed rows or columns and are multiplied by `columns` columns of B.
    """
    work = Compute(
        rect,
        "fma",
        vectors=round(elements),
        length=columns,
        itemsize=4,
        scalar_cycles=ELEMENT_SCALAR_CYCLES,
        slowdown=PADDED_SLOWDOWN,
    )
    return Seq((scalar(rect, 1, LAUNCH_CYCLES), scalar(rect, lines, LINE_SCALAR_CYCLES), work))


def dense_loop(rect: Rect, elements: int, columns: int, machine: Machine) -> Phase:
    """Return a phase, for pricing only, of the published loop over a tile without zeros and indices.

    Its `elements` are multiplied by `columns` columns of B. The rows of B are not padded, so memory banks conflict.
    """
    return Compute(
        rect,
        "fma",
        vectors=elements,
        length=columns,
        itemsize=4,
        scalar_cycles=machine.loop_cycles,
        slowdown=machine.conflict_slowdown,
    )


def spmm(rect: Rect, a: np.ndarray, columns: int, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes c [n, columns] = a b of a sparse matrix a [n, k] and b [k, columns].

    The nonzero elements of a are the operand "elements", as `elements_of` lists them; the program depends only on the
    length of the longest list. Rows of a are distributed along y, and its columns and the rows of b along x. Every PE
    processes as many elements as the fullest one; missing ones are zero. c ends in the first column of PEs.
    """
    (n, k), room = a.shape, Allocator()
    most = elements_of(a, rect, dtype).shape[1] // rect.width
    column = Rect(rect.x, rect.y, 1, rect.height)
    c = room.place("c", column, n, columns, dtype, column_kind="replicated")
    b = room.place("b", rect, k, columns, dtype, is_turned=True, column_kind="replicated")
    listed = room.place("elements", rect, rect.height, rect.width * most, INDEX)
    numbers = room.vector(2, INDEX)
    # 16-bit words of one element: row, column, and one or two words of its value.
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
    """Return the nonzero elements of a [n, k] for each PE of `rect`, as uint16 [height, width x longest list].

    For each element there are its row and column in the tile of its PE, and the bits of its value in `dtype`, in one or
    two numbers. Lists of PEs are padded with zeros, and have room for at least one element.
    """
    lists = []
    for y in range(rect.height):
        for x in range(rect.width):
            rows, columns = (
                part_range("block", a.shape[0], rect.height, y),
                part_range("block", a.shape[1], rect.width, x),
            )
            tile = np.asarray(a, np.float32)[rows.start : rows.stop, columns.start : columns.stop]
            row, column = np.nonzero(tile)
            lists.append(_list_of((row, column), tile[row, column], dtype))
    # At least one element, since a loop has at least one round; an element of value zero adds nothing.
    return _padded(lists, 2 + ITEM_BYTES[dtype] // 2).reshape(rect.height, -1)


def _list_of(numbers: Sequence[np.ndarray], values: np.ndarray, dtype: str) -> np.ndarray:
    """Return a flat uint16 array: for each element its indices, one from each array of `numbers`, and the bits of its
    value.

    The value in `dtype` has one or two of these 16-bit numbers.
    """
    bits = view_elements(pack(values[:, None], dtype), INDEX)[:, : ITEM_BYTES[dtype] // 2]
    return np.concatenate([*(n[:, None] for n in numbers), bits], 1).astype(np.uint16).reshape(-1)


def _padded(lists: Sequence[np.ndarray], least: int) -> np.ndarray:
    """Return flat lists as the rows of one array, padded with zeros to the longest, or to `least` if that is longer."""
    longest = max(least, *(len(one) for one in lists))
    return np.array([np.pad(one, (0, longest - len(one))) for one in lists])


def streamed_product(rect: Rect, weights: np.ndarray, tokens: int, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes y [outputs, tokens] = weights^T x of x [inputs, tokens].

    `weights` is [inputs, outputs]; the program depends on which of them are zero. The first column of `rect` sends the
    weights: the operand "stream", as `stream_of` makes it. The docstring of this module describes the algorithm. Raises
    LazyError for a rectangle with only one column.
    """
    inputs, outputs = weights.shape
    feeders = Rect(rect.x, rect.y, 1, rect.height)
    mesh = Rect(rect.x + 1, rect.y, rect.width - 1, rect.height)
    room = Allocator()
    x = room.place("x", mesh, inputs, tokens, dtype)
    y = room.place("y", mesh, outputs, tokens, dtype, row_kind="replicated")
    length = stream_of(weights, rect.height, dtype).shape[1]
    stream = room.place("stream", feeders, rect.height, length, INDEX)
    numbers = room.vector(2, INDEX)
    rows = [_row(mesh, row, weights, room, (x, y, stream), numbers) for row in range(rect.height)]
    total = Reduce(mesh, axis="y", words=y.words, at=y.address, dtype=dtype)
    first = Rect(mesh.x, mesh.y, mesh.width, 1)
    result = Placed(name="y", rect=first, rows=outputs, columns=tokens, dtype=dtype, address=y.address)
    return MeshKernel(Seq((Par(tuple(rows)), total)), (x, stream), (result,), room.words)


def stream_of(weights: np.ndarray, rows: int, dtype: str = "float32") -> np.ndarray:
    """Return the uint16 numbers that the feeder of each row of PEs sends, [rows, longest], padded with zeros.

    They are the nonzero `weights` of the row's inputs, in the order of outputs. In float32 each has its input, counted
    within the row, its output and its value; in a 16-bit type its input and its value.
    """
    streams = []
    for row in range(rows):
        own = np.asarray(weights, np.float32)[_inputs(weights, rows, row)]
        outputs, inputs = np.nonzero(own.T)
        # Indices and values share one stream of 16-bit numbers, since sparse wavelets have 16 bits of each.
        numbers = [inputs, outputs] if dtype == "float32" else [inputs]
        streams.append(_list_of(numbers, own[inputs, outputs], dtype))
    return _padded(streams, 1)


def wavelets_of(weights: np.ndarray, dtype: str = "float32") -> int:
    """Return the wavelets that the feeders send: two for each nonzero weight in float32, one in a 16-bit type."""
    return int(np.count_nonzero(weights)) * (2 if dtype == "float32" else 1)


def _inputs(weights: np.ndarray, rows: int, row: int) -> slice:
    own = part_range("block", len(weights), rows, row)
    return slice(own.start, own.stop)


def _row(
    mesh: Rect, row: int, weights: np.ndarray, room: Allocator, placed: tuple[Placed, Placed, Placed], numbers: Memory
) -> Phase:
    """Return the phase of row `row` of PEs: the weights of its inputs arrive, and its PEs accumulate products in y.

    `placed` is (x, y, stream). If all its weights are zero, none arrive and y is only cleared.
    """
    x, y, stream = placed
    own = weights[_inputs(weights, mesh.height, row)]
    build = room.builder()
    build.move(y.vector(), 0.0, y.elements)
    local = Rect(mesh.x, mesh.y + row, mesh.width, 1)
    # Rows whose weights are all zero receive none.
    if not own.any():
        return Local(local, build.body())
    _products(build, np.count_nonzero(own, axis=0), x, y, stream, numbers)
    line = Rect(mesh.x - 1, mesh.y + row, mesh.width + 1, 1)
    sent = Broadcast(line, axis="x", words=wavelets_of(own, x.dtype), take=stream.address, put=stream.address)
    return Seq((sent, Local(local, build.body())))


def _products(build: Builder, counts: np.ndarray, x: Placed, y: Placed, stream: Placed, numbers: Memory) -> None:
    """Append, for each weight, the addition of its multiple of a row of x to a row of y.

    The indices of the weight are copied from the stream to `numbers` first. `counts` has the number of weights of each
    output, which a stream of 16-bit weights does not contain.
    """
    tokens = x.tile_columns
    named = Memory(x.base, stride=1, dtype=x.dtype, index=numbers.base, index_step=tokens)
    if x.dtype == "float32":
        target = Memory(y.base, stride=1, dtype=y.dtype, index=numbers.base + 1, index_step=tokens)
        value = Memory(stream.address + 1, stride=0, dtype=x.dtype, steps=(2,))
        with build.loop(int(counts.sum())):
            # The indices are copied to fixed addresses first, since an operand's index is read at one address.
            build.move(numbers, stream.vector(steps=(4,)), 2)
            build.fmac(target, value, named, target, tokens)
        return
    start = 0
    for output in np.flatnonzero(counts):
        target = y.vector(start=int(output) * tokens)
        value = Memory(stream.base + start + 1, stride=0, dtype=x.dtype, steps=(2,))
        with build.loop(int(counts[output])):
            build.move(numbers, stream.vector(steps=(2,), start=start), 1)
            build.fmac(target, value, named, target, tokens)
        start += 2 * int(counts[output])
