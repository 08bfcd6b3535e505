"""Every operation of the table: its facets agree with each other, with NumPy, and with the compiled host."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lazytensor.autograd import gradient_graph
from lazytensor.compiler.lower import lower_to_cirh, lower_to_host
from lazytensor.compiler.simplify import RULES, simplify
from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType
from lazytensor.ir.graph import Graph, Node, leaf
from lazytensor.ir.operation import DEFAULT_HINT
from lazytensor.ir.types import Type, Work
from lazytensor.ops import OPS, call, const, full
from lazytensor.runtime.reference import evaluate
from lazytensor.testing import batch, graphs, values_for
from tests.lazytensor.ops.op_rows import NOT_DIFFERENTIABLE, ROWS, STRUCTURE, Draw, Row
from tests.lazytensor.oracles import run_host

DTYPES = {"f": (dt.float64, dt.float32), "i": (dt.int64, dt.int32), "b": (dt.bool_,)}
HALVES = (dt.bfloat16, dt.float16, dt.cbfloat16)
EPSILON = {dt.float64: 1e-12, dt.float32: 2e-6, dt.bfloat16: 2**-7, dt.float16: 2**-10, dt.cbfloat16: 2**-9}
"""Relative to the largest element: float32 a few places, since sums have an order; halves one place."""
INEXACT = {"log2": 1e-4}
"""The front end multiplies by five digits of 1 / ln 2, and its graph is the specification of CIRH."""

every_op = pytest.mark.parametrize("name", sorted(ROWS))
few = settings(max_examples=8, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def fitted(row: Row, extents: list[int]) -> tuple[int, ...]:
    extents = [max(e, row.least_extent) for e in extents]
    return tuple(extents + [2] * (row.least_rank - len(extents)))


def draws(row: Row, dtypes: tuple[DType, ...]) -> st.SearchStrategy[Draw]:
    shapes = st.lists(st.sampled_from((3, 2, 1, 0)), max_size=3).map(lambda e: fitted(row, e))
    return st.builds(Draw, shapes, st.sampled_from(dtypes), seeds)


def dtypes_of(row: Row) -> tuple[DType, ...]:
    return tuple(d for kind in row.kinds for d in DTYPES[kind])


def typed(draw: Draw, arrays: list[np.ndarray]) -> list[Type]:
    """Operands in the drawn dtype belong to it; conditions, labels and random state keep their own."""
    mine = draw.dtype.host
    return [Type(a.shape, draw.dtype if a.dtype == mine else dt.dtype_of_array(a)) for a in arrays]


def arrays_of(attrs: dict) -> tuple[np.ndarray, Type]:
    t = attrs["type"]
    return np.frombuffer(attrs["data"], t.dtype.host).reshape(t.shape), t


def built(name: str, draw: Draw, arrays: list[np.ndarray], attrs: dict, first: int = 0) -> tuple[Graph, list[Node]]:
    """Return a graph of the one operation over batch leaves from number `first` on, and the nodes of its results."""
    inputs = [batch(first + k, t) for k, t in enumerate(typed(draw, arrays))]
    outputs = results(const(*arrays_of(attrs)) if name == "const" else call(name, *inputs, **attrs))
    return Graph(tuple(inputs), {}, tuple(outputs), {}), outputs


def results(y: Node) -> list[Node]:
    return [call("result", y, index=k) for k in range(len(y.type))] if isinstance(y.type, tuple) else [y]


def assert_close(got, want, epsilon: float, least: float = 0.0) -> None:
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    finite = np.abs(want[np.isfinite(want)])
    np.testing.assert_allclose(got, want, rtol=4 * epsilon, atol=max(least, epsilon * finite.max(initial=1e-300)))


def test_every_operation_has_a_row():
    assert set(OPS) == set(ROWS) | STRUCTURE


def test_operations_without_gradient_are_declared():
    assert {name for name, op in OPS.items() if op.vjp is None} == NOT_DIFFERENTIABLE


@every_op
@few
@given(data=st.data())
def test_infer_agrees_with_eval(name, data):
    row, op = ROWS[name], OPS[name]
    draw = data.draw(draws(row, dtypes_of(row)))
    arrays, attrs = row.make(draw)
    types = typed(draw, arrays)
    promised, got = op.infer(*types, **attrs), op.eval(*arrays, **attrs)
    pairs = zip(promised, got, strict=True) if isinstance(promised, tuple) else [(promised, got)]
    for t, value in pairs:
        assert (value.shape, value.dtype) == (t.shape, t.dtype.host)
    work = op.work(promised, *types, **attrs)
    assert isinstance(work, Work) and min(work.flops, work.bytes_read, work.bytes_written) >= 0


@every_op
@few
@given(data=st.data())
def test_eval_agrees_with_the_formula(name, data):
    row = ROWS[name]
    draw = data.draw(draws(row, dtypes_of(row)))
    arrays, attrs = row.make(draw)
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
    got, want = OPS[name].eval(*arrays, **attrs), row.formula(*wide, **attrs)
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    for g, w in pairs:
        assert_close(g, w, EPSILON.get(draw.dtype, 0))


COUNTED_IN_BITS = {"count_true", "extreme_grad"}
"""The front end adds up truth values in i1, where one and one are not two."""


@pytest.mark.parametrize("name", [n for n in sorted(ROWS) if OPS[n].composite or OPS[n].cirh.decomposition])
@pytest.mark.parametrize("lower", [lower_to_cirh, lower_to_host])
@few
@given(data=st.data())
def test_lowering_keeps_the_value(name, lower, data):
    if lower is lower_to_cirh and name in COUNTED_IN_BITS:
        return
    draw = data.draw(draws(ROWS[name], (dt.bool_ if ROWS[name].kinds == "b" else dt.float64,)))
    arrays, attrs = ROWS[name].make(draw)
    # CIRH knows no divisor of windows; the composite on the host does.
    assume(lower is lower_to_host or not attrs.get("divisor"))
    graph, outputs = built(name, draw, arrays, attrs)
    lowered = lower(graph)
    env = dict(zip(graph.inputs, arrays, strict=True))
    if lower is lower_to_cirh:
        assert all(is_settled(n.op, name) for n in lowered.nodes())
    for got, want in zip(evaluate(lowered.outputs, env), evaluate(outputs, env), strict=True):
        # What CIRH adds to one first, as in log1p, loses the digits that one has no place for.
        inexact = (INEXACT.get(name, 1e-12), 2**-52) if lower is lower_to_cirh else (1e-12,)
        assert_close(got, want, *inexact)


def is_settled(op: str, name: str) -> bool:
    """An operation that CIRH has, or `name` itself where its own hint says that it may be refused."""
    return (
        OPS[op].cirh.is_legal
        or OPS[op].is_leaf
        or (op == name and OPS[op].cirh.hint != DEFAULT_HINT)
        or op == "unsupported"
    )  # which stays, to be refused where the text is printed


def compiled_dtypes(row: Row) -> tuple[DType, ...]:
    return (*dtypes_of(row), *(HALVES if "f" in row.kinds else ()))


def compiled(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    fetched, _ = run_host(simplify(lower_to_host(graph)), [arrays], {})
    return fetched[0]


@every_op
def test_host_agrees_with_eval_in_every_type(name):
    row, inputs, outputs, arrays, epsilons = ROWS[name], [], [], [], []
    for dtype in compiled_dtypes(row):
        draw = Draw(fitted(row, [3, 19]), dtype, seed=1)
        operands, attrs = row.make(draw)
        graph, made = built(name, draw, operands, attrs, len(inputs))
        inputs += graph.inputs
        arrays += operands
        outputs += made
        epsilons += [EPSILON.get(dtype, 0)] * len(made)
    # One program has the operation in all types, so that it is compiled once.
    expected = evaluate(outputs, dict(zip(inputs, arrays, strict=True)))
    found = compiled(Graph(tuple(inputs), {}, tuple(outputs), {}), arrays)
    for got, want, epsilon in zip(found, expected, epsilons, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        assert_close(got, want, epsilon)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, 1e-3, 30.0, -30.0, 1e-42, 200.0])


@pytest.mark.parametrize("name", [n for n in sorted(ROWS) if ROWS[n].special])
def test_host_agrees_with_eval_on_special_values(name):
    attrs = ROWS[name].make(Draw((1,), dt.float32, 0))[1]
    count = len(ROWS[name].make(Draw((1,), dt.float32, 0))[0])
    arrays = [a.ravel().astype(np.float32) for a in np.meshgrid(*[SPECIAL] * count)]
    graph, outputs = built(name, Draw((), dt.float32, 0), arrays, attrs)
    (got,), (want,) = compiled(graph, arrays), evaluate(outputs, dict(zip(graph.inputs, arrays, strict=True)))
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2e-6, atol=1e-37)


# -- gradients -------------------------------------------------------------------------------------------------------

STEP = 1e-5


def values_of(nodes: list[Node], env: dict[Node, np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(v, np.float64) for v in evaluate(nodes, env)]


def assert_inner_products_agree(outputs: list[Node], xs: list[Node], env: dict, rng: np.random.Generator) -> list:
    """<v, J u> by central differences equals <J^T v, u> by vjp. Returns the seeds and the gradients."""
    directions = {x: rng.uniform(-1, 1, x.type.shape) for x in xs}
    seeds = [leaf(rng.uniform(-1, 1, y.type.shape), y.type, tracks=True) for y in outputs]
    ahead, behind = (
        values_of(outputs, env | {x: np.asarray(env[x] + s * directions[x]) for x in xs}) for s in (STEP, -STEP)
    )
    measured = sum(np.vdot(v.value, (a - b) / (2 * STEP)) for v, a, b in zip(seeds, ahead, behind, strict=True))
    found = gradient_graph.grad(outputs, seeds, xs)
    pairs = [(x, g) for x, g in zip(xs, found, strict=True) if g is not None]
    assert all(g.type == x.type for x, g in pairs)
    derived = sum(
        np.vdot(g, directions[x]) for (x, _), g in zip(pairs, values_of([g for _, g in pairs], env), strict=True)
    )
    assert derived == pytest.approx(measured, rel=1e-4, abs=1e-6)  # a wrong rule is off by far more
    return [g for _, g in pairs]


# Some of its operands are values of the others, and cannot be moved alone: it is the second order of `recurrent` here.
DEPENDENT = {"recurrent_grad"}
UNEVEN = {"extreme_grad", "causal_scores"}
"""One has values where two of its operands are equal, the other has elements that are infinite."""

BY_SCORES = {"ctc_loss", "ctc_loss_grad"}
"""PyTorch's gradient is that by the scores before log_softmax, and has no gradient."""


