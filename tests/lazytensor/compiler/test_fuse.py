"""Fusion: what shares a nest, what does not, and that every grouping keeps the meaning of the graph."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor import config
from lazytensor.compiler.fuse import fuse
from lazytensor.compiler.match import match
from lazytensor.compiler.pipeline import PASSES, UNLOWERED, Target
from lazytensor.core.dtype import bfloat16, cbfloat16, float16, float32, float64
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call, full_like
from lazytensor.ops.products import matmul
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import broadcast_to, reshape, slice_, transpose
from lazytensor.testing import batch, graphs, state, values_for
from tests.lazytensor.oracles import assert_same, run_host, run_reference

WIDE = Type((64, 32), float32)
IN_LAYERS = Target("in layers", tuple(PASSES[name] for name in ("match", "fuse_layers", "plan", "bind")))


def calls_of(*outputs, updates=None, states=None, **options):
    graph = Graph((), states or {}, outputs, updates or {})
    return fuse(graph, match(graph), **options)


def nests(calls):
    return [c.nest for c in calls if c.nest is not None]


def test_a_chain_is_one_nest_with_literals_and_without_buffers():
    x = batch(0, WIDE)
    y = call("tanh", call("add", call("mul", x, full_like(1.5, x)), full_like(0.25, x)))
    (nest,) = nests(calls_of(y))
    assert [s.op for s in nest.body] == ["load", "const", "mul", "const", "add", "tanh"]
    assert len(nest.inputs) == 1 and len(nest.stores) == 1


def test_momentum_update_is_one_nest_that_writes_both():
    p, buf, g = state("p", WIDE), state("buf", WIDE), batch(0, WIDE)
    new_buf = call("add", call("mul", full_like(0.9, buf), buf), g)
    new_p = call("sub", p, call("mul", full_like(0.1, new_buf), new_buf))
    (nest,) = nests(calls_of(updates={"p": new_p, "buf": new_buf}, states={"p": p, "buf": buf}))
    assert len(nest.stores) == 2 and len(nest.inputs) == 3
    assert [s.op for s in nest.body].count("add") == 1


def test_a_result_is_not_computed_in_the_shorter_loops_of_its_beginning():
    x = batch(0, Type((8,), float32))
    whole = call("neg", x)
    graph = Graph((x,), {}, (whole, slice_(whole, (0,), (4,))), {})
    arrays = [[np.arange(8, dtype=np.float32)]]
    assert_same(run_host(graph, arrays, {}), run_reference(graph, arrays, {}))


def test_bias_and_relu_join_after_the_product():
    x, w, b = batch(0, Type((8, 4), float32)), batch(1, Type((16, 4), float32)), batch(2, Type((16,), float32))
    z = matmul(x, w, False, True)
    y = call("relu", call("add", broadcast_to(b, z.type.shape), z))
    calls = calls_of(y)
    assert sorted(c.kernel for c in calls) == ["matmul", "nest"]


def test_a_mask_and_the_sum_of_its_columns_share_a_nest():
    g, h, w = batch(0, WIDE), batch(1, WIDE), batch(2, Type((32, 5), float32))
    masked = call("where", call("gt", h, full_like(0, h)), g, full_like(0, g))
    calls = calls_of(matmul(masked, w), reduce(masked, "add", (0,)))
    (nest,) = nests(calls)
    assert [s.reduce for s in nest.stores] in (["", "add"], ["add", ""])


def test_an_expensive_value_is_not_computed_again_for_each_element_of_a_broadcast():
    row = batch(0, Type((32,), float32))
    x = batch(1, WIDE)
    y = call("mul", x, broadcast_to(call("exp", row), WIDE.shape))
    made = nests(calls_of(y))
    assert len(made) == 2 and [s.op for n in made for s in n.body].count("exp") == 1


def test_an_expensive_value_with_two_users_apart_is_computed_once():
    x, w = batch(0, Type((8, 8), float32)), batch(1, Type((8, 8), float32))
    e = call("exp", x)
    y = call("add", matmul(e, w), e)
    made = nests(calls_of(y))
    assert [s.op for n in made for s in n.body].count("exp") == 1


def test_a_merge_never_closes_a_cycle_through_a_kernel():
    x, w = batch(0, Type((8, 8), float32)), batch(1, Type((8, 8), float32))
    e = call("exp", x)
    total = call("add", matmul(e, w), e)
    assert len(nests(calls_of(total, e))) == 2


def test_two_towers_that_share_a_mask_share_a_nest_unless_layers_are_kept():
    """On a wafer each tower lies in layers of its own, and would wait for the other one."""
    x, w, u, m = (batch(n, Type((8, 8), float32)) for n in range(4))
    mask = call("mul", full_like(-1e4, m), call("sub", full_like(1.0, m), m))
    towers = [call("exp", call("add", matmul(x, weight), mask)) for weight in (w, u)]
    assert len(nests(calls_of(*towers))) == 1
    kept = [call.nest for call in calls_of(*towers, keeps_layers=True) if call.nest]
    assert len(kept) == 2
    # What reads one product in two ways still does so once.
    both = (call("exp", towers[0]), call("neg", matmul(x, w)))
    assert len(nests(calls_of(*both, keeps_layers=True))) == len(nests(calls_of(*both))) == 1


def test_views_are_strides_and_reshapes_are_free():
    x = batch(0, Type((4, 6), float32))
    y = call("neg", slice_(transpose(x, (1, 0)), (1, 0), (5, 4), (2, 1)))
    (nest,) = nests(calls_of(y))
    assert nest.reads[0].strides == (2, 6) and nest.reads[0].offset == 1
    flat = call("neg", reshape(call("abs", x), (24,)))
    assert len(nests(calls_of(flat))) == 1


def test_a_reshape_that_splits_inside_a_transpose_still_works():
    x = batch(0, Type((2, 3, 4), float32))
    y = call("neg", reshape(transpose(reshape(call("exp", x), (6, 4)), (1, 0)), (2, 12)))
    graph = Graph((x,), {}, (y,), {})
    arrays, _ = values_for(graph, 1, smooth=True)
    with config.override(jit=False, check=True):
        assert_same(run_host(graph, [arrays], {}), run_reference(graph, [arrays], {}))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from((UNLOWERED, IN_LAYERS)))
def test_compiled_programs_equal_the_reference(data, target):
    dtype = data.draw(st.sampled_from((float32, float32, float64, float16, bfloat16, cbfloat16)))
    graph = data.draw(graphs(dtype, max_nodes=30))
    first, start = values_for(graph, 1)
    second, _ = values_for(graph, 2)
    batches = [first, second, first]
    with config.override(jit=False, check=True):
        assert_same(run_host(graph, batches, start, target), run_reference(graph, batches, start))


def test_a_part_that_a_write_needs_is_no_part_of_the_nest_behind_the_write():
    x = batch(0, Type((1,), float32))
    y = call("clamp", x + x, full_like(-8.0, x), full_like(8.0, x))
    written = call("slice_update", x, slice_(x, (0,), (1,)), starts=(0,), limits=(1,), strides=(1,))
    z = call("clamp", y + written, full_like(-8.0, x), full_like(8.0, x))
    graph = Graph((x,), {}, (y, z), {})
    arrays, start = values_for(graph, 0)
    assert_same(run_host(graph, [arrays], start), run_reference(graph, [arrays], start))
