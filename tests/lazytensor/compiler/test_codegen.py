"""Generated loops give the oracle's values: all shapes of reductions, all types, NaN, in-place, long sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor import config
from lazytensor.compiler.codegen import distinct_slots, generate, thread_parts
from lazytensor.compiler.fuse import fuse
from lazytensor.compiler.match import match
from lazytensor.compiler.scalar_bodies import literal_text
from lazytensor.core.dtype import bool_, float16, float32, float64, int8, int32, int64, uint8
from lazytensor.ir.graph import Graph
from lazytensor.ir.nest_reference import evaluate
from lazytensor.ir.types import Type
from lazytensor.ops import OPS, call, full, full_like
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import transpose
from lazytensor.runtime import jit
from lazytensor.testing import batch, graphs, values_for
from tests.lazytensor.oracles import assert_same, run_host, run_reference


def nest_of(*outputs):
    graph = Graph((), {}, outputs, {})
    (made,) = fuse(graph, match(graph))
    assert made.nest is not None
    return made.nest


def meaning(op, attrs):
    return lambda *arrays: OPS[op].eval(*arrays, **attrs)


def both(nest, *inputs):
    """The outputs of the compiled nest and of the oracle."""
    results = []
    for compiled in (True, False):
        outputs = [np.zeros(t.shape, t.dtype.host) for t in nest.outputs]
        if compiled:
            function = jit.load(generate(nest))
            for bounds in reversed(thread_parts(nest) or ((),)):
                function(*bounds, *(a.reshape(-1) for a in (*inputs, *outputs)))
        else:
            evaluate(nest, list(inputs), outputs, meaning)
        results.append(outputs)
    return results


@pytest.mark.slow
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)], ids=str)
def test_every_pattern_of_reduced_dimensions(dims):
    x = batch(0, Type((3, 5, 19), float32))
    values = np.random.default_rng(0).integers(-9, 9, (3, 5, 19)).astype("f4")
    values[1, 2, 3] = np.nan
    outputs = [reduce(x, kind, dims) for kind in ("add", "maximum", "minimum", "mul")]
    got, want = both(nest_of(*outputs), values)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), ()], ids=str)
def test_parts_of_a_nest_give_what_the_whole_gives(dims):
    shape = (40, 5, 4100) if dims in ((0,), (0, 1)) else (40, 50, 90)  # columns are cut into wide parts
    x = batch(0, Type(shape, float32))
    values = np.random.default_rng(0).integers(-9, 9, shape).astype("f4")
    node = x * x
    nest = nest_of(reduce(node, "add", dims) if dims else node)
    assert len(thread_parts(nest)) > 1
    got, want = both(nest, values)
    np.testing.assert_array_equal(got[0], want[0])  # whole numbers, so that any order of additions is exact


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [int64, int32, int8, uint8], ids=lambda d: d.name)
def test_integers_wrap_as_in_numpy(dtype):
    x = batch(0, Type((4, 40), dtype))
    y = call("add", call("mul", x, x), full_like(7, x))
    values = np.random.default_rng(0).integers(0, 120, (4, 40)).astype(dtype.host)
    outputs = (y, *(reduce(y, kind, (1,)) for kind in ("add", "maximum", "minimum")))
    got, want = both(nest_of(*outputs), values)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.slow
def test_booleans_reduce_with_and_and_or():
    x = batch(0, Type((6, 33), bool_))
    values = np.random.default_rng(0).random((6, 33)) < 0.95
    got, want = both(nest_of(reduce(x, "and", (1,)), reduce(x, "or", (1,)), call("logical_not", x)), values)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.slow
def test_nan_goes_through_maximum_minimum_relu_and_clamp():
    x = batch(0, Type((40,), float32))
    values = np.where(np.arange(40) % 7 == 3, np.nan, np.arange(40) - 20).astype("f4")
    zero = full_like(0, x)
    outputs = (
        call("relu", x),
        call("maximum", x, zero),
        call("minimum", zero, x),
        call("clamp", x, full_like(-1, x), full_like(1, x)),
    )
    got, want = both(nest_of(*outputs), values)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.slow
def test_long_sums_stay_as_close_as_numpys():
    n = 200_017
    x = batch(0, Type((n,), float32))
    values = np.random.default_rng(0).random(n).astype("f4")
    got, _ = both(nest_of(reduce(x, "add", (0,))), values)
    assert abs(float(got[0]) - values.sum(dtype="f8")) / values.sum(dtype="f8") < 1e-6


@pytest.mark.slow
def test_strict_arithmetic_survives_in_a_reduction():
    """(x + 2**24) - 2**24 rounds x to even whole numbers; an additive reduction must not simplify it away."""
    x = batch(0, Type((64,), float32))
    big = full_like(2.0**24, x)
    values = np.linspace(0, 9, 64).astype("f4")
    got, want = both(nest_of(reduce(call("sub", call("add", x, big), big), "add", (0,))), values)
    assert got[0] == want[0] != values.sum()


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(7, 5), (3, 49), (2, 64), (2, 3, 100), (2, 1000), (20011,)], ids=str)
def test_a_sum_has_the_same_bits_whatever_is_fused_with_it(shape):
    dims = tuple(range(1, len(shape))) or (0,)
    x, y = (batch(k, Type(shape, float32)) for k in range(2))
    turned = transpose(batch(0, Type(shape[::-1], float32)), tuple(range(len(shape)))[::-1])
    rng = np.random.default_rng(0)
    values, others = (rng.standard_normal(shape).astype("f4") for _ in range(2))
    more = (reduce(x * y, "add", dims), call("exp", x), reduce(y, "maximum", dims))
    graphs = (
        (Graph((x,), {}, (reduce(x, "add", dims),), {}), [values]),
        (Graph((x, y), {}, (reduce(x, "add", dims), *more), {}), [values, others]),
        (Graph(turned.inputs, {}, (reduce(turned, "add", dims),), {}), [np.ascontiguousarray(values.T)]),
    )
    alone, fused, strided = (run_host(graph, [arrays], {})[0][0][0] for graph, arrays in graphs)
    np.testing.assert_array_equal(fused, alone)
    np.testing.assert_array_equal(strided, alone)


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_the_compiler_prints_nothing_about_sums(capfd, tmp_path, dtype):
    with config.override(cache=str(tmp_path)):
        for extent in (7, 48, 64, 119, 9000):
            x = batch(0, Type((2, extent), dtype))
            both(nest_of(reduce(call("exp", x), "add", (1,)), call("tanh", x)), np.ones((2, extent), dtype.host))
    assert capfd.readouterr() == ("", "")


def test_a_transposed_read_is_a_stride():
    x = batch(0, Type((5, 19), float32))
    values = np.arange(95, dtype="f4").reshape(5, 19)
    got, _ = both(nest_of(call("neg", transpose(x, (1, 0)))), values)
    np.testing.assert_array_equal(got[0], -values.T)


@pytest.mark.slow
def test_operands_in_one_buffer_share_an_argument():
    assert distinct_slots((7, 5, 7)) == (0, 1, 0)
    x = batch(0, Type((40,), float32))
    text = generate(nest_of(call("neg", x)), (0, 0))
    assert 'typed("void(float32[::1])"' in text
    values = np.arange(40, dtype="f4")
    jit.load(text)(values)
    np.testing.assert_array_equal(values, -np.arange(40))


def test_literals_are_exact_and_typed():
    assert literal_text(0.1, float32) == "np.float32(0.10000000149011612)"
    assert literal_text(-0.0, float64) == "np.float64(-0.0)"
    assert literal_text(float("-inf"), float32) == "np.float32(-np.inf)"
    assert literal_text(float("nan"), float16) == "np.float32(np.nan)"
    assert literal_text(3.0, int32) == "np.int32(3)"


@pytest.mark.slow
def test_casts_follow_numpy():
    x = batch(0, Type((6,), float32))
    values = np.array([-2.7, -0.5, 0.0, 0.5, 70000.0, 1.0001], "f4")
    for target in (float16, float64, int32, int64, bool_):
        got, want = both(nest_of(call("cast", x, dtype=target)), values)
        np.testing.assert_array_equal(got[0], want[0])
    ramp = call("arange", start=0.5, step=0.25, type=Type((6,), float32))
    got, _ = both(nest_of(call("mul", x, ramp)), values)
    np.testing.assert_array_equal(got[0], values * (0.5 + 0.25 * np.arange(6)).astype("f4"))


POINTWISE = [
    pytest.param(name, dtype, id=f"{name} {dtype.name}")
    for name, op in OPS.items()
    for dtype in (float32, float64)
    if op.body and name not in ("cast", "where", "clamp") and not (op.body.is_single and dtype is float64)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), POINTWISE)
def test_every_pointwise_operation_compiles_and_agrees(name, dtype):
    attrs = {"approximate": "tanh"} if name == "gelu" else {}
    values = np.linspace(0.05, 3, 37).astype(dtype.host)
    boolean = name.startswith("logical_")
    kind = Type((37,), bool_ if boolean else dtype)
    arrays = [values > 1, values > 2] if boolean else [values, values[::-1].copy()]
    body = OPS[name].body
    arity = 1 + (body is not None and "{1}" in body.text)
    nest = nest_of(call(name, *(batch(k, kind) for k in range(arity)), **attrs))
    got, want = both(nest, *arrays[:arity])
    np.testing.assert_allclose(got[0], want[0], rtol=1e-6 if dtype is float32 else 1e-14)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_compiled_graphs_equal_the_reference_in_every_bit(data):
    graph = data.draw(graphs(data.draw(st.sampled_from((float32, float16)))))
    first, start = values_for(graph, 1)
    second, _ = values_for(graph, 2)
    with config.override(check=True):
        assert_same(run_host(graph, [first, second], start), run_reference(graph, [first, second], start))


@settings(max_examples=8, deadline=None)
@given(graphs(float32, smooth=True))
def test_compiled_transcendental_graphs_agree_to_rounding(graph):
    """Each helper errs by at most 3 ULP = 4e-7; the ops are contractions, so errors add up over at most 14 nodes."""
    arrays, start = values_for(graph, 1, smooth=True)
    got, want = run_host(graph, [arrays], start), run_reference(graph, [arrays], start)
    assert_same(got, want, rtol=1e-5)


def test_a_constant_output_is_filled():
    (made,) = run_host(Graph((), {}, (full(2.5, Type((3, 2), float32)),), {}), [[]], {})[0][0:1]
    np.testing.assert_array_equal(made[0], np.full((3, 2), 2.5))
