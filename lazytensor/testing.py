"""Hypothesis strategies for tests of compiler passes and backends: shapes, graphs, and arrays for their inputs.

A property of a pass is tested with `@given(graphs())` and `values_for(graph, seed)`. Unless `smooth` is set, all values
are small integers, so that every correct execution gives the same bits. Needs the extra `testing`.
"""

import math

import numpy as np

from lazytensor.core.dtype import DType, bool_, float32, int32, int64
from lazytensor.ir.graph import Graph, Node, node
from lazytensor.ir.types import Type
from lazytensor.ops import call, full
from lazytensor.ops.products import matmul
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import broadcast_to, reshape, slice_, transpose

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as e:
    hint = "pip install 'lazywafer[testing]'"
    raise ModuleNotFoundError(f"lazytensor.testing needs Hypothesis. Install it with {hint}", name="hypothesis") from e

EXTENTS = (1, 2, 3, 4, 6, 19)
"""Dimensions of generated shapes: 1, composite numbers, and one that is longer than a vector register."""
MAX_ELEMENTS = 800
"""Maximum number of elements of a value."""


def shapes(max_rank: int = 3) -> st.SearchStrategy[tuple[int, ...]]:
    """Return a strategy for shapes of at most `max_rank` dimensions from `EXTENTS`."""
    return st.lists(st.sampled_from(EXTENTS), max_size=max_rank).map(tuple)


def batch(index: int, type: Type) -> Node:
    """Return the node of input number `index` of a step."""
    attrs = {"index": index, "name": f"x{index}", "type": type}
    return node("batch", (), attrs, type)


def state(name: str, type: Type) -> Node:
    """Return the node of a state tensor."""
    return node("state", (), {"id": name, "type": type}, type)


def _clamp_small(x: Node) -> Node:
    """Clamp x to the range from -8 to 8, so that sums and products of integers are exact in any order and any float
    type.
    """
    return call("clamp", x, full(-8, x.type), full(8, x.type))


def _draw_pair(draw: st.DrawFn, pool: list[Node]) -> tuple[Node, Node]:
    """Draw two values of the same type, which may be the same value."""
    a = draw(st.sampled_from(pool))
    others = [n for n in pool if n.type == a.type]
    return a, draw(st.sampled_from(others))


def _draw_pointwise(draw: st.DrawFn, pool: list[Node], smooth: bool) -> Node:
    """Draw a pointwise operation of values in `pool`, with results in the range of the strategy."""
    a, b = _draw_pair(draw, pool)
    if smooth:
        name = draw(
            st.sampled_from(("add", "sub", "mul", "tanh", "sigmoid", "sin", "relu", "exp", "erf", "gelu", "log1p"))
        )
        if name in ("add", "sub"):
            return call(name, a, b)
        if name == "mul":
            return call("tanh", call("mul", a, b))
        if name == "exp":
            return call("exp", call("tanh", a))
        if name == "log1p":
            return call("log1p", call("sigmoid", a))
        return call("gelu", a, approximate=draw(st.sampled_from(("none", "tanh")))) if name == "gelu" else call(name, a)
    name = draw(
        st.sampled_from(("add", "sub", "mul", "maximum", "minimum", "neg", "abs", "relu", "sign", "where", "int"))
    )
    if name in ("neg", "abs", "relu", "sign"):
        return call(name, a)
    if name == "where":
        compared = call(draw(st.sampled_from(("gt", "ge", "lt", "le", "eq", "ne"))), a, b)
        return call("where", compared, a, call("neg", b))
    if name == "int":
        whole = call("cast", a, dtype=draw(st.sampled_from((int32, int64))))
        return (
            call("cast", call("add", whole, call("abs", whole)), dtype=a.type.dtype)
            if a is b
            else call("cast", call("cast", a, dtype=bool_), dtype=a.type.dtype)
        )
    return _clamp_small(call(name, a, b))


