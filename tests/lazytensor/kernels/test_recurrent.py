"""Recurrent layers as one operation: the unrolled ones' numbers, kernels for any shape, programs that stay short."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import config, nn
from lazytensor.autograd.function import grad
from lazytensor.compiler.codegen import distinct_slots, generate
from lazytensor.compiler.lower import lower_to_cirh
from lazytensor.compiler.pipeline import HOST, Compilation
from lazytensor.core.dtype import float32
from lazytensor.ir.graph import Graph
from lazytensor.ir.nest import rebase_to_first_elements
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from lazytensor.kernels import recurrent
from lazytensor.kernels.routines import routine_of
from lazytensor.nn import rnn
from lazytensor.ops import OPS, call
from lazytensor.ops.recurrent_cells import CELLS
from lazytensor.runtime import jit, schedule
from lazytensor.testing import batch

MODES = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN_TANH": nn.RNN, "RNN_RELU": lambda *a, **k: nn.RNN(*a, "relu", **k)}
modes = pytest.mark.parametrize("mode", MODES)


def unrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rnn, "_is_one_operation", lambda gates: False)


def answers(mode: str, shape, dtype, seed: int, again: bool, **options) -> list[np.ndarray]:
    """Outputs, last states, and the gradients of a projection of both; with `again` those of their squares too."""
    times, size, inner, hidden = shape
    lt.manual_seed(seed % 1000)
    net = MODES[mode](inner, hidden, 2, **options).to(dtype)
    rng = np.random.default_rng(seed)
    ways = 2 if options["bidirectional"] else 1
    shapes = [(times, size, inner), *[(2 * ways, size, hidden)] * CELLS[mode].parts]
    x, *start = (lt.tensor(rng.standard_normal(s), dtype=dtype).requires_grad_() for s in shapes)
    x_in = x.transpose(0, 1) if options["batch_first"] else x
    out, last = net(x_in, tuple(start) if mode == "LSTM" else start[0])
    results = [out, *(last if mode == "LSTM" else [last])]
    loss = sum((y * lt.tensor(rng.standard_normal(y.shape), dtype=dtype)).sum() for y in results)
    leaves = [x, *start, *net.parameters()]
    gradients = grad(loss, leaves, create_graph=again)
    if again:
        squares = sum((g * g).sum() for g in gradients)
        # A rectifier's gradient does not depend on all of them: none is zero.
        second = grad(squares, leaves, allow_unused=True)
        results += [lt.zeros_like(x) if g is None else g for g, x in zip(second, leaves, strict=True)]
    return [v.detach().numpy() for v in (*results, *gradients)]


@modes
@settings(max_examples=4, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4)),
    is_wide=st.booleans(),
    options=st.fixed_dictionaries({k: st.booleans() for k in ("bias", "bidirectional", "batch_first")}),
    seed=st.integers(0, 2**32 - 1),
)
def test_layer_gives_the_numbers_of_the_unrolled_one(mode, shape, is_wide, options, seed):
    dtype = lt.float64 if is_wide else lt.float32
    whole = answers(mode, shape, dtype, seed, again=is_wide, **options)
    with pytest.MonkeyPatch.context() as patch:
        unrolled(patch)
        expected = answers(mode, shape, dtype, seed, again=is_wide, **options)
    for got, want in zip(whole, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=(1e-12 if is_wide else 1e-5) * (1 + np.abs(want).max()))


def routine_run(op: str, attrs: dict, *ins: np.ndarray, threads: int = 2) -> list[np.ndarray]:
    outs = [np.full_like(v, 7) for v in OPS[op].eval(*ins, **attrs)]
    types = [tuple(Type(a.shape, float32) for a in arrays) for arrays in (outs, ins)]
    routine = routine_of(Instr("call", (), (), {"op": op, "attrs": attrs}), *types)
    with config.override(threads=threads):
        steps = schedule.routine(jit.load_routine(routine), routine, tuple(a.reshape(-1) for a in (*ins, *outs)))
        for step in schedule.chains(steps)[0]:
            step()
    return outs


def operands(mode: str, times: int, size: int, hidden: int, attrs: dict):
    """Those of a layer and of its sweep, in float32."""
    rng = np.random.default_rng(times)
    draw = lambda *shape: rng.standard_normal(shape, dtype="f4")  # noqa: E731
    parts, rows = CELLS[mode].parts, CELLS[mode].gates * hidden
    state = [draw(size, hidden) for _ in range(parts)]
    layer = [draw(times, size, rows), draw(rows, hidden) / np.float32(hidden**0.5), draw(rows), *state]
    outputs, *rest = OPS["recurrent"].eval(*layer, **attrs)
    seeds = [draw(*outputs.shape), *(draw(size, hidden) for _ in range(parts - 1))]
    return layer, [*seeds, outputs, *rest[parts - 1 :], layer[1], *state]


@pytest.mark.slow
@modes
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 40, 33)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_compiled_layer_is_that_of_numpy_for_any_number_of_threads(mode, shape, reverse, monkeypatch):
    monkeypatch.setattr(recurrent, "LEAST_FLOPS", 0)
    attrs = {"mode": mode, "reverse": reverse}
    for op, ins in zip(("recurrent", "recurrent_sweep"), operands(mode, *shape, attrs), strict=True):
        results = routine_run(op, attrs, *ins)
        for got, want in zip(results, OPS[op].eval(*(i.astype("f8") for i in ins), **attrs), strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=4e-6 * (1 + np.abs(want).max()))
        for threads in (1, 3):
            for got, again in zip(results, routine_run(op, attrs, *ins, threads=threads), strict=True):
                np.testing.assert_array_equal(got, again)


def training_program(mode: str, times: int):
    net = MODES[mode](3, 4, 2)
    x = lt.tensor(np.ones((times, 2, 3), "f4"))
    gradients = grad(net(x)[0].sum(), list(net.parameters()))
    return Compilation(Graph((), {}, tuple(g.node for g in gradients), {}), HOST).program


@modes
def test_program_of_a_training_step_does_not_grow_with_the_number_of_times(mode):
    counts = {times: len(training_program(mode, times).instrs) for times in (2, 40)}
    assert counts[40] == counts[2] < 80


@modes
def test_biases_go_over_the_products_of_all_times_in_a_gru_alone(mode):
    net = MODES[mode](3, 4, 2)
    outputs, _ = net(lt.tensor(np.ones((5, 2, 3), "f4")))
    products = [n for n in Graph((), {}, (outputs.node,), {}).nodes() if n.op == "linear"]
    assert [len(n.inputs) for n in products] == 2 * [3 if mode == "GRU" else 2]


def test_layer_is_unrolled_where_the_wafer_is_asked():
    attrs = {"mode": "GRU", "reverse": True}
    layer, _ = operands("GRU", 3, 2, 4, attrs)
    inputs = tuple(batch(k, Type(a.shape, float32)) for k, a in enumerate(layer))
    graph = Graph(inputs, {}, (call("result", call("recurrent", *inputs, **attrs), index=0),), {})
    ops = {n.op for n in lower_to_cirh(graph).nodes()}
    assert "matmul" in ops and not any(op.startswith("recurrent") for op in ops)


def loop_texts(times: int) -> set[str]:
    """The kernels of a training step of a loop over a cell, as text."""
    cell, head = nn.LSTMCell(3, 4), nn.Linear(4, 2)
    x, state, outputs = lt.tensor(np.ones((times, 2, 3), "f4")), None, []
    for t in range(times):
        state = cell(x[t], state)
        outputs.append(head(state[0]))
    loss = (lt.stack(outputs) ** 2).sum()
    gradients = grad(loss, [*cell.parameters(), *head.parameters()])
    program = Compilation(Graph((), {}, tuple(g.node for g in gradients), {}), HOST).program
    nests = [(i.nest, distinct_slots((*i.reads, *i.writes))) for i in program.instrs if i.nest]
    return {generate(rebase_to_first_elements(nest, slots)[0], slots) for nest, slots in nests}


@pytest.mark.slow
def test_loop_over_a_cell_has_as_many_kernels_for_any_number_of_times():
    assert len(loop_texts(12)) == len(loop_texts(9)) < 30