@pytest.mark.parametrize("name", sorted(set(ROWS) - NOT_DIFFERENTIABLE - DEPENDENT - UNEVEN - BY_SCORES))
@few
@given(data=st.data())
def test_gradient_is_the_derivative_to_second_order(name, data):
    draw = data.draw(draws(ROWS[name], (dt.float64,)))
    arrays, attrs = ROWS[name].make(draw)
    attrs |= {"dtype": dt.float64} if "dtype" in attrs else {}  # other conversions are no smooth functions
    nodes = [leaf(a, t, tracks=t.dtype is dt.float64) for a, t in zip(arrays, typed(draw, arrays), strict=True)]
    for n in nodes:
        n.value = None  # its value comes from the environment, where it is moved
    env = dict(zip(nodes, arrays, strict=True))
    xs = [n for n in nodes if n.tracks]
    first = assert_inner_products_agree(results(call(name, *nodes, **attrs)), xs, env, draw.rng)
    again = [g for g in first if g.tracks]
    if again:
        assert_inner_products_agree(again, xs, env, draw.rng)


# -- views -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in sorted(OPS) if OPS[n].put])
@few
@given(data=st.data())
def test_put_is_a_lens(name, data):
    draw = data.draw(draws(ROWS[name], (dt.float64,)))
    (base,), attrs = ROWS[name].make(draw)
    t = Type(base.shape, dt.float64)
    b = leaf(base, t)
    seen = call(name, b, **attrs)
    v, w = (leaf(draw.values(seen.type.shape), seen.type) for _ in "vw")
    put = OPS[name].put
    once = put(b, v, **attrs)
    same = [(call(name, once, **attrs), v), (put(b, seen, **attrs), b), (put(once, w, **attrs), put(b, w, **attrs))]
    for left, right in same:
        np.testing.assert_array_equal(*evaluate([left, right], {}))


