"""Kernels that run: places of matrices, wavelets against data bit for bit, closed form against cycles."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor.errors import LazyError
from tests.wse_sim.kernels.kernel_rows import DTYPES, LONG, cases, stencil_product
from tests.wse_sim.programs import patient
from wse_sim.cost_model.cost import cost
from wse_sim.fabric import simulate_phase
from wse_sim.isa.packing import round_values
from wse_sim.kernels import KERNELS, MeshKernel, Placed, as_data, as_wavelets, gather, scatter, stream_of, wavelets_of
from wse_sim.kernels.compare import SAMPLES, SIZES, compare, table
from wse_sim.kernels.matmul import gemm
from wse_sim.kernels.solvers.bicgstab import NEIGHBOURS
from wse_sim.kernels.windows.pooling import window_numbers
from wse_sim.kernels.windows.window import Window
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, WSE3
from wse_sim.phase import Par, Reduce, Repeat, Rounds, Seq
from wse_sim.reference.phase_reference import apply

few = settings(deadline=None, max_examples=5)
seeds = st.integers(0, 2**32 - 1)


def check_wavelets(data, name, dtype):
    case, machine = data.draw(cases(name, dtype)), data.draw(st.sampled_from([WSE2, WSE3]))
    expected = as_data(case.kernel, case.values, machine)
    found, done = as_wavelets(case.kernel, case.values, machine)
    assert done.cycles > 0
    for result in case.expected:
        np.testing.assert_array_equal(found[result].view(np.uint32), expected[result].view(np.uint32))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(set(KERNELS) - LONG))
@few
@given(st.data())
def test_wavelets_are_the_data_to_the_last_bit(name, dtype, data):
    check_wavelets(data, name, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LONG))
@settings(deadline=None, max_examples=2)
@given(st.data())
def test_wavelets_of_long_programs_are_the_data_to_the_last_bit(name, data):
    check_wavelets(data, name, data.draw(st.sampled_from(DTYPES)))


@pytest.mark.parametrize("extents", [(6, 5), (4, 2)])
def test_images_that_do_not_divide_into_tiles_are_refused(extents):
    with pytest.raises(LazyError, match="at least 2 pixels in each dimension"):
        KERNELS["convolution"](Rect(0, 0, 2, 2), *extents, 1, 1, radius=2)


def turned_over(phase):
    """A phase program with the parts of every Par in the other order."""
    match phase:
        case Par(parts):
            return Par(tuple(turned_over(part) for part in reversed(parts)))
        case Seq(parts):
            return Seq(tuple(turned_over(part) for part in parts))
        case Repeat(times, body):
            return Repeat(times, turned_over(body))
        case Rounds(times, body):
            return Rounds(times, lambda number: turned_over(body(number)))
    return phase


@pytest.mark.parametrize("name", sorted(set(KERNELS) - LONG))
@few
@given(st.data())
def test_what_happens_at_once_has_no_order(name, data):
    case = data.draw(cases(name))
    memory = scatter(case.kernel, case.values)
    found, other = (gather(case.kernel, apply(p, memory)) for p in (case.kernel.phase, turned_over(case.kernel.phase)))
    for result in case.expected:
        np.testing.assert_array_equal(found[result], other[result])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=10)
@given(seeds, st.integers(1, 3), st.integers(1, 4), st.sampled_from([0.1, 0.5, 1]))
def test_only_weights_that_are_not_zero_are_sent(dtype, seed, height, width, density):
    """Two wavelets for each in float32, one in 16 bits; what else is sent are the sums."""
    random = np.random.default_rng(seed)
    weights = (random.random((7, 5)) < density) * random.choice([-1, 2], (7, 5)).astype(np.float32)
    rect = Rect(0, 0, width + 1, height)
    kernel = KERNELS["streamed_product"](rect, weights, 3, dtype)
    values = {"x": random.standard_normal((7, 3)), "stream": stream_of(weights, height, dtype)}
    streaming, sums = kernel.phase.parts
    done = simulate_phase(streaming, WSE2, scatter(kernel, values)).expect_finished()
    count = np.count_nonzero(weights) * (2 if dtype == "float32" else 1)
    assert sum(done.sent.values()) == count == wavelets_of(weights, dtype)
    assert isinstance(sums, Reduce)
    assert sum(done.received.values()) == count * width


kinds = st.sampled_from(["block", "cyclic"])


@pytest.mark.parametrize("dtype, bound", [("float32", 1e-6), ("bfloat16", 0.02)])
def test_solver_comes_to_its_solution(dtype, bound):
    """Six iterations on 3 x 4 columns of a matrix within 0.6 of 1; float16 underflows on the way."""
    random, shape = np.random.default_rng(0), (3, 4, 5)
    b = round_values(random.standard_normal(shape).astype(np.float32), dtype)
    factors = [round_values(-0.1 * random.random(shape).astype(np.float32), dtype) for _ in NEIGHBOURS]
    kernel = KERNELS["bicgstab"](Rect(0, 0, 4, 3), 5, 6, dtype)
    memory = scatter(kernel, {"b": b, **dict(zip(NEIGHBOURS, factors, strict=True))})
    x = gather(kernel, apply(kernel.phase, memory))["x"].reshape(shape).astype(np.float64)
    assert np.abs(stencil_product(x, [f.astype(np.float64) for f in factors]) - b).max() < bound * np.abs(b).max()


@patient
@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(1, 12), st.integers(1, 12), kinds, kinds, st.booleans(), st.data()
)
def test_every_element_lies_in_one_place_and_comes_back(width, height, rows, columns, down, along, is_turned, data):
    skew = data.draw(st.sampled_from(["", "row", "column"])) if width == height else ""
    rect = Rect(1, 0, width, height)
    how = {"row_kind": down, "column_kind": along, "skew": skew, "is_turned": is_turned}
    placed = Placed("a", rect, rows, columns, "bfloat16", 2, **how, is_folded=data.draw(st.booleans()))
    matrix = np.arange(rows * columns).reshape(rows, columns)
    kernel = MeshKernel(Par(()), (placed,), (placed,), 2 + placed.words)
    memory = scatter(kernel, {"a": matrix})
    np.testing.assert_array_equal(gather(kernel, memory)["a"], matrix)
    tiles = [placed.tile_of(x, y) for x in range(width) for y in range(height)]
    held = sorted((r, c) for rows_, columns_ in tiles for r in rows_ for c in columns_)
    assert held == [(r, c) for r in range(rows) for c in range(columns)]
    assert not memory[:, 0].any() and not memory[..., :2].any()


def test_replicated_operands_lie_everywhere_and_fills_take_the_rest():
    placed = Placed("a", Rect(0, 0, 2, 2), 1, 3, "float32", 0, row_kind="replicated", fill=-1)
    ones = replace(placed, name="ones", address=2, constant=1, fill=0)
    memory = scatter(MeshKernel(Par(()), (placed, ones), (), 4), {"a": [5, 6, 7]})
    np.testing.assert_array_equal(memory[:, 0], [[5, 6, 1, 1]] * 2)
    np.testing.assert_array_equal(memory[:, 1], [[7, -1, 1, 0]] * 2)


@pytest.mark.parametrize(
    "values, text", [({"a": np.zeros(3)}, "Give 2 x 2 elements"), ({"b": np.zeros(4)}, "Give a"), ({}, "Give a")]
)
def test_operands_that_are_not_the_kernels_are_refused(values, text):
    placed = Placed("a", Rect(0, 0, 1, 1), 2, 2, "float32", 0)
    with pytest.raises(LazyError, match=text):
        scatter(MeshKernel(Par(()), (placed,), (), 4), values)


def test_products_need_a_square_and_a_plain_ring_to_turn_into_place():
    with pytest.raises(LazyError, match="2 x 3 PEs"):
        KERNELS["summa"](Rect(0, 0, 2, 3), 4, 4, 4)
    with pytest.raises(LazyError, match="folded ring"):
        KERNELS["cannon"](Rect(0, 0, 2, 2), 4, 4, 4, is_folded=True, has_skew=True)


@pytest.mark.parametrize("name", ["summa", "cannon", "two_hop"])
@pytest.mark.parametrize("size", [(4, 16), (8, 32), (16, 16)])
def test_published_products_and_those_that_run_have_one_price(name, size):
    pes, tile = size
    machine = WSE2
    rect, extent = Rect(0, 0, pes, pes), pes * tile
    published = gemm.GEMM_ALGORITHMS[name](rect, gemm.Tile.of(extent, extent, extent, pes, 4), machine)
    runs = KERNELS[name](rect, extent, extent, extent)
    assert cost(runs.phase, machine).cycles == pytest.approx(cost(published, machine).cycles, rel=0.05)


def test_every_kernel_is_compared():
    assert set(SAMPLES) == set(KERNELS)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_closed_form_is_within_10_percent_of_the_cycles(name, dtype):
    rows = [compare(name, size, dtype) for size in SIZES]
    assert max(abs(row.error) for row in rows) <= 0.10, "\n" + table(rows)


@pytest.mark.slow
def test_comparison_is_a_line_of_the_table():
    row = compare("bias_relu", (2, 3))
    head, line = table([row]).splitlines()
    assert len(head) == len(line)
    assert line.split() == ["bias_relu", "2", "x", "2", "3", "x", "3", "float32", *[f"{row.closed:,}"] * 2, "+0.0%"]


NAN = float("nan")
WITH_NANS = np.array([[1, 2, NAN, 0], [5, NAN, 3, 9], [0, 1, 2, 3], [NAN, 1, 2, 3]], np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("run", [as_data, lambda *args: as_wavelets(*args)[0]], ids=["data", "wavelets"])
@pytest.mark.parametrize(
    "padding, places",
    [
        (0, [[5, 5, 2], [5, 5, 7], [12, 10, 11]]),
        (1, [[0, 1, 2, 2, 3], [4, 5, 5, 2, 7], [4, 5, 5, 7, 7], [12, 12, 10, 11, 11], [12, 12, 14, 15, 15]]),
    ],
)
def test_pooling_finds_the_last_nan_of_a_window_as_pytorch_does(padding, places, run, dtype):
    """The indices are those of torch.nn.functional.max_pool2d(x, 2, 1, padding, return_indices=True)."""
    frame = Window((2, 2), padding=((padding, padding),) * 2)
    kernel = KERNELS["window_argmax"](Rect(0, 0, 2, 1), 1, 2, (4, 4), frame, dtype)
    images = np.stack([WITH_NANS, np.full_like(WITH_NANS, -np.inf)])[None]
    found = run(kernel, {"x": images, **window_numbers((4, 4), frame)}, WSE2)
    indices, largest = (np.asarray(found[name]).reshape(2, -1) for name in ("places", "y"))
    assert indices[0].tolist() == np.ravel(places).tolist()
    np.testing.assert_array_equal(largest[0], WITH_NANS.ravel()[np.ravel(places)])
    assert np.isneginf(largest[1]).all()


@pytest.mark.parametrize("run", [as_data, lambda *args: as_wavelets(*args)[0]], ids=["data", "wavelets"])
def test_argmax_finds_the_first_nan(run):
    line, frame = np.array([[[[1, NAN, 9, NAN]]]], np.float32), Window((1, 4))
    kernel = KERNELS["window_argmax"](Rect(0, 0, 1, 1), 1, 1, (1, 4), frame, is_first_nan=True)
    assert run(kernel, {"x": line, **window_numbers((1, 4), frame)}, WSE2)["places"].ravel().tolist() == [1]
