"""The host backend: binding, batches by reference, errors, half types, library kernels."""

import gc
import time

import numpy as np
import pytest

from lazytensor import config
from lazytensor.compiler.codegen import generate
from lazytensor.compiler.pipeline import compile_graph
from lazytensor.core.dtype import bfloat16, float16, float32, int64
from lazytensor.errors import CompileError, ShapeError, StateError
from lazytensor.ir.graph import Graph
from lazytensor.ir.program import Instr, Program, ProgramBuffer
from lazytensor.ir.types import Type
from lazytensor.ops import OPS, call, full, full_like
from lazytensor.ops.products import matmul
from lazytensor.ops.shape import reshape
from lazytensor.runtime import binders
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from lazytensor.testing import batch, state
from tests.lazytensor.oracles import assert_same, run_host, run_reference


def compiled(graph: Graph, **start: np.ndarray):
    store = Store()
    for name, array in start.items():
        store.add(name, array)
    return HostBackend().compile(compile_graph(graph), store), store


def test_a_batch_is_read_where_it_lies():
    x = batch(0, Type((3, 4), float32))
    executable, _ = compiled(Graph((x,), {}, (reshape(x, (12,)), call("neg", x)), {}))
    array = np.arange(12, dtype="f4").reshape(3, 4)
    fetched = executable.step([array])
    assert np.shares_memory(fetched[0], array)
    array[0, 0] = 5  # the same array with new contents, as a loader that reuses its buffer has it
    assert executable.step([array])[1][0, 0] == -5
    assert executable.step([array.copy() * 2])[1][0, 0] == -10


@pytest.mark.parametrize("make", [lambda a: a.astype("f8"), lambda a: np.asfortranarray(a), lambda a: a[::1, ::-1]])
def test_a_batch_of_another_layout_is_converted_each_time(make):
    x = batch(0, Type((3, 4), float32))
    executable, _ = compiled(Graph((x,), {}, (call("neg", x),), {}))
    array = make(np.arange(12, dtype="f4").reshape(3, 4).copy())
    np.testing.assert_array_equal(executable.step([array])[0], -array)
    array[...] = 3
    np.testing.assert_array_equal(executable.step([array])[0], -array)


def test_a_batch_of_another_shape_is_refused():
    x = batch(0, Type((3, 4), float32))
    executable, _ = compiled(Graph((x,), {}, (call("neg", x),), {}))
    with pytest.raises(ShapeError, match=r"x0 has the shape \[2, 4\], but the step was compiled for \[3, 4\]"):
        executable.step([np.zeros((2, 4), "f4")])
    with pytest.raises(ShapeError, match="takes 1 arrays, but the batch has 0"):
        executable.step([])


def test_a_batch_that_was_refused_leaves_no_address_behind():
    size = 1 << 18
    x, y = batch(0, Type((size,), float32)), batch(1, Type((size,), float32))
    executable, _ = compiled(Graph((x, y), {}, (x + y,), {}))
    ones, twos, threes = (np.full(size, k, "f4") for k in (1, 2, 3))
    assert executable.step([ones, ones])[0][0] == 2
    with pytest.raises(ShapeError):
        executable.step([twos, twos[1:]])
    assert executable.step([threes, ones])[0][-1] == 4


def test_state_lives_in_the_store():
    p = state("p", Type((5,), float32))
    executable, store = compiled(Graph((), {"p": p}, (), {"p": call("add", p, full_like(1, p))}), p=np.zeros(5, "f4"))
    before = store.snapshot()
    executable.step([])
    store.put("p", np.full(5, 10, "f4"))
    executable.step([])
    assert store.array("p")[0] == 11 and before["p"][0] == 0
    with pytest.raises(StateError, match="the state q does not exist"):
        store.array("q")
    with pytest.raises(StateError, match=r"p has the shape \[5\], but the new value has \[4\]"):
        store.put("p", np.zeros(4))


