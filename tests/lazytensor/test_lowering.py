"""Rules of the lowering that look at several operations: the value stays, whatever is taken of an order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.compiler.lower import lower_to_cirh
from lazytensor.dtype import float32
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call
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
