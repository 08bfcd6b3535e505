"""A graph gives the same bits operation by operation and as a compiled program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import config, nn, optim
from lazytensor.compiler.pipeline import HOST, UNLOWERED, compile_graph
from lazytensor.core.capture import Capture
from lazytensor.core.dtype import bfloat16, bool_, float16, float32, float64, int32, int64, round_to
from lazytensor.core.step import StepRunner
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.kernels.routines import BY_INDEX
from lazytensor.ops import call
from lazytensor.ops.products import matmul
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import transpose
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.reference import evaluate
from lazytensor.runtime.state_store import Store
from lazytensor.runtime.unfused_program import Unfused, shared
from lazytensor.testing import batch, graphs, values_for
from tests.lazytensor.ops.op_rows import ROWS
from tests.lazytensor.ops.test_op_rows import built, draws

KINDS = {"f": (float32, float32, bfloat16, float16, float64), "i": (int64, int32), "b": (bool_,)}
seeds = st.integers(0, 2**32 - 1)
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def compiled():
    with config.override(jit=True):
        yield


def assert_equal_bits(graph, arrays, state=None, target=HOST):
    """All that a graph gives; only the sign of a NaN may differ."""
    # Half types are float32 whose numbers the type has.
    arrays = [round_to(a, n.type.dtype) for a, n in zip(arrays, graph.inputs, strict=True)]
    store = Store()
    for name, array in (state or {}).items():
        store.add(name, array.copy())
    executable = HostBackend().compile(compile_graph(graph, target), store)
    fetched = [np.array(v) for v in executable.step(arrays)]
    updated = [store.array(name) for name in graph.updates]
    unfused, others = Unfused(graph, target), [a.copy() for a in arrays]
    before = [v.copy() for v in unfused.run(others, state or {})]
    # A later run must read its own arrays.
    for array in others:
        array.fill(1)
    values = unfused.run(arrays, state or {})
    for got, again in zip(values, before, strict=True):
        np.testing.assert_array_equal(got, again)
    for got, want in zip(values, (*updated, *fetched), strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_array_equal(got, want)
        if got.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(got) | np.isnan(got), np.signbit(want) | np.isnan(want))


@settings(max_examples=25, deadline=None)
@given(graph=graphs(smooth=True), seed=seeds, target=st.sampled_from((HOST, UNLOWERED)))
def test_random_graphs(graph, seed, target):
    assert_equal_bits(graph, *values_for(graph, seed, smooth=True), target)


@pytest.mark.parametrize("name", sorted(ROWS))
@settings(max_examples=1, deadline=None)
@given(data=st.data())
def test_every_operation_and_sums_of_its_results(name, data):
    row = ROWS[name]
    draw = data.draw(draws(row, tuple(d for kind in row.kinds for d in KINDS[kind])))
    arrays, attrs = row.make(draw)
    graph, outputs = built(name, draw, arrays, attrs)
    wide = [y for y in outputs if y.type.dtype.kind == "f" and y.type.size]
    sums = [reduce(y * y, "add", tuple(range(len(y.type.shape)))) for y in wide]
    assert_equal_bits(Graph(graph.inputs, {}, (*outputs, *sums), {}), arrays)


@st.composite
def reductions(draw):
    """Sums over some dimensions of some functions of one value, which may lie transposed in memory."""
    shape = tuple(draw(st.lists(st.integers(1, 200), min_size=1, max_size=3)))
    if np.prod(shape) > 40_000:
        shape = (*shape[:-1], 3) if draw(st.booleans()) else (3, *shape[1:])
    dtype = draw(st.sampled_from((float32, float32, float32, float64, bfloat16)))
    order = tuple(draw(st.permutations(range(len(shape)))))
    stored = tuple(shape[order.index(d)] for d in range(len(shape)))
    x = batch(0, Type(stored, dtype))
    y = batch(1, Type(shape, dtype))
    moved = transpose(x, order)
    functions = [lambda: moved, lambda: moved * y, lambda: call("exp", moved) - y, lambda: call("tanh", y + moved * y)]
    values = [f() for f in draw(st.lists(st.sampled_from(functions), min_size=1, max_size=2))]
    dims = tuple(sorted(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
    kinds = [draw(st.sampled_from(("add", "add", "add", "mul", "maximum"))) for _ in values]
    sums = [reduce(v, kind, dims, draw(st.booleans())) for v, kind in zip(values, kinds, strict=True)]
    more = values[:1] if draw(st.booleans()) else []
    return Graph((x, y), {}, (*sums, *more), {})


@settings(max_examples=25, deadline=None)
@given(graph=reductions(), seed=seeds)
def test_sums_of_every_extent(graph, seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(n.type.shape).astype(n.type.dtype.host) for n in graph.inputs]
    assert_equal_bits(graph, arrays)


@pytest.mark.parametrize("extent", [8192, 8193, 12288, 20011])
def test_long_sums(extent):
    x = batch(0, Type((2, extent), float32))
    values = np.random.default_rng(0).standard_normal((2, extent)).astype("f4")
    assert_equal_bits(Graph((x,), {}, (reduce(x, "add", (1,)), reduce(x * x, "add", (0, 1)), x * x), {}), [values])


@pytest.mark.parametrize("columns", [1, 10, 40, 64, 100, 1000])
def test_softmax_and_cross_entropy(columns):
    x, labels = batch(0, Type((37, columns), float32)), batch(1, Type((37,), int64))
    pair = call("softmax_cross_entropy", x, labels)
    roots = (call("softmax", x, dim=1), call("result", pair, index=0), call("result", pair, index=1))
    rng = np.random.default_rng(0)
    values = rng.standard_normal((37, columns)).astype("f4") * 9
    values[3, 0] = np.nan
    assert_equal_bits(Graph((x, labels), {}, roots, {}), [values, rng.integers(-1, columns + 1, 37)])


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_products_of_operands_in_any_order(data):
    extents = st.one_of(st.integers(1, 70), st.sampled_from((128, 257, 400)))
    m, k, n = (data.draw(extents) for _ in range(3))
    stack = data.draw(st.sampled_from(((), (3,), (2, 3))))
    flip_a, flip_b, turns, scales = (data.draw(st.booleans()) for _ in range(4))
    a = batch(0, Type((*stack, *((k, m) if flip_a != turns else (m, k))), float32))
    b = batch(1, Type((*stack, *((n, k) if flip_b else (k, n))), float32))
    last = (*range(len(stack)), len(stack) + 1, len(stack))
    left = transpose(a, last) if turns else a
    left = left * 2 if scales else left
    y = matmul(left, b, flip_a, flip_b)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(x.type.shape).astype("f4") for x in (a, b)]
    assert_equal_bits(Graph((a, b), {}, (y, call("relu", transpose(y, last))), {}), arrays)


def trained(compiles):
    """Losses and weights of steps on the CPU, each of which is compiled, or interpreted."""
    lt.manual_seed(1)
    store = Store()
    runner = StepRunner(HostBackend(), store)
    runner.is_worth_compiling = lambda key: compiles
    model = nn.Sequential(nn.Linear(20, 33), nn.GELU(), nn.LayerNorm(33), nn.Dropout(0.1), nn.Linear(33, 7))
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    rng = np.random.default_rng(0)
    losses = []
    for batch_size in (16, 16, 5):
        x, y = (
            lt.tensor(a) for a in (rng.standard_normal((batch_size, 20)).astype("f4"), rng.integers(0, 7, batch_size))
        )
        with Capture(store, readable=True) as capture:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            runner.run(capture)
        losses.append(loss.item())
    return losses, [p.detach().numpy() for p in model.parameters()]


def test_steps_on_the_cpu_give_equal_bits_interpreted_and_compiled():
    (losses, weights), (expected, others) = (trained(compiles) for compiles in (False, True))
    assert losses == expected
    for weight, other in zip(weights, others, strict=True):
        np.testing.assert_array_equal(weight, other)


def indexed_calls(rng, rows):
    """An example of each operation that reads and writes by index, with its operands."""
    x, y = (rng.standard_normal((rows, 90), dtype="f4") for _ in range(2))
    index = rng.integers(-rows, rows, 50)
    along = rng.integers(0, rows, x.shape)
    picks = tuple(rng.integers(0, rows, 40).tolist())
    window = {"size": (rows, 80), "stride": (90, 1), "offset": 3}
    triangle = np.tril(rng.standard_normal((rows, rows), dtype="f4")) + 4 * np.eye(rows, dtype="f4")
    modes = {"mode": "bilinear", "padding_mode": "zeros", "align_corners": False}
    images, samples = (rng.standard_normal(shape, dtype="f4") for shape in ((2, 3, 5, 6), (2, 3, rows, 4)))
    grid = rng.uniform(-1, 1, (2, rows, 4, 2)).astype("f4")
    log_probs = np.log(rng.dirichlet(np.ones(5), (rows, 2)).astype("f4"))
    scores = log_probs, np.array([[0, 1, 0], [0, 4, 0]]), np.array([[rows, 1], [rows - 1, 1]])
    return (
        ("index_get", {"dims": (0,)}, x, index),
        ("index_put", {"dims": (0,), "accumulate": True}, x, y[np.zeros(50, int)], index),
        ("gather", {"dim": 0}, x, along),
        ("scatter", {"dim": 0, "kind": "add"}, x, along, y),
        ("add_rows", {"count": rows}, x, np.abs(index) % rows, index % rows),
        ("pick_along", {"dim": 0, "index": picks}, x),
        ("place_along", {"dim": 1, "index": tuple(k % 7 for k in range(90)), "extent": 7}, x),
        ("strided_sum", {"shape": x.shape, **window}, y[:, :80]),
        *(("scan", {"kind": k, "dim": 1, "reverse": True}, x) for k in ("add", "mul", "logaddexp")),
        ("pair_distances", {}, x, y),
        ("pair_pull", {}, y[:, :rows], x, y),
        ("triangular_solve", {"lower": True, "adjoint": False}, triangle, x),
        ("grid_sample", modes, images, grid),
        ("grid_sample_image_grad", {"extents": (5, 6), **modes}, samples, grid),
        ("grid_sample_grid_grad", modes, samples, images, grid),
        ("ctc_loss", {"zero_infinity": False}, *scores),
        ("ctc_loss_grad", {"zero_infinity": False}, samples[:2, 0, 0, 0].copy(), *scores),
    )


@pytest.mark.parametrize("rows", [3, 70])
def test_a_single_operation_by_index_has_the_bits_of_a_program(rows):
    calls = indexed_calls(np.random.default_rng(0), rows)
    assert {name for name, *_ in calls} == BY_INDEX
    for name, attrs, *arrays in calls:
        inputs = tuple(batch(k, Type(a.shape, int64 if a.dtype == np.int64 else float32)) for k, a in enumerate(arrays))
        n = call(name, *inputs, **attrs)
        want = Unfused(Graph(inputs, {}, (n,), {})).run(arrays)[0]
        (got,) = evaluate([n], dict(zip(inputs, arrays, strict=True)), shared=shared)
        np.testing.assert_array_equal(got, want, name)