@pytest.mark.parametrize("dtype", ["f4", "f2", "i8", "?"])
@pytest.mark.parametrize("shape", [(), (0, 3), (3,), (5, 7), (300, 300)])
def test_state_begins_where_a_line_of_the_cache_does(shape, dtype):
    given, store = np.ones(shape, dtype).T, Store()
    # Behind each other they would all begin elsewhere.
    for name in "abcd":
        own = store.add(name, given)
        assert not own.size or own.ctypes.data % 64 == 0
        assert own.flags.c_contiguous and own.flags.writeable
        assert own.dtype == given.dtype and np.array_equal(own, given) and not np.shares_memory(own, given)


def test_an_unknown_kernel_is_refused_when_it_is_bound():
    t = Type((2,), float32)
    program = Program((ProgramBuffer(0, t, "temp"),), (Instr("spell", (), (0,)),), {}, (), ())
    with pytest.raises(CompileError, match="no kernel spell"):
        HostBackend().compile(program, Store())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("is_compiled", [True, False])
def test_library_kernels_round_half_types(dtype, is_compiled):
    x, w = batch(0, Type((9, 33), dtype)), batch(1, Type((33, 5), dtype))
    graph = Graph((x, w), {}, (matmul(x, w), call("softmax", x, dim=1)), {})
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(9, 33)).astype("f4"), rng.normal(size=(33, 5)).astype("f4")]
    with config.override(jit=is_compiled):
        product, shares = run_host(graph, [arrays], {})[0][0]
    arrays = [OPS["cast"].eval(a, dtype=dtype) for a in arrays]
    want = OPS["cast"].eval(arrays[0].astype("f8") @ arrays[1], dtype=dtype)
    last_place = 2.0**-dtype.mantissa_bits
    np.testing.assert_allclose(product, want, rtol=last_place, atol=1e-6)
    np.testing.assert_array_equal(product, OPS["cast"].eval(product, dtype=dtype))
    np.testing.assert_allclose(shares, OPS["softmax"].eval(arrays[0], dim=1), rtol=last_place)


@pytest.mark.parametrize("rows, columns", [(64, 10), (3, 1000), (1, 1), (5000, 3)])
def test_softmax_cross_entropy_equals_its_definition(rows, columns):
    x, labels = batch(0, Type((rows, columns), float32)), batch(1, Type((rows,), int64))
    pair = call("softmax_cross_entropy", x, labels)
    graph = Graph((x, labels), {}, (call("result", pair, index=0), call("result", pair, index=1)), {})
    rng = np.random.default_rng(0)
    classes = rng.integers(0, columns, rows)
    classes[0] = -100  # no class: NaN for its row alone
    arrays = [rng.normal(size=(rows, columns)).astype("f4") * 20, classes]
    assert_same(run_host(graph, [arrays], {}), run_reference(graph, [arrays], {}), rtol=2e-6)


@pytest.mark.parametrize("columns", [1, 10, 63, 64, 65, 1000])
def test_softmax_has_one_value_for_each_row_short_or_long(columns):
    x = batch(0, Type((40, columns), float32))
    array = np.random.default_rng(0).normal(size=(40, columns)).astype("f4") * 30
    # As masks make them: all but one, all, and a number that spoils its row alone.
    array[0, 1:], array[1], array[2, -1], array[3, 0] = -np.inf, -np.inf, np.nan, np.nan
    (shares,) = run_host(Graph((x,), {}, (call("softmax", x, dim=1),), {}), [[array]], {})[0][0]
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(shares, OPS["softmax"].eval(array, dim=1), rtol=2e-6, atol=1e-38)


def test_stacks_of_products_and_transposed_operands():
    a, b = batch(0, Type((2, 3, 4, 5), float32)), batch(1, Type((2, 3, 6, 5), float32))
    swapped = call("transpose", b, permutation=(0, 1, 3, 2))
    graph = Graph((a, b), {}, (matmul(a, b, False, True), matmul(a, swapped), matmul(b, a, False, True)), {})
    program = compile_graph(graph)
    assert [i.kernel for i in program.instrs] == ["matmul"] * 3  # and no copy of the transpose
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-5, 5, n.type.shape).astype("f4") for n in (a, b)]
    assert_same(run_host(graph, [arrays], {}), run_reference(graph, [arrays], {}))


