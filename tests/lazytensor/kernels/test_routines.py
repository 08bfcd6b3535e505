"""Routines: compiled kernels in parts, held to the NumPy meaning of their operations; and the team that runs them."""

import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lazytensor import config
from lazytensor.core.dtype import float32, int64
from lazytensor.errors import IndexInvalid, ShapeError
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from lazytensor.kernels import convolution, pooling
from lazytensor.kernels.matmul import MATMUL
from lazytensor.kernels.routines import routine_of
from lazytensor.ops import OPS
from lazytensor.runtime import blas, jit, schedule, thread_pool

CASES = {  # image, weight, stride, padding, dilation, groups
    "plain": ((3, 4, 9, 11), (6, 4, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "strided": ((2, 3, 13, 10), (9, 3, 3, 2), (2, 3), ((1, 0), (0, 2)), (1, 1), 1),
    "dilated": ((2, 4, 12, 15), (4, 4, 3, 3), (1, 2), ((2, 2), (3, 1)), (2, 3), 1),
    "pointwise": ((2, 8, 7, 7), (16, 8, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 1),
    "depthwise": ((2, 6, 9, 9), (6, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 6),
    "depthwise, strided": ((2, 5, 11, 8), (5, 1, 3, 2), (2, 3), ((1, 0), (2, 1)), (2, 1), 5),
    "depthwise line": ((3, 4, 70), (4, 1, 5), (1,), ((4, 0),), (1,), 4),
    "depthwise volume": ((1, 3, 5, 6, 7), (3, 1, 2, 3, 2), (1, 2, 1), ((1, 1), (0, 1), (0, 0)), (1, 1, 2), 3),
    "grouped": ((1, 6, 8, 8), (9, 2, 3, 3), (2, 1), ((1, 1), (0, 0)), (1, 1), 3),
    "line": ((3, 5, 40), (7, 5, 4), (3,), ((2, 1),), (2,), 1),
    "volume": ((2, 3, 6, 7, 8), (4, 3, 2, 3, 2), (2, 1, 3), ((1, 0), (1, 1), (0, 1)), (1, 2, 1), 1),
    "in bands": ((1, 16, 70, 90), (10, 16, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "tiles of two rows": ((3, 32, 9, 12), (48, 32, 3, 3), (1, 1), ((0, 1), (2, 1)), (1, 1), 1),
    "padded depth": ((2, 16, 8, 1, 9), (16, 16, 3, 1, 3), (1, 1, 1), ((1, 1), (1, 1), (1, 1)), (1, 1, 1), 1),
    "many tiles": ((9, 16, 20, 30), (64, 16, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "one image in pieces": ((1, 400, 7, 5), (16, 400, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "many images": ((40, 8, 16, 16), (16, 8, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
}


@pytest.fixture(autouse=True)
def small_is_enough(monkeypatch):
    monkeypatch.setattr(convolution, "LEAST_FLOPS", 0)
    monkeypatch.setattr(pooling, "LEAST_ELEMENTS", 0)


def of(array: np.ndarray) -> Type:
    return Type(array.shape, int64 if array.dtype == np.int64 else float32)


def run(op: str, attrs: dict, *ins: np.ndarray, threads: int = 2, out: np.ndarray | None = None) -> np.ndarray:
    out = np.full_like(OPS[op].eval(*ins, **attrs), 7, order="C") if out is None else out
    routine = routine_of(Instr("call", (), (), {"op": op, "attrs": attrs}), (of(out),), tuple(map(of, ins)))
    arguments = jit.load_routine(routine), routine, tuple(a.reshape(-1) for a in (*ins, out))
    with config.override(threads=threads):
        for step in schedule.chains(schedule.routine(*arguments))[0]:
            step()
    return out


def error(op: str, attrs: dict, *ins: np.ndarray) -> float:
    """How far a routine is from the operation in float64, as a share of the largest element."""
    expected = OPS[op].eval(*(i.astype("f8") if i.dtype == np.float32 else i for i in ins), **attrs)
    return np.abs(run(op, attrs, *ins) - expected).max() / (np.abs(expected).max() or 1)


def faces(case: str | tuple):
    """The three operations of a convolution with their attributes and operands."""
    x_shape, w_shape, stride, padding, dilation, groups = CASES[case] if isinstance(case, str) else case
    rng = np.random.default_rng(0)
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, w = (rng.standard_normal(s, dtype="f4") for s in (x_shape, w_shape))
    g = rng.standard_normal(OPS["conv"].eval(x, w, **attrs).shape, dtype="f4")
    yield "conv", attrs, x, w
    yield "conv_input", {**attrs, "extents": x_shape[2:]}, g, w
    yield "conv_weight", {**attrs, "kernel": w_shape[2:]}, x, g


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_convolution_and_its_gradients_are_those_of_numpy(case):
    for op, attrs, *ins in faces(case):
        # Sums of some hundred products in float32, in another order than the meaning's.
        assert error(op, attrs, *ins) <= 2e-6, op


@pytest.mark.slow
@pytest.mark.parametrize("case", ["volume", "in bands", "padded depth", "one image in pieces"])
def test_what_others_left_in_working_memory_is_nothing_to_a_convolution(case):
    for op, attrs, *ins in faces(case):
        before = run(op, attrs, *ins, threads=1)
        run(op, attrs, *(np.full_like(i, np.nan) for i in ins), threads=1)
        np.testing.assert_array_equal(run(op, attrs, *ins, threads=1), before)


@st.composite
def convolutions(draw):
    """Mostly windows of 3 x 3 and full registers of channels, beside others; some are volumes of one or two layers."""

    def number(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    groups, is_volume = draw(st.sampled_from([1, 1, 1, 2])), draw(st.sampled_from([False, False, False, True]))
    inner, results = (16 * number(1, 3) - draw(st.sampled_from([0, 0, 0, 0, 3])) for _ in range(2))
    kernel = [draw(st.sampled_from([3, 3, 3, 2])) for _ in range(2)]
    stride, dilation = ([draw(st.sampled_from([1, 1, 1, 2])) for _ in range(2)] for _ in range(2))
    extents, padding = [number(1, 19) for _ in range(2)], [(number(0, 3), number(0, 3)) for _ in range(2)]
    if is_volume:
        kernel.insert(1, 1), stride.insert(1, 1), dilation.insert(1, 1)
        extents.insert(1, number(1, 2)), padding.insert(1, (number(0, 1), number(0, 1)))
    for n, (low, high), k, d in zip(extents, padding, kernel, dilation, strict=True):
        assume(n + low + high > (k - 1) * d)
    image, weight = (number(1, 10), groups * inner, *extents), (groups * results, inner, *kernel)
    return image, weight, tuple(stride), tuple(padding), tuple(dilation), groups


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(convolutions())
def test_any_convolution_and_its_gradients_are_those_of_numpy_with_the_same_bits_for_any_threads(case):
    for op, attrs, *ins in faces(case):
        assert error(op, attrs, *ins) <= 2e-6, op
        alone = run(op, attrs, *ins, threads=1)
        for threads in (2, 3):
            np.testing.assert_array_equal(run(op, attrs, *ins, threads=threads), alone)


def test_the_gradient_of_a_large_weight_takes_little_working_memory():
    attrs = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1, "kernel": (3, 3)}
    image, weight = Type((64, 512, 7, 7), float32), Type((512, 512, 3, 3), float32)
    routine = routine_of(Instr("call", (), (), {"op": "conv_weight", "attrs": attrs}), (weight,), (image, image))
    # Two partial sums in Winograd's domain, of 16 places for 9 taps.
    assert routine.module == "winograd"
    assert routine.shared < 2.1 * 16 / 9 * weight.size
    # More threads than two share the work all the same.
    assert routine.parts[0] == 8


@pytest.mark.slow
def test_what_is_not_finite_stays_where_its_windows_are():
    (_, forward, x, w), (_, backward, g, _), _ = faces("tiles of two rows")
    x[1, 3, 4, 5], x[2, 7, 0, 0], g[0, 5, 7, 12] = np.inf, np.nan, -np.inf
    for op, attrs, *ins in (("conv", forward, x, w), ("conv_input", backward, g, w)):
        with np.errstate(invalid="ignore"):
            expected, out = OPS[op].eval(*ins, **attrs), run(op, attrs, *ins)
        assert not np.isfinite(expected).all()
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["in bands", "many images", "many tiles", "one image in pieces"])
def test_bits_do_not_depend_on_the_number_of_threads(case):
    for op, attrs, *ins in faces(case):
        alone = run(op, attrs, *ins, threads=1)
        for threads in (2, 3):
            np.testing.assert_array_equal(run(op, attrs, *ins, threads=threads), alone)


def test_small_ones_are_left_to_numpy(monkeypatch):
    monkeypatch.undo()
    attrs = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    image, weight, result = (Type(s, float32) for s in ((1, 2, 8, 8), (2, 2, 3, 3), (1, 2, 6, 6)))
    assert routine_of(Instr("call", (), (), {"op": "conv", "attrs": attrs}), (result,), (image, weight)) is None


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_maximum_pooling_finds_the_place_that_numpy_finds(rank):
    rng = np.random.default_rng(rank)
    x = rng.integers(-2, 3, (3, 4, *(17, 12, 9)[:rank])).astype("f4")
    x[rng.random(x.shape) < 0.1] = np.nan
    x[rng.random(x.shape) < 0.3] = -np.inf
    attrs = {"kernel": (3, 2, 2)[:rank], "stride": (2, 1, 3)[:rank], "padding": ((1, 1),) * rank}
    attrs["dilation"] = (1, 2, 1)[:rank]
    places = run("window_argmax", attrs, x)
    np.testing.assert_array_equal(places, OPS["window_argmax"].eval(x, **attrs))
    rows, at = x.reshape(12, -1), places.reshape(12, -1)
    np.testing.assert_array_equal(run("at_places", {}, rows, at), OPS["at_places"].eval(rows, at))
    back = {"extent": rows.shape[1], "accumulate": True}
    g = rng.standard_normal(at.shape, dtype="f4")
    np.testing.assert_array_equal(run("put_places", back, g, at), OPS["put_places"].eval(g, at, **back))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_sums_of_windows_and_their_gradients_have_numpys_bits_for_any_threads(rank, stride):
    rng = np.random.default_rng(rank)
    x = rng.standard_normal((3, 4, *(17, 12, 9)[:rank]), dtype="f4")
    x[0, 0] = np.inf
    attrs = {"kernel": (3, 2, 2)[:rank], "stride": (stride,) * rank, "padding": ((1, 2), (0, 1), (1, 0))[:rank]}
    y = OPS["window_sum"].eval(x, **attrs)
    back = {**attrs, "extents": x.shape[2:]}
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(run("window_sum", attrs, x, threads=threads), y)
        spread = run("window_spread", back, y, threads=threads)
        np.testing.assert_array_equal(spread, OPS["window_spread"].eval(y, **back))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(7,), (300, 5), (2, 3, 40)])
@pytest.mark.parametrize("columns", [(3,), (130,), (4, 6)])
def test_rows_of_a_table_are_read_and_added_to_by_number(shape, columns):
    rng = np.random.default_rng(0)
    numbers = rng.integers(-11, 11, shape)
    table, rows = (rng.standard_normal(s, dtype="f4") for s in ((11, *columns), (*shape, *columns)))
    np.testing.assert_array_equal(run("index_get", {"dims": (0,)}, table, numbers), table[numbers])
    attrs = {"dims": (0,), "accumulate": True}
    assert error("index_put", attrs, table, rows, numbers) <= 2e-6
    numbers.flat[-1] = 11
    for op, ins in (("index_get", (table, numbers)), ("index_put", (table, rows, numbers))):
        with pytest.raises(IndexError, match="index is out of bounds for dimension 0 with size 11"):
            run(op, attrs, *ins, out=np.zeros_like(rows if op == "index_get" else table))


SHAPES = [(7,), (1, 5), (30, 4), (3, 40, 2), (2, 3, 300), (65, 3, 1, 70)]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_reads_and_writes_by_index_have_numpys_bits_for_any_threads(shape):
    rng = np.random.default_rng(len(shape))
    x = rng.standard_normal(shape, dtype="f4")
    for dim, extent in enumerate(shape):
        index = rng.integers(-extent, extent, 9)
        calls = [("index_get", {"dims": (dim,)}, x, index)]
        rows = rng.standard_normal(OPS["index_get"].eval(x, index, dims=(dim,)).shape, dtype="f4")
        calls += [("index_put", {"dims": (dim,), "accumulate": True}, x, rows, index)]
        # Which of several values for one index stays is not specified.
        one = np.take(rows, [0], dim)
        calls += [("index_put", {"dims": (dim,), "accumulate": False}, x, one, index[:1])]
        along = rng.integers(0, extent, tuple(6 if d == dim else e for d, e in enumerate(shape)))
        values = rng.standard_normal(along.shape, dtype="f4")
        calls += [("gather", {"dim": dim}, x, along)]
        calls += [
            ("scatter", {"dim": dim, "kind": kind}, x, along, values)
            for kind in ("set", "add", "mul", "maximum", "minimum")
        ]
        fixed = tuple(rng.integers(0, extent, 5).tolist())
        calls += [("pick_along", {"dim": dim, "index": fixed}, x)]
        part = np.take(x, fixed, dim)
        calls += [("place_along", {"dim": dim, "index": fixed, "extent": extent + 1}, part)]
        for op, attrs, *ins in calls:
            for threads in (1, 2):
                np.testing.assert_array_equal(run(op, attrs, *ins, threads=threads), OPS[op].eval(*ins, **attrs), op)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_and_extremes_are_numpys_for_any_threads(shape, reverse):
    rng = np.random.default_rng(len(shape))
    x = rng.standard_normal(shape, dtype="f4")
    ties = rng.integers(-2, 3, shape).astype("f4")
    ties[rng.random(shape) < 0.01] = np.nan
    for dim in range(len(shape)):
        for kind, ulp in (("add", 0), ("mul", 0), ("logaddexp", 1)):
            attrs = {"kind": kind, "dim": dim, "reverse": reverse}
            found = [run("scan", attrs, x, threads=threads) for threads in (1, 2)]
            np.testing.assert_array_equal(*found)
            np.testing.assert_array_max_ulp(found[0], OPS["scan"].eval(x, **attrs), ulp)
        for kind in ("max", "min"):
            attrs = {"kind": kind, "dim": dim}
            np.testing.assert_array_equal(run("arg_scan", attrs, ties), OPS["arg_scan"].eval(ties, **attrs))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 3, 200])
def test_rows_added_by_two_indices_have_numpys_bits_for_any_threads(columns):
    rng = np.random.default_rng(0)
    x, rows, places = rng.standard_normal((9, columns), dtype="f4"), rng.integers(0, 9, 3000), rng.integers(0, 7, 3000)
    for threads in (1, 3):
        found = run("add_rows", {"count": 7}, x, rows, places, threads=threads)
        np.testing.assert_array_equal(found, OPS["add_rows"].eval(x, rows, places, count=7))


@pytest.mark.slow
@pytest.mark.parametrize("shapes", [((5, 3), (4, 3)), ((2, 70, 40), (2, 130, 40)), ((3, 1, 2, 1), (3, 1, 200, 1))])
def test_distances_of_pairs_and_their_gradients_are_numpys(shapes):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, dtype="f4") for shape in shapes)
    s = rng.standard_normal(OPS["pair_distances"].eval(a, b).shape, dtype="f4")
    for op, *ins in (("pair_distances", a, b), ("pair_pull", s, a, b)):
        assert error(op, {}, *ins) <= 2e-6
        np.testing.assert_array_equal(run(op, {}, *ins, threads=1), run(op, {}, *ins, threads=3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((3, 4), (1, 1), 2), ((5,), (7,), 1), ((2, 1, 3, 2, 2, 2), (9, 1, 2, 2, 0, 1), 0), ((4, 6), (0, 5), 3)],
)
def test_the_gradient_of_a_window_has_numpys_bits(size, stride, offset):
    g = np.random.default_rng(0).standard_normal(size, dtype="f4")
    attrs = {"shape": (9, 5), "size": size, "stride": stride, "offset": offset}
    np.testing.assert_array_equal(run("strided_sum", attrs, g), OPS["strided_sum"].eval(g, **attrs))


@pytest.mark.slow
def test_an_index_outside_of_its_dimension_is_refused():
    x, far = np.zeros((4, 3), "f4"), np.array([0, 4])
    grid = np.array([[0, 1, 4]])
    for op, attrs, out, *ins in (
        ("index_get", {"dims": (0,)}, x[:2], x, far),
        ("index_put", {"dims": (0,), "accumulate": True}, x, x, x[:2], far),
        ("gather", {"dim": 0}, x[:1], x, grid),
        ("scatter", {"dim": 0, "kind": "add"}, x, x, grid, x[:1]),
        ("flat_index", {"dims": (0, 1), "extents": (4, 3)}, far, far, far - far),
        ("add_rows", {"count": 2}, x[:2], x, far, far - far),
        ("add_rows", {"count": 4}, x, x, far - far, far),
    ):
        with pytest.raises(IndexInvalid):
            run(op, attrs, *ins, out=out.copy())


@pytest.mark.slow
def test_a_place_outside_of_its_row_is_refused():
    g, places = np.ones((2, 3), "f4"), np.array([[0, 1, 2], [0, 9, 1]])
    routine = routine_of(
        Instr("call", (), (), {"op": "put_places", "attrs": {"extent": 5, "accumulate": True}}),
        (Type((2, 5), float32),),
        (of(g), of(places)),
    )
    arguments = jit.load_routine(routine), routine, (g.reshape(-1), places.reshape(-1), np.zeros(10, "f4"))
    steps = schedule.routine(*arguments)
    runs, _ = schedule.chains([*steps, *steps])
    # The second time is a call of its own, which is not made.
    assert len(runs) == 2
    with pytest.raises(ShapeError, match=r"invalid max index: the indices are 0 to 4"):
        runs[0]()


def test_a_product_in_parts_is_the_product():
    rng = np.random.default_rng(0)
    for shapes in (((300, 200), (200, 250)), ((64, 500), (500, 400)), ((6, 70, 90), (6, 90, 110)), ((9, 8), (8, 7))):
        a, b = (rng.standard_normal(s, dtype="f4") for s in shapes)
        out = np.zeros((*a.shape[:-1], b.shape[-1]), "f4")
        parts = MATMUL.cut({"transpose_a": False, "transpose_b": False}, (out,), (a, b))
        assert len(parts) == 1 or a.shape[-1] > 8
        for part in reversed(parts):
            part()
        np.testing.assert_allclose(out, a @ b, atol=1e-4)


def test_product_in_parts_copies_no_operand():
    a, b, out = np.ones((600, 800), "f4"), np.ones((600, 500), "f4"), np.zeros((800, 500), "f4")
    parts = MATMUL.cut({"transpose_a": True, "transpose_b": False}, (out,), (a, b))
    assert len(parts) > 1
    tracemalloc.start()
    for part in parts:
        part()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < a.nbytes // len(parts) // 4


def test_blas_has_its_threads_again_after_a_step():
    control = blas._control()
    if control is None:
        pytest.skip("this BLAS does not say how many threads it has")
    before = control[0]()
    with blas.one_thread():
        assert control[0]() == 1
    assert control[0]() == before


def test_blas_has_its_threads_again_when_steps_of_two_threads_overlap():
    control = blas._control()
    if control is None:
        pytest.skip("this BLAS does not say how many threads it has")
    before = control[0]()
    first, second = blas.one_thread(), blas.one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert control[0]() == 1
    second.__exit__(None, None, None)
    assert control[0]() == before


@pytest.mark.slow
def test_two_threads_that_run_steps_do_not_share_what_they_work_in():
    cases = [next(faces(case)) for case in ("plain", "many images")]
    wanted = [run(op, attrs, *ins) for op, attrs, *ins in cases]
    wrong = []

    def work(k: int) -> None:
        op, attrs, *ins = cases[k]
        wrong.extend(1 for _ in range(30) if not np.array_equal(run(op, attrs, *ins), wanted[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_every_part_runs_once_whoever_takes_it():
    crew, done, takers = thread_pool.Team(3), [], set()

    def part(number: int, thread: int) -> None:
        done.append(number)
        takers.add(threading.get_ident())

    for parts in (1, 2, 50):
        done.clear()
        crew.share(part, parts)
        assert sorted(done) == list(range(parts))
    assert threading.get_ident() in takers


def test_what_a_part_raises_comes_out_when_all_are_done():
    def part(number: int, thread: int) -> None:
        if number == 3:
            raise ShapeError("three")

    crew = thread_pool.Team(2)
    with pytest.raises(ShapeError, match="three"):
        crew.share(part, 8)
    crew.share(lambda number, thread: None, 8)


def test_cores_are_those_of_the_quota(tmp_path):
    assert thread_pool._quota(tmp_path) == 0
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert thread_pool._quota(tmp_path) == 2
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert thread_pool._quota(tmp_path) == 0
    assert config.read_environment({"LT_THREADS": "3"}).threads == 3
