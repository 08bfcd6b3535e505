"""Plans: order, donation, reuse of memory. Donation is a proof, so each test also runs the program."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor import config
from lazytensor.compiler.arena import lay_out_buffers
from lazytensor.compiler.pipeline import compile_graph
from lazytensor.core.dtype import float32
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type, Where
from lazytensor.ops import call, full_like
from lazytensor.ops.products import matmul
from lazytensor.ops.shape import reshape, transpose
from lazytensor.testing import batch, graphs, state, values_for
from tests.lazytensor.oracles import assert_same, run_host, run_reference

SQUARE = Type((8, 8), float32)


def agree(graph: Graph, steps: int = 3) -> None:
    batches = [values_for(graph, k)[0] for k in range(steps)]
    _, start = values_for(graph, 9)
    with config.override(jit=False, check=True):
        assert_same(run_host(graph, batches, start), run_reference(graph, batches, start))


def in_place(graph: Graph) -> dict[str, bool]:
    return {s: old == new for s, (old, new) in compile_graph(graph).state.items()}


def test_elementwise_update_overwrites_its_state():
    p, g = state("p", SQUARE), batch(0, SQUARE)
    graph = Graph((g,), {"p": p}, (), {"p": call("sub", p, g)})
    assert in_place(graph) == {"p": True}
    agree(graph)


def test_an_update_waits_for_other_readers_whatever_the_order_of_the_roots():
    p, g = state("p", SQUARE), batch(0, SQUARE)
    product = matmul(g, p)
    for outputs in ((product,), (call("neg", product),)):
        graph = Graph((g,), {"p": p}, outputs, {"p": call("sub", p, g)})
        assert in_place(graph) == {"p": True}
        agree(graph)


def test_an_update_that_reads_elsewhere_is_copied_at_the_end():
    p = state("p", SQUARE)
    graph = Graph((), {"p": p}, (), {"p": call("sub", p, transpose(p, (1, 0)))})
    assert in_place(graph) == {"p": False}
    agree(graph)


def test_a_product_may_land_in_state_that_it_does_not_read():
    p, g = state("p", SQUARE), batch(0, SQUARE)
    assert in_place(Graph((g,), {"p": p}, (), {"p": matmul(g, g)})) == {"p": True}
    reading = Graph((g,), {"p": p}, (), {"p": matmul(g, p)})
    assert in_place(reading) == {"p": False}
    agree(reading)


def test_swapped_and_rotated_states_are_exchanged_at_once():
    a, b, c = (state(n, SQUARE) for n in "abc")
    agree(Graph((), {"a": a, "b": b}, (a,), {"a": b, "b": a}))
    agree(Graph((), {"a": a, "b": b, "c": c}, (), {"a": b, "b": c, "c": call("neg", a)}))


def test_state_fetched_from_before_the_step_keeps_its_old_value():
    p = state("p", SQUARE)
    agree(Graph((), {"p": p}, (p, reshape(p, (64,))), {"p": call("add", p, full_like(1, p))}))


def test_two_states_with_one_new_value():
    a, b = state("a", SQUARE), state("b", SQUARE)
    new = call("add", a, b)
    agree(Graph((), {"a": a, "b": b}, (call("neg", new),), {"a": new, "b": new}))


def test_new_state_that_is_read_later_is_not_overwritten_by_a_chain():
    """A value that could not be donated is copied at the end, so nothing may take over its buffer before."""
    a, b, x = state("a", SQUARE), state("b", SQUARE), batch(0, SQUARE)
    new = call("slice_update", x, x, starts=(0, 0), limits=(8, 8), strides=(1, 1))
    agree(Graph((x,), {"a": a, "b": b}, (call("abs", call("add", x, new)),), {"a": b, "b": new}))


def test_a_chain_on_a_product_runs_in_its_buffer():
    x, w = batch(0, SQUARE), batch(1, SQUARE)
    y = call("relu", call("add", matmul(x, w), full_like(1, x)))
    program = compile_graph(Graph((x, w), {}, (y,), {}))
    product, chain = program.instrs
    assert product.writes == chain.writes == chain.reads


def test_directions_follow_scope_and_use():
    p, x = state("p", SQUARE), batch(0, SQUARE)
    y = call("exp", matmul(x, p))
    back = matmul(x, y, True, False)
    back.where = Where("train.py", 3, "model.fc1.bwd")
    graph = Graph((x,), {"p": p}, (call("abs", y),), {"p": call("sub", p, back)})
    kinds = {i.label: i.direction for i in compile_graph(graph).instrs}
    assert kinds["model.fc1.bwd/matmul"] == "backward"
    assert kinds["sub"] == "update"
    assert set(kinds.values()) == {"forward", "backward", "update"}


@settings(max_examples=40, deadline=None)
@given(graphs(max_nodes=30), st.integers(0, 3))
def test_donation_and_reuse_never_change_results(graph, seed):
    batches = [values_for(graph, seed + k)[0] for k in range(3)]
    _, start = values_for(graph, seed)
    with config.override(jit=False, check=True):
        assert_same(run_host(graph, batches, start), run_reference(graph, batches, start))


@settings(max_examples=40, deadline=None)
@given(graphs(max_nodes=30))
def test_buffers_that_live_together_do_not_overlap(graph):
    program = compile_graph(graph)
    arena = lay_out_buffers(program)
    life: dict[int, list[int]] = {}
    for time, instr in enumerate(program.instrs):
        for b in (*instr.reads, *instr.writes):
            life.setdefault(arena.views.get(b, b), []).append(time)
    for b in (*program.fetches, *(new for _, new in program.state.values())):
        life.setdefault(arena.views.get(b, b), []).append(len(program.instrs))
    placed = [(b, at, program.buffers[b].type.size * 4) for b, at in arena.offsets.items()]
    for k, (b, at, size) in enumerate(placed):
        assert at % 64 == 0 and at + size <= arena.size_bytes
        for c, other, length in placed[:k]:
            meets = max(life[b][0], life[c][0]) <= min(life[b][-1], life[c][-1])
            assert not meets or at + size <= other or other + length <= at


def test_a_chain_of_products_needs_two_buffers():
    x = batch(0, Type((64, 64), float32))
    y = x
    for _ in range(10):
        y = matmul(y, x)
    assert lay_out_buffers(compile_graph(Graph((x,), {}, (y,), {}))).size_bytes == 2 * 64 * 64 * 4


def test_every_work_is_counted():
    x, w = batch(0, Type((4, 8), float32)), batch(1, Type((8, 2), float32))
    y = call("add", matmul(x, w), full_like(1, matmul(x, w)))
    program = compile_graph(Graph((x, w), {}, (y,), {}))
    assert program.work.flops == 2 * 4 * 8 * 2 + 8
    assert program.work.bytes_written == 2 * 4 * 2 * 4
    assert np.all([i.work.flops > 0 for i in program.instrs])