# -- rules -----------------------------------------------------------------------------------------------------------


def _x(*shape: int, dtype: DType = dt.float32) -> Node:
    return batch(0, Type(shape, dtype))


def _swap(x: Node) -> Node:
    return call("transpose", x, permutation=(1, 0))


SMALL = _x(3, 4)
EXAMPLES = {
    "x * 1 = x": call("mul", SMALL, full(1, SMALL.type)),
    "1 * x = x": call("mul", full(1, SMALL.type), SMALL),
    "x / 1 = x": call("div", SMALL, full(1, SMALL.type)),
    "x - 0 = x": call("sub", SMALL, full(0, SMALL.type)),
    "transpose(transpose(x))": call(
        "transpose", call("transpose", _x(2, 3, 2), permutation=(2, 0, 1)), permutation=(0, 2, 1)
    ),
    "reshape(reduce(x, keepdim))": call(
        "reshape", call("reduce", SMALL, kind="add", dims=(1,), keepdim=True), shape=(3,)
    ),
    "reshape(arg_reduce(x, keepdim))": call(
        "reshape", call("arg_reduce", SMALL, kind="max", dim=1, keepdim=True), shape=(3,)
    ),
    "reshape there and back": call("reshape", call("reshape", SMALL, shape=(12,)), shape=(3, 4)),
    "transpose of a stack of products": call(
        "transpose",
        call("matmul", _x(2, 3, 4), _x(2, 4, 3), transpose_a=False, transpose_b=False),
        permutation=(0, 2, 1),
    ),
    "broadcast of one value": call("broadcast_in_dim", full(2, Type((4,), dt.float32)), shape=(3, 4), dims=(1,)),
    "broadcast of a constant": call(
        "broadcast_in_dim", const(np.arange(4), Type((4,), dt.float32)), shape=(3, 4), dims=(1,)
    ),
    "quotient of one value": call("div", full(1, SMALL.type), full(12, SMALL.type)),
    "product of one value": call("mul", full(0.1, SMALL.type), full(3, SMALL.type)),
    "reshape to the same shape": call("reshape", SMALL, shape=(3, 4)),
    "cast to the same type": call("cast", SMALL, dtype=dt.float32),
    "cast(transpose(x))": call("cast", _swap(SMALL), dtype=dt.bfloat16),
    "product of a transpose, left": call("matmul", _swap(SMALL), SMALL, transpose_a=True, transpose_b=True),
    "product of a transpose, right": call("matmul", SMALL, _swap(SMALL), transpose_a=False, transpose_b=False),
}


