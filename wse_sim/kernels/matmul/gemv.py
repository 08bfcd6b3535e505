"""Matrix-vector product: tiles of the matrix stay, the vector is distributed along y, and sums leave along y."""

from collections.abc import Callable

from wse_sim.cost_model.cost import wavelet_count
from wse_sim.kernels.collective import centred_all_reduce
from wse_sim.kernels.kernel import Allocator, MeshKernel
from wse_sim.kernels.matmul.tile_product import MatrixView, multiply
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Compute, Local, Phase, Seq

Sum = Callable[[Rect, str, int, Machine], Phase]
"""An all-reduce as a function of rectangle, axis, words and machine."""


def gemv(
    rect: Rect,
    inner: int,
    outer: int,
    itemsize: int,
    machine: Machine,
    all_reduce: Sum = centred_all_reduce,
    vectors: int = 1,
    sums: int | None = None,
) -> Phase:
    """Return a phase, for pricing only, that multiplies a vector of `inner` elements by a matrix [inner, outer].

    The vector is distributed along y. The result, `outer` elements along x, is on all PEs of its column. A tile takes
    one vector operation for each element of its shorter side. `all_reduce` sums the partial results. Several `vectors`
    are multiplied one after the other, each by its own matrix or all by one, and then `sums` results are summed
    together, by default one for each vector.
    """
    rows, columns = ceil_div(inner, rect.height), ceil_div(outer, rect.width)
    short, long = sorted((rows, columns))
    local = Compute(
        rect, "fma", vectors=vectors * short, length=long, itemsize=itemsize, scalar_cycles=machine.loop_cycles
    )
    words = wavelet_count((vectors if sums is None else sums) * columns, itemsize, machine)
    return _local_then_sum(local, all_reduce(rect, "y", words, machine))


def gemv_kernel(rect: Rect, inner: int, outer: int, dtype: str = "float32", algorithm: str = "") -> MeshKernel:
    """Return a kernel that computes y [1, outer] = x^T a of x [inner, 1] and a [inner, outer].

    Rows of a are distributed along y, and its columns along x. Every PE of a column gets the column's part of y. Sums
    are of type `dtype`. `algorithm` is that of the all-reduce, "" for the fastest.
    """
    room = Allocator()
    a = room.place("a", rect, inner, outer, dtype)
    x = room.place("x", rect, inner, 1, dtype, column_kind="replicated")
    y = room.place("y", rect, 1, outer, dtype, row_kind="replicated")
    build = room.builder()
    build.move(y.vector(), 0.0, y.elements)
    # x is distributed along y and equal on all PEs of a row, so every tile has the part that it needs.
    multiply(build, MatrixView.of(x, is_transposed=True), MatrixView.of(a), MatrixView.of(y))
    total = AllReduce(rect, axis="y", words=y.words, algorithm=algorithm, at=y.address, dtype=dtype)
    return MeshKernel(_local_then_sum(Local(rect, build.body()), total), (a, x), (y,), room.words)


def _local_then_sum(local: Phase, total: Phase) -> Phase:
    return Seq((local, total))