def _draw_reshape(draw: st.DrawFn, x: Node) -> Node:
    """Draw a reshape of x: flatten, add a dimension of 1, split, or merge dimensions."""
    wide = [e for e in x.type.shape if e != 1]
    choice = draw(st.integers(0, 3))
    if choice == 0 or not wide:
        return reshape(x, (x.type.size,))
    if choice == 1:
        return reshape(x, (1, *wide))
    if choice == 2:
        split = draw(st.sampled_from([d for d in range(1, x.type.size + 1) if x.type.size % d == 0]))
        return reshape(x, (split, x.type.size // split))
    return reshape(x, (math.prod(wide[:-1]), wide[-1]))


def _draw_rearrangement(draw: st.DrawFn, x: Node) -> Node:
    """Draw a reshape, transpose, slice or broadcast of x."""
    shape = x.type.shape
    name = draw(st.sampled_from(("reshape", "transpose", "slice", "broadcast")))
    if name == "reshape":
        return _draw_reshape(draw, x)
    if name == "transpose":
        return transpose(x, tuple(draw(st.permutations(range(len(shape))))))
    if name == "slice":
        starts = tuple(draw(st.integers(0, e - 1)) for e in shape)
        limits = tuple(draw(st.integers(s + 1, e)) for s, e in zip(starts, shape, strict=True))
        return slice_(x, starts, limits, tuple(draw(st.integers(1, 2)) for _ in shape))
    front = draw(st.lists(st.sampled_from((1, 2, 5)), max_size=2))
    grown = tuple(draw(st.sampled_from((1, 3))) if e == 1 else e for e in shape)
    if math.prod(front) * math.prod(grown) > MAX_ELEMENTS:
        return x
    return broadcast_to(x, (*front, *grown))


def _draw_reduction(draw: st.DrawFn, x: Node, smooth: bool) -> Node:
    """Draw a reduction of x over some dimensions; x itself if it has none."""
    dims = tuple(sorted(draw(st.sets(st.integers(0, len(x.type.shape) - 1), min_size=1)))) if x.type.shape else ()
    if not dims:
        return x
    kind = draw(st.sampled_from(("add", "maximum", "minimum")))
    total = reduce(x, kind, dims, draw(st.booleans()))
    return call("tanh", total) if smooth else _clamp_small(total)


def _draw_concatenation(draw: st.DrawFn, pool: list[Node]) -> Node:
    """Draw a concatenation or slice update of two values; one of them unchanged if the result would be too large."""
    a, b = _draw_pair(draw, pool)
    if not a.type.shape or 2 * a.type.size > MAX_ELEMENTS:
        return a
    if draw(st.booleans()):
        return call("concat", a, b, dim=draw(st.integers(0, len(a.type.shape) - 1)))
    strides = (1,) * len(a.type.shape)
    starts = tuple(draw(st.integers(0, e - 1)) for e in a.type.shape)
    part = slice_(b, starts, a.type.shape)
    return call("slice_update", a, part, starts=starts, limits=a.type.shape, strides=strides)


def _draw_product(draw: st.DrawFn, pool: list[Node], smooth: bool) -> Node:
    """Draw a matrix product of two values with matching dimensions; a value unchanged if there is none."""
    a = draw(st.sampled_from(pool))
    if len(a.type.shape) != 2:
        return a
    b = draw(st.sampled_from([n for n in pool if len(n.type.shape) == 2]))
    for ta in (False, True):
        for tb in (False, True):
            if a.type.shape[0 if ta else 1] == b.type.shape[1 if tb else 0]:
                product = matmul(a, b, ta, tb)
                return call("tanh", product) if smooth else _clamp_small(product)
    return a


def _draw_node(draw: st.DrawFn, pool: list[Node], smooth: bool) -> Node:
    """Draw an operation of any kind, or a constant."""
    kind = draw(st.sampled_from(("pointwise",) * 5 + ("move",) * 3 + ("reduce", "matmul", "join", "constant")))
    if kind == "pointwise":
        return _draw_pointwise(draw, pool, smooth)
    if kind == "move":
        return _draw_rearrangement(draw, draw(st.sampled_from(pool)))
    if kind == "reduce":
        return _draw_reduction(draw, draw(st.sampled_from(pool)), smooth)
    if kind == "matmul":
        return _draw_product(draw, pool, smooth)
    if kind == "join":
        return _draw_concatenation(draw, pool)
    like = draw(st.sampled_from(pool)).type
    if draw(st.booleans()):
        return full(draw(st.integers(-3, 3)), like)
    ramp = call("arange", start=-2, step=1, type=Type((like.size,), like.dtype))
    return _clamp_small(reshape(ramp, like.shape))


@st.composite
def graphs(draw: st.DrawFn, dtype: DType = float32, smooth: bool = False, max_nodes: int = 14) -> Graph:
    """Generate random graphs of pointwise, reduction, matrix product and shape operations, with state.

    Unless `smooth` is set, all values are small integers, so any correct execution gives the same bits. With `smooth`,
    operations are continuous, including transcendental ones, and results agree up to rounding.
    """
    kinds = draw(st.lists(shapes(), min_size=1, max_size=3))
    inputs = tuple(batch(k, Type(s, dtype)) for k, s in enumerate(kinds))
    states = {
        f"s{k}": state(f"s{k}", Type(draw(st.sampled_from(kinds)), dtype)) for k in range(draw(st.integers(0, 3)))
    }
    pool = [*inputs, *states.values()]
    for _ in range(draw(st.integers(1, max_nodes))):
        pool.append(_draw_node(draw, pool, smooth))
    updates = {}
    for name, leaf in states.items():
        fitting = [n for n in pool if n.type == leaf.type]
        updates[name] = draw(st.sampled_from(fitting[::-1]))
    outputs = tuple(draw(st.lists(st.sampled_from(pool[::-1]), min_size=1, max_size=3)))
    return Graph(inputs, states, outputs, updates)


def values_for(graph: Graph, seed: int, smooth: bool = False) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Return random arrays for the inputs of a graph, and for its state by name.

    The values are integers from -4 to 4; with `smooth`, multiples of 1/4 from -1 to 1.
    """
    rng = np.random.default_rng(seed)

    def array(type: Type) -> np.ndarray:
        whole = rng.integers(-4, 5, type.shape)
        return np.asarray(whole / (4 if smooth else 1), type.dtype.host)

    return [array(n.type) for n in graph.inputs], {k: array(n.type) for k, n in graph.state.items()}