def test_every_rule_has_an_example():
    assert {rule.name for rule in RULES.rules} == set(EXAMPLES)


def assert_same_bits(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(want)]))


@pytest.mark.parametrize("name", sorted(EXAMPLES))
@few
@given(seeds)
def test_rule_keeps_every_bit(name, seed):
    root = EXAMPLES[name]
    graph, fired = Graph((), {}, (root,), {}), []
    after = RULES.rewrite(graph, lambda rule, before, made: fired.append(rule.name)).outputs
    leaves = [n for n in graph.nodes() if n.op == "batch"]
    rng = np.random.default_rng(seed)
    env = {n: rng.choice(SPECIAL, n.type.shape).astype(np.float32) for n in leaves}
    assert name in fired
    assert_same_bits(*evaluate([*after, root], env))


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_what_a_rule_makes_stands_where_the_operation_stood(name):
    graph = Graph((), {}, (EXAMPLES[name],), {})
    # A constant may be one that somebody else has.
    made = [n for n in simplify(graph).nodes() if n.inputs]
    assert {n.where for n in made} <= {n.where for n in graph.nodes()}


def test_subtracting_negative_zero_is_kept():
    root = call("sub", SMALL, full(-0.0, SMALL.type))
    assert simplify(Graph((), {}, (root,), {})).outputs == (root,)


@settings(max_examples=60, deadline=None)
@given(graphs(smooth=True), seeds)
def test_simplify_keeps_values(graph, seed):
    arrays, state = values_for(graph, seed, smooth=True)
    env = dict(zip(graph.inputs, arrays, strict=True)) | {graph.state[s]: a for s, a in state.items()}
    for got, want in zip(evaluate(simplify(graph).roots(), env), evaluate(graph.roots(), env), strict=True):
        assert_same_bits(got, want)
