"""A kernel of a user's own: its halo exchange with strides, the check of its readings, and errors for bad input."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wse_sim
from lazytensor.errors import LazyError, PlacementError, ShapeError
from wse_sim import (
    WSE2,
    Allocator,
    AllReduce,
    Broadcast,
    Local,
    Memory,
    MeshKernel,
    Par,
    Rect,
    Repeat,
    Seq,
    Shift,
    as_data,
    as_wavelets,
    check_kernel,
    cost,
)


def exchange(rect, rows, columns, radius):
    """Borders of `radius` columns from the left neighbour, by one strided shift for each; u stays as it is."""
    memory = Allocator()
    u, v = (memory.place(name, rect, rows, columns, "float32") for name in "uv")
    shifts = [
        Shift(
            rect,
            "x",
            u.tile_rows,
            take=u.address + u.tile_columns - radius + i,
            put=v.address + i,
            take_stride=u.tile_columns,
            put_stride=v.tile_columns,
        )
        for i in range(radius)
    ]
    return MeshKernel(Seq(tuple(shifts)), (u,), (v,), memory.words)


def left_borders(u, pes, radius):
    tiles = np.zeros_like(u).reshape(len(u), pes, -1)
    tiles[:, 1:, :radius] = u.reshape(len(u), pes, -1)[:, :-1, -radius:]
    return tiles.reshape(u.shape)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.data(), st.sampled_from(["tiny", "wse2", "cs-3"]))
def test_strided_shifts_send_the_columns_that_numpy_slices(width, height, rows, data, machine):
    columns = data.draw(st.integers(1, 6))
    radius = data.draw(st.integers(1, columns))
    kernel = exchange(Rect(0, 0, width, height), rows * height, columns * width, radius)
    check_kernel(kernel, lambda u: left_borders(u, width, radius), machine=machine, rtol=0, atol=0).expect_agreement()


def prefix_sum(rect, rows, columns):
    """y[r, c] = x[r, 0] + ... + x[r, c]: sums of each tile, then sums of tiles over 1, 2, 4, ... PEs."""
    memory = Allocator()
    x, y = (memory.place(name, rect, rows, columns, "float32") for name in "xy")
    height, width = x.tile_rows, x.tile_columns
    total, received = memory.vector(height), memory.vector(height)

    def receive(hops):
        build = memory.builder()
        build.move(received, 0.0, height)
        return Local(rect, build.body()), Shift(rect, "x", height, hops, take=total.base, put=received.base)

    first, add, last = (memory.builder() for _ in range(3))
    first.move(y.vector(), x.vector(), height * width)
    if width > 1:
        with first.loop(height):
            row, after = y.vector(steps=(width,)), y.vector(steps=(width,), start=1)
            first.add(after, row, after, width - 1)
    first.move(total, y.vector(stride=width, start=width - 1), height)
    add.add(total, total, received, height)
    with last.loop(height):
        row = y.vector(steps=(width,))
        last.add(row, row, Memory(received.base, stride=0, steps=(1,)), width)
    steps = [Local(rect, first.body())]
    for power in range((rect.width - 1).bit_length()):
        steps += [*receive(2**power), Local(rect, add.body())]
    return MeshKernel(Seq((*steps, *receive(1), Local(rect, last.body()))), (x,), (y,), memory.words)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 5), st.integers(1, 40))
def test_prefix_sum_of_a_user_agrees_in_all_readings(width, height, rows, columns):
    kernel = prefix_sum(Rect(1, 1, width, height), rows, columns)
    check_kernel(kernel, lambda x: np.cumsum(x, 1), rtol=1e-4, atol=1e-4).expect_agreement()


def test_strided_shift_costs_as_much_as_a_dense_one():
    rect = Rect(0, 0, 6, 6)
    dense, strided = Shift(rect, "x", 8, put=8), Shift(rect, "x", 8, put=1, take_stride=5, put_stride=5)
    assert cost(strided, "wse2") == cost(dense, "wse2")


@pytest.mark.parametrize("name", ["take_stride", "put_stride"])
def test_strides_below_1_are_refused(name):
    with pytest.raises(LazyError, match=f"{name} of a shift is 0"):
        Shift(Rect(0, 0, 2, 2), "x", 1, **{name: 0})


def copies(rect, dtype="float32"):
    """Every PE of a row gets the element of the first."""
    memory = Allocator()
    x, y = (memory.place(name, rect, rect.height, 2 * rect.width, dtype) for name in "xy")
    words = x.words
    return MeshKernel(Broadcast(rect, "x", words, take=x.address, put=y.address), (x,), (y,), memory.words)


def copied(x):
    return np.tile(x[:, :2], x.shape[1] // 2)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_kernel_that_is_right_agrees_in_all_readings(dtype):
    check = check_kernel(copies(Rect(1, 2, 3, 2), dtype), copied, {"x": np.arange(12).reshape(2, 6)}, "wse2")
    assert check.agrees and check.expect_agreement() is check
    assert check.closed == check.simulated > 0
    assert f"cycles on wse2: {check.closed} by the closed form" in check.text()


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1), st.integers(0, 5), st.sampled_from([1.0, -3.0, np.nan, np.inf]))
def test_wrong_result_is_reported_with_its_core_its_element_and_its_size(row, column, change):
    def expected(x):
        result = copied(x)
        result[row, column] += change
        return result

    check = check_kernel(copies(Rect(1, 2, 3, 2)), expected, {"x": np.zeros((2, 6))})
    (failure,) = [r.failure for r in check.rows if r.failure]
    assert not check.agrees and failure in check.text()
    assert failure == (
        f"the NumPy reference differs from `expected` in 1 of 12 elements of y, most at PE ({1 + column // 2}, "
        f"{2 + row}), element [0, {column % 2}] of its tile, [{row}, {column}] of the matrix: 0 instead of {change:g}, "
        f"off by {abs(change) if np.isfinite(change) else np.inf:.3g}"
    )
    with pytest.raises(LazyError, match="1 of 12 elements"):
        check.expect_agreement()


@pytest.mark.slow
def test_race_between_parts_is_reported_as_a_difference_of_the_engine():
    """The second shift of the reference sends what the first one has stored; on the mesh both send at once."""
    rect, memory = Rect(0, 0, 3, 1), Allocator()
    x, y = (memory.place(name, rect, 1, 3, "float32") for name in "xy")
    first = Shift(rect, "x", 1, take=x.address, put=y.address)
    second = Shift(rect, "x", 1, -1, take=y.address, put=x.address)
    kernel = MeshKernel(Par((first, second)), (x,), (x,), memory.words)
    check = check_kernel(kernel, lambda x: x[:, [0, 1, 2]], {"x": [[1, 2, 3]]})
    assert check.rows[0].failure == ""
    assert check.rows[1].failure.startswith("the cycle engine differs from the NumPy reference in 2 of 3 elements of x")


def test_closed_form_that_is_too_far_off_is_reported():
    """A sum in groups whose closed form and simulation differ by a few percent."""
    rect, memory = Rect(0, 0, 22, 1), Allocator()
    x = memory.place("x", rect, 1, 22 * 64, "float32")
    kernel = MeshKernel(AllReduce(rect, "x", x.words, algorithm="two_phase", at=x.address), (x,), (x,), memory.words)
    total = lambda x: np.tile(x.reshape(22, 64).sum(0), 22)[None]  # noqa: E731
    loose = check_kernel(kernel, total, atol=1e-3)
    strict = check_kernel(kernel, total, atol=1e-3, cycles_tolerance=0)
    assert loose.agrees and loose.closed != loose.simulated
    (failure,) = [r.failure for r in strict.rows if r.failure]
    assert failure.startswith(f"the closed form has {strict.closed:,} cycles instead of the {strict.simulated:,}")


def test_expected_results_of_another_shape_or_name_are_refused():
    kernel = copies(Rect(0, 0, 3, 2))
    with pytest.raises(ShapeError, match=r"has shape \(2, 1\), but the kernel's has \(2, 6\)"):
        check_kernel(kernel, lambda x: x[:, :1])
    with pytest.raises(LazyError, match=r"the expected results are \['z'\], but the kernel has y"):
        check_kernel(kernel, lambda x: {"z": x})
    with pytest.raises(LazyError, match="Give 2 x 6 elements"):
        check_kernel(kernel, copied, {"x": np.zeros(5)})
    with pytest.raises(ShapeError, match=r"operand 'x' has shape \(6, 2\)\n  Give a matrix of shape \(2, 6\)"):
        check_kernel(kernel, copied, {"x": np.zeros((6, 2))})
    with pytest.raises(LazyError, match="indices, which cannot be random"):
        check_kernel(copies(Rect(0, 0, 3, 2), "uint16"), copied)
    with pytest.raises(LazyError, match="no results"):
        check_kernel(replace(kernel, results=()), copied)


BOX = Rect(0, 0, 4, 1)


def doubled(x, words=4):
    memory = Allocator()
    memory.words = x
    build, numbers = memory.builder(), memory.vector(words)
    build.mul(numbers, numbers, 2.0, words)
    return Local(BOX, build.body())


@pytest.mark.parametrize(
    "phase, kind, message",
    [
        (
            Seq((Shift(BOX, "x", 1), Shift(Rect(1, 0, 4, 1), "x", 1))),
            PlacementError,
            r"phase.parts\[1\] uses PE \(4, 0\), but the kernel has the memories of 4 x 1 PEs",
        ),
        (Broadcast(Rect(-1, 0, 2, 1), "x", 1), PlacementError, r"phase uses PE \(-1, 0\)"),
        (Broadcast(Rect(2, 0, 2, 3), "x", 1), PlacementError, r"phase uses PE \(2, 1\)"),
        (
            Repeat(3, Shift(BOX, "x", 3, take_stride=4)),
            LazyError,
            r"phase.body uses bytes 0 to 35 of PE \(0, 0\), but the kernel has 32 bytes on each PE",
        ),
        (Shift(BOX, "x", 1, put=8), LazyError, "bytes 32 to 35"),
        (AllReduce(BOX, "x", 4, at=5), LazyError, "bytes 20 to 35"),
        (
            Seq((doubled(8),)),
            LazyError,
            r"phase.parts\[0\].0: .* reaches from element 8 to 11 of 8.* PE \(0, 0\) on have 32 bytes",
        ),
        (Shift(BOX, "x", 1, hops=-4), LazyError, r"phase leaves its lines of 4 PEs from every PE, such as PE \(0, 0\)"),
    ],
)
def test_phase_outside_of_the_mesh_or_the_memory_is_refused_in_every_reading(phase, kind, message):
    memory = Allocator()
    x, y = (memory.place(name, BOX, 1, 12, "float32") for name in "xy")
    kernel, values = MeshKernel(phase, (x,), (y,), memory.words), {"x": np.zeros(12)}
    for reading in (
        lambda: as_data(kernel, values),
        lambda: as_wavelets(kernel, values, "wse2"),
        lambda: check_kernel(kernel, lambda x: x, values),
    ):
        with pytest.raises(kind, match=message):
            reading()


def test_kernel_that_is_larger_than_the_memory_of_a_core_is_refused_with_its_bytes():
    kernel, usable = copies(Rect(0, 0, 1, 1)), WSE2.usable_bytes_per_pe
    large = replace(kernel, words=usable // 4 + 1)
    with pytest.raises(PlacementError, match=f"needs {usable + 4:,} bytes .* x 8, y 8"):
        as_wavelets(large, {"x": [1, 2]}, "wse2")
    assert as_data(large, {"x": [1, 2]})["y"].tolist() == [[1, 2]]


def test_machine_is_taken_by_name_wherever_there_is_one():
    kernel = copies(Rect(0, 0, 3, 2))
    assert cost(kernel.phase, "CS-3") == cost(kernel.phase, wse_sim.WSE3)
    assert Rect.whole("wse2") == Rect.whole(WSE2)
    assert wse_sim.MeshBackend(4, "wse1").machine is wse_sim.WSE1
    assert wse_sim.PipelineBackend("tiny").machine is wse_sim.TINY
    assert wse_sim.Prices("wse2").machine is WSE2
    for call in (
        lambda: cost(kernel.phase, "wse9"),
        lambda: as_data(kernel, {"x": np.zeros(12)}, "wse9"),
        lambda: as_wavelets(kernel, {"x": np.zeros(12)}, "wse9"),
        lambda: check_kernel(kernel, copied, machine="wse9"),
        lambda: wse_sim.MeshBackend(4, "wse9"),
    ):
        with pytest.raises(LazyError, match=r"machine 'wse9' is unknown\n.*tiny, wse1, wse2, wse3"):
            call()
    with pytest.raises(LazyError, match=r"3 is not a machine\n.*tiny, wse1, wse2, wse3"):
        cost(kernel.phase, 3)


def test_parts_and_instructions_may_be_lists():
    step, work = Broadcast(BOX, "x", 1), doubled(0)
    assert Par([step, Seq([work])]) == Par((step, Seq((work,))))
    assert hash(Local(BOX, list(work.body))) == hash(work)
    with pytest.raises(LazyError, match=r"parts of a Seq is a Broadcast\n  .*\(one,\) with a comma"):
        Seq(step)


def test_old_name_of_the_allocator_warns():
    with pytest.warns(DeprecationWarning, match="Room is now wse_sim.Allocator"):
        from wse_sim.kernels.kernel import Room  # noqa: PLC0415
    assert Room is Allocator
