"""Rules of the lowering that look at several operations: the value stays, whatever is taken of an order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.compiler.lower import lower_to_cirh, lower_to_host
from lazytensor.core.dtype import float32
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call, full
from lazytensor.ops.shape import slice_
from lazytensor.runtime.reference import evaluate
from lazytensor.testing import batch

ROWS, COLUMNS = 3, 5
DISTINCT = np.random.default_rng(0).permutation(ROWS * COLUMNS).reshape(ROWS, COLUMNS).astype(np.float32)


def assert_kept(x, *roots):
    """The outputs are the same before and after."""
    graph = Graph((x,), {}, roots, {})
    before, after = (evaluate(g.outputs, {x: DISTINCT}) for g in (graph, lower_to_cirh(graph)))
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@st.composite
def parts(draw):
    """Starts and limits of a slice."""
    pairs = [sorted(draw(st.sets(st.integers(0, n), min_size=2, max_size=2))) for n in (ROWS, COLUMNS)]
    return tuple(zip(*pairs, strict=True))


@given(st.sampled_from([0, 1]), st.booleans(), parts())
def test_a_slice_of_an_order_keeps_its_places_and_values(dim, descending, part):
    x = batch(0, Type((ROWS, COLUMNS), float32))
    places = call("argsort", x, dim=dim, descending=descending)
    values = call("gather", x, places, dim=dim)
    assert_kept(x, slice_(places, *part), slice_(values, *part))


@given(st.sampled_from([0, 1]), st.sampled_from(["max", "min"]))
def test_what_is_gathered_at_the_extremes_is_the_extreme(dim, kind):
    x = batch(0, Type((ROWS, COLUMNS), float32))
    place = call("arg_reduce", x, kind=kind, dim=dim, keepdim=True)
    assert_kept(x, call("gather", x, place, dim=dim))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=2, max_size=4), st.integers(0, 1))
def test_parts_among_zeros_add_up(spans, dim):
    x = [batch(k, Type((n, 3) if dim == 0 else (3, n), float32)) for k, (_, n) in enumerate(spans)]
    shape = (9, 3) if dim == 0 else (3, 9)
    zeros, total = full(0, Type(shape, float32)), None
    for value, (start, n) in zip(x, spans, strict=True):
        starts, limits = [0, 0], list(shape)
        starts[dim], limits[dim] = start, start + n
        part = call("slice_update", zeros, value, starts=tuple(starts), limits=tuple(limits), strides=(1, 1))
        total = part if total is None else total + part
    graph = Graph(tuple(x), {}, (total,), {})
    given_values = {n: np.arange(1, n.type.size + 1, dtype="f4").reshape(n.type.shape) for n in x}
    lowered = lower_to_host(graph)
    np.testing.assert_array_equal(*(evaluate(g.roots(), given_values)[0] for g in (graph, lowered)))


def test_gradients_of_what_was_split_are_joined_in_one_go():
    x = batch(0, Type((4, 6), float32))
    zeros = full(0, x.type)
    parts = [
        call(
            "slice_update", zeros, slice_(x, (0, k), (4, k + 2)) * 2.0, starts=(0, k), limits=(4, k + 2), strides=(1, 1)
        )
        for k in (4, 0, 2)
    ]
    (joined,) = lower_to_host(Graph((x,), {}, (parts[0] + parts[1] + parts[2],), {})).roots()
    assert joined.op == "concat"
    # What meets is added.
    (sum_,) = lower_to_host(Graph((x,), {}, (parts[0] + parts[0],), {})).roots()
    assert sum_.op == "add"