def test_overflow_gives_infinity_without_a_warning():
    x = batch(0, Type((4, 4), float32))
    executable, _ = compiled(Graph((x,), {}, (matmul(x, x), call("mul", x, x)), {}))
    for array in (np.full((4, 4), 1e38, "f4"), np.full((4, 4), 1e300)):
        product, square = executable.step([array])
        assert np.isinf(product).all() and np.isinf(square).all()


@pytest.mark.slow
def test_dispatch_does_not_fall_onto_a_slow_path():
    """Many small nests. An instruction takes about 0.7 us on a quiet machine; the bound allows for a busy one."""
    x = state("x", Type((1,), float32))
    states = {f"s{k}": state(f"s{k}", Type((k + 2,), float32)) for k in range(40)}
    updates = {name: call("add", leaf, full_like(1, leaf)) for name, leaf in states.items()}
    start = {k: np.zeros(n.type.shape, "f4") for k, n in (("x", x), *states.items())}
    with config.override(jit=True):
        executable, _ = compiled(Graph((), {"x": x, **states}, (), updates), **start)
    executable.step([])
    best = float("inf")
    gc.disable()
    for _ in range(50):
        begin = time.perf_counter()
        executable.step([])
        best = min(best, time.perf_counter() - begin)
    gc.enable()
    assert best / 40 < 5.0e-6


def test_a_view_of_a_constant_whose_value_is_known_compiles():
    x, known = batch(0, Type((6,), float32)), reshape(full(89, Type((2, 3), float32)), (6,))
    known.value = np.full(6, 89, np.float32)
    got = run_host(Graph((x,), {}, (call("add", known, x),), {}), [[np.ones(6, np.float32)]], {})
    np.testing.assert_array_equal(got[0][0][0], np.full(6, 90, np.float32))


def test_an_empty_slice_compiles():
    x = state("x", Type((2, 3), float32))
    part = call("slice", reshape(x, (6,)), starts=(1,), limits=(1,), strides=(1,))
    with config.override(check=True):
        got = run_host(Graph((), {"x": x}, (call("exp", part), call("neg", x)), {}), [[]], {"x": np.ones((2, 3), "f4")})
    assert got[0][0][0].shape == (0,)


@pytest.mark.parametrize("size", [8, 1 << 18])
def test_each_step_reads_its_own_batch_and_fetches_of_it_stay(size):
    x, y = batch(0, Type((size,), float32)), batch(1, Type((size,), float32))
    program = compile_graph(Graph((x, y), {}, (x + y, x), {}))
    executable = HostBackend().compile(program, Store())
    a, b = np.ones(size, "f4"), np.full(size, 2, "f4")
    total, same = (np.array(v) for v in executable.step([a, b]))
    assert total[0] == 3 and same[-1] == 1
    first = executable.step([a, b])[1]
    b[:] = 5  # the same array, other values
    assert executable.step([a, b])[0][-1] == 6
    assert executable.step([np.full(size, 7, "f4"), b.astype("f8")])[0][-1] == 12
    assert first[0] == 1


@pytest.mark.slow
def test_equal_layers_are_generated_and_loaded_once(monkeypatch):
    texts = []
    monkeypatch.setattr(binders, "generate", lambda nest, slots: texts.append(generate(nest, slots)) or texts[-1])
    square = Type((64, 64), float32)
    layers = [state(f"w{k}", square) for k in range(6)]
    x = y = batch(0, square)
    for w in layers:
        y = call("tanh", matmul(y, w, False, False))
    weights = {f"w{k}": np.full((64, 64), 0.01 * k, "f4") for k in range(6)}
    graph = Graph((x,), {f"w{k}": w for k, w in enumerate(layers)}, (y,), {})
    with config.override(jit=True):
        executable, _ = compiled(graph, **weights)
    assert len(texts) == 1
    value = start = np.linspace(-1, 1, 4096, dtype="f4").reshape(64, 64)
    for w in weights.values():
        value = np.tanh(value @ w)
    np.testing.assert_allclose(executable.step([start])[0], value, rtol=1e-4, atol=1e-5)
