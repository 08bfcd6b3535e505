"""Compiled programs on simulated cores: every operation, nests of any form, whole training steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core.dtype import bool_, dtype_by_name, float32, float64, int32, int64
from lazytensor.errors import LazyError, PlacementError
from lazytensor.ir.nest import Access, Loop, Nest, NestStore, Scalar
from lazytensor.ir.nest_reference import evaluate
from lazytensor.ir.types import Type
from lazytensor.ops.op import OPS
from lazytensor.runtime.host import HostBackend
from tests.wse_sim.kernels.kernel_rows import DTYPES, EPSILON
from tests.wse_sim.programs import Builder, computed, patient
from tests.wse_sim.small_nets import Cells, captured
from wse_sim.backends.mesh_backend import MeshBackend
from wse_sim.fabric import simulate_phase
from wse_sim.isa.packing import round_values
from wse_sim.kernels import gather, scatter
from wse_sim.kernels.nest import nest_kernel, nest_operands, nest_results
from wse_sim.kernels.scalars import POINTWISE
from wse_sim.layout import Rect
from wse_sim.machine import WSE2
from wse_sim.reference.phase_reference import apply

POSITIVE = ("log", "log2", "log1p", "sqrt", "rsqrt", "pow")
CHOICES = ("where_gt", "where_ge", "where_lt", "where_le")
COMPARISONS = ("gt", "lt", "ge", "le", "eq", "ne")
LOGICAL = ("logical_and", "logical_or", "logical_xor", "logical_not")
TESTS = ("isnan", "isfinite")
TWO = ("add", "sub", "mul", "div", "maximum", "minimum", "pow", *CHOICES, *COMPARISONS, *LOGICAL[:-1])
THREE = ("where", "clamp")
OF_ONE = ("sin", "cos")
"""Operations whose units are those of 1."""


def meaning(name, attrs):
    return lambda *arrays: OPS[name].eval(*arrays, **attrs)


def run(nest: Nest, inputs: list, rect: Rect, wavelets: bool = False) -> list[np.ndarray]:
    kernel = nest_kernel(rect, nest)
    memory = scatter(kernel, nest_operands(nest, rect, inputs))
    if wavelets:
        memory = simulate_phase(kernel.phase, WSE2, memory).expect_finished().memory
    else:
        memory = apply(kernel.phase, memory, WSE2)
    outputs = [np.zeros(type.shape, type.dtype.host) for type in nest.outputs]
    nest_results(nest, rect, gather(kernel, memory), outputs)
    return outputs


def expected(nest: Nest, inputs: list) -> list[np.ndarray]:
    outputs = [np.zeros(type.shape, type.dtype.host) for type in nest.outputs]
    evaluate(nest, inputs, outputs, meaning)
    return outputs


def single(op: str, types: list, made, rows: int, columns: int) -> Nest:
    """One operation over matrices."""
    access = Access((columns, 1))
    loads = tuple(Scalar("load", type, attr=k) for k, type in enumerate(types))
    name, *attrs = op.split()
    body = (*loads, computed(name, made, tuple(range(len(types))), {"approximate": attrs[0]} if attrs else None))
    operands = tuple(Type((rows, columns), type) for type in types)
    loops = (Loop("i", rows), Loop("j", columns))
    out = (Type((rows, columns), made),)
    return Nest(op, loops, operands, out, (access,) * len(types), (access,), body, (NestStore(0, len(types)),)).check()


def numbers(seed: int, shape: tuple, dtype: str, op: str = "") -> np.ndarray:
    """Some of them equal to each other."""
    random = np.random.default_rng(seed)
    found = np.where(random.random(shape) < 0.3, 1.5, random.standard_normal(shape)).astype(np.float32)
    return round_values(np.abs(found) + np.float32(0.1) if op in POSITIVE else found, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", sorted(set(POINTWISE) - {"cast"}))
def test_operation_is_numpys_within_its_units_of_the_last_place(op, dtype):
    """In 16 bits both round what they found in float32, which may fall to either side."""
    kind, shape = dtype_by_name(dtype), (5, 7)
    arity = 1 + (op in (*TWO, *THREE)) + (op in THREE)
    types = [bool_ if op in LOGICAL or (op, k) == ("where", 0) else kind for k in range(arity)]
    inputs = [numbers(k, shape, dtype, op) for k in range(arity)]
    inputs = [array > 0 if type is bool_ else array for array, type in zip(inputs, types, strict=True)]
    if op == "where":
        inputs[1][0], inputs[2][1] = np.inf, -np.inf
    if op in TESTS:
        inputs[0][:3, 0] = np.inf, -np.inf, np.nan
    nest = single(op, types, bool_ if op in (*COMPARISONS, *LOGICAL, *TESTS) else kind, *shape)
    (found,), (right,) = run(nest, inputs, Rect(1, 0, 3, 2)), expected(nest, inputs)
    ulp = POINTWISE[op].ulp if dtype == "float32" else float(POINTWISE[op].ulp > 0)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(right))
    found, right = (np.where(np.isinf(array), np.sign(array * 1.0), array * 1.0) for array in (found, right))
    error = np.abs(found - right)
    scale = 1 if op in OF_ONE else np.abs(inputs[0] if op.startswith("gelu") else right)
    assert (error <= ulp * EPSILON[dtype] * scale).all()


def test_casts_to_truth_and_to_integers_are_numpys():
    values = np.array([[-2.5, -0.0, 0.7], [1e-9, 3.0, 8388607.5]], np.float32)
    for kind in (bool_, int64):
        (found,) = run(single("cast", [float32], kind, 2, 3), [values], Rect(0, 0, 2, 2))
        np.testing.assert_array_equal(found, values.astype(kind.host))


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_casts_round_to_nearest(narrow):
    values = numbers(0, (4, 6), "float32")
    there = single("cast", [float32], dtype_by_name(narrow), 4, 6)
    back = single("cast", [dtype_by_name(narrow)], float32, 4, 6)
    (rough,) = run(there, [values], Rect(0, 0, 2, 3))
    np.testing.assert_array_equal(rough, round_values(values, narrow))
    np.testing.assert_array_equal(run(back, [rough], Rect(0, 0, 2, 3))[0], rough)


@pytest.mark.slow
def test_nest_may_compare_its_indices():
    """A causal mask: the element if the row is not before the column, else minus infinity."""
    whole, kind = Access((5, 1)), Type((4, 5), float32)
    body = (
        Scalar("load", float32, attr=0),
        Scalar("index", int64, attr=Access((1, 0))),
        Scalar("index", int64, attr=Access((0, 1), 1)),
        computed("gt", bool_, (1, 2)),
        Scalar("const", float32, attr=float("-inf")),
        computed("where", float32, (3, 0, 4)),
    )
    nest = Nest(
        "mask", (Loop("i", 4), Loop("j", 5)), (kind,), (kind,), (whole,), (whole,), body, (NestStore(0, 5),)
    ).check()
    values = numbers(0, (4, 5), "float32")
    for wavelets in (False, True):
        np.testing.assert_array_equal(run(nest, [values], Rect(0, 0, 2, 3), wavelets)[0], expected(nest, [values])[0])


@pytest.mark.parametrize("exponent", [1.0, 3.0, 0.5, -2.0])
def test_power_by_a_known_exponent_is_numpys(exponent):
    access, kind = Access((5, 1)), Type((4, 5), float32)
    load, known = Scalar("load", float32, attr=0), Scalar("const", float32, attr=exponent)
    body = (load, known, computed("pow", float32, (0, 1)))
    loops = Loop("i", 4), Loop("j", 5)
    nest = Nest("power", loops, (kind,), (kind,), (access,), (access,), body, (NestStore(0, 2),)).check()
    # Of either sign where a sum of logarithms is not needed.
    values = numbers(0, (4, 5), "float32", "" if exponent in (1.0, 3.0) else "pow")
    np.testing.assert_allclose(run(nest, [values], Rect(0, 0, 2, 3))[0], expected(nest, [values])[0], rtol=1e-6)


@pytest.mark.parametrize("angle", [100.0, 8000.0])
def test_waves_stay_within_their_units_far_from_zero(angle):
    """As far as positions of a rotary embedding go."""
    values = (np.random.default_rng(0).uniform(-1, 1, (4, 5)) * angle).astype(np.float32)
    for op in OF_ONE:
        nest = single(op, [float32], float32, 4, 5)
        (found,) = run(nest, [values], Rect(0, 0, 2, 2))
        assert (
            np.abs(found - getattr(np, op)(values.astype(np.float64))).max() <= POINTWISE[op].ulp * EPSILON["float32"]
        )


@pytest.mark.parametrize("combine, whole", [("and", np.all), ("or", np.any)])
def test_truth_is_combined_along_rows(combine, whole):
    access, kind = Access((3, 1)), Type((5, 3), bool_)
    loops = Loop("i", 5), Loop("j", 3, True)
    body, sums = (Scalar("load", bool_, attr=0),), (Type((5,), bool_),)
    nest = Nest(combine, loops, (kind,), sums, (access,), (Access((1, 0)),), body, (NestStore(0, 0, combine),)).check()
    values = np.random.default_rng(0).random((5, 3)) > 0.4
    np.testing.assert_array_equal(run(nest, [values], Rect(0, 0, 4, 2))[0], whole(values, 1))


def test_long_chain_needs_no_more_tiles_than_are_read_at_once():
    access, kind = Access((4, 1)), Type((4, 4), float32)
    load = Scalar("load", float32, attr=0)

    def chain(length: int) -> Nest:
        body = (load, *(computed("add", float32, (n, 0)) for n in range(length)))
        loops = Loop("i", 4), Loop("j", 4)
        return Nest("chain", loops, (kind,), (kind,), (access,), (access,), body, (NestStore(0, length),)).check()

    short, long = (nest_kernel(Rect(0, 0, 2, 2), chain(length)) for length in (3, 30))
    assert long.words == short.words
    values = numbers(0, (4, 4), "float32")
    np.testing.assert_array_equal(run(chain(30), [values], Rect(0, 0, 2, 2))[0], expected(chain(30), [values])[0])


rects = st.builds(Rect, st.integers(0, 1), st.integers(0, 1), st.integers(1, 4), st.integers(1, 4))


@st.composite
def nests(draw) -> Nest:
    """(a + b) c over up to three loops, of operands that skip some of them, stored and summed over some."""
    kind = dtype_by_name(draw(st.sampled_from(DTYPES)))
    extents = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    summed = [draw(st.booleans()) for _ in extents]
    reads, types = [], []
    for _ in range(3):
        shape, strides, step = [], [], 1
        for extent in reversed(extents):
            kept = draw(st.booleans())
            strides.insert(0, step if kept else 0)
            shape[:0] = [extent] * kept
            step *= extent if kept else 1
        reads.append(Access(tuple(strides)))
        types.append(Type(tuple(shape), kind))
    loops = tuple(Loop(f"i{n}", e, s) for n, (e, s) in enumerate(zip(extents, summed, strict=True)))
    whole = Access(tuple(int(np.prod(extents[n + 1 :])) for n in range(len(extents))))
    left = [e for e, s in zip(extents, summed, strict=True) if not s]
    steps, step = [], 1
    for extent, is_summed in reversed(list(zip(extents, summed, strict=True))):
        steps.insert(0, 0 if is_summed else step)
        step *= 1 if is_summed else extent
    loads = tuple(Scalar("load", kind, attr=k) for k in range(3))
    body = (*loads, computed("add", kind, (0, 1)), computed("mul", kind, (3, 2)))
    combine = draw(st.sampled_from(["add", "maximum", "minimum"]))
    stores = (NestStore(0, 4), NestStore(1, 4, combine)) if any(summed) else (NestStore(0, 4), NestStore(1, 3))
    outputs = Type(tuple(extents), kind), Type(tuple(left if any(summed) else extents), kind)
    writes = whole, Access(tuple(steps)) if any(summed) else whole
    return Nest("n", loops, tuple(types), outputs, tuple(reads), writes, body, stores).check()


@patient
@given(nests(), rects, st.integers(0, 2**32 - 1), st.booleans())
def test_nests_of_any_form_are_the_oracles(nest, rect, seed, wavelets):
    """To the last bit but for sums, which are in float32 and rounded once on the mesh."""
    name = nest.inputs[0].dtype.name
    inputs = [numbers(seed + k, type.shape, name) for k, type in enumerate(nest.inputs)]
    found, right = run(nest, inputs, rect, wavelets), expected(nest, inputs)
    np.testing.assert_array_equal(found[0], right[0])
    if nest.stores[1].reduce != "add":
        np.testing.assert_array_equal(found[1], right[1])
        return
    terms = right[0].size / max(1, right[1].size)
    bound = np.abs(right[0]).max() * terms * (terms * EPSILON["float32"] + EPSILON[name])
    assert (np.abs(found[1].astype(np.float64) - right[1]) <= bound).all()


class MLP(lt.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = lt.nn.Linear(8, 7), lt.nn.Linear(7, 5)

    def forward(self, x):
        return self.second(lt.nn.functional.relu(self.first(x.reshape(-1, 8))))


def training_step(model, make_optimizer, kind=lt.float32):
    model = model.to(kind)
    optimizer = make_optimizer(model.parameters())

    def step(x, labels):
        loss = lt.nn.functional.cross_entropy(model(x.to(kind)), labels)
        loss.backward()
        optimizer.step()
        return loss

    arrays = {"x": lt.randn(2, 4, 8), "labels": lt.arange(8) % 5}
    return captured(step, arrays, {f"model.{n}": p.cell for n, p in model.named_parameters()})


OPTIMIZERS = (lambda p: lt.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: lt.optim.AdamW(p, lr=0.01))


class Block(lt.nn.Module):
    """A layer of a transformer with causal attention, and a head."""

    def __init__(self, width: int = 8, heads: int = 2):
        super().__init__()
        self.heads = heads
        self.before, self.between = lt.nn.LayerNorm(width), lt.nn.LayerNorm(width)
        self.qkv, self.out = lt.nn.Linear(width, 3 * width), lt.nn.Linear(width, width)
        self.up, self.down = lt.nn.Linear(width, 2 * width), lt.nn.Linear(2 * width, width)
        self.head = lt.nn.Linear(width, 5)

    def forward(self, x):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (y.reshape(split).transpose(1, 2) for y in self.qkv(self.before(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) * split[-1] ** -0.5
        is_later = lt.arange(length).reshape(-1, 1) < lt.arange(length)
        mixed = lt.nn.functional.softmax(scores.masked_fill(is_later, float("-inf")), -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        wide = lt.nn.functional.gelu(self.up(self.between(x)), approximate="tanh")
        return self.head(x + self.down(wide)).reshape(-1, 5)


@pytest.mark.slow
@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("model", [MLP, Block])
def test_training_step_on_cores_is_the_hosts(model, make):
    """Forward, loss, backward, update: as data, and the first step as wavelets to the last bit.

    Adam divides what is left of gradients by its own size, so where these are rounding errors they show in weights.
    """
    lt.manual_seed(0)
    program, store, batch = training_step(model(), make)
    states = [Cells(store, program.state) for _ in range(3)]
    host = HostBackend().compile(program, states[0])
    data = MeshBackend(2).compile(program, states[1])
    wavelets = MeshBackend(2, wavelets=True).compile(program, states[2])
    np.testing.assert_array_equal(wavelets.step(batch)[0], data.step(batch)[0])
    for name, cell in states[2].cells.items():
        np.testing.assert_array_equal(cell, states[1].cells[name])
    assert wavelets.cycles == pytest.approx(data.cycles, rel=0.03)
    host.step(batch)
    for _ in range(3):
        np.testing.assert_allclose(data.step(batch)[0], host.step(batch)[0], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [lt.float16, lt.bfloat16])
def test_training_step_in_16_bits_is_the_hosts(kind):
    """Within two units of the last place over four steps; on the machine it was written on, to the last bit."""
    lt.manual_seed(0)
    program, store, batch = training_step(Block(), OPTIMIZERS[0], kind)
    states = [Cells(store, program.state) for _ in range(2)]
    host = HostBackend().compile(program, states[0])
    data = MeshBackend(2).compile(program, states[1])
    unit = EPSILON[kind.name]
    for _ in range(4):
        np.testing.assert_allclose(data.step(batch)[0], host.step(batch)[0], rtol=2 * unit)
    for name, cell in states[0].cells.items():
        np.testing.assert_allclose(states[1].cells[name], cell, rtol=2 * unit, atol=unit * np.abs(cell).max())


def test_labels_beyond_the_classes_are_refused():
    b = Builder()
    reads = b.input((2, 3)), b.input((2,), int64)
    b.call("softmax_cross_entropy", reads, [(2,), (2, 3)], 1)
    with pytest.raises(LazyError, match="a label is 3, but there are 3 classes"):
        MeshBackend(2).compile(b.program(), None).step([np.zeros((2, 3), np.float32), np.array([0, 3])])


def test_integers_that_float32_does_not_hold_are_refused():
    nest = single("gt", [int32, int32], bool_, 2, 2)
    small, large = np.ones((2, 2), np.int32), np.full((2, 2), 2**24 + 1, np.int32)
    assert not run(nest, [small, small], Rect(0, 0, 2, 2))[0].any()
    with pytest.raises(LazyError, match="integers exceed 16,777,216"):
        run(nest, [small, large], Rect(0, 0, 2, 2))


def compiled(build):
    b = Builder()
    build(b)
    return MeshBackend(2).compile(b.program(), None)


@pytest.mark.parametrize(
    "build, text",
    [
        (lambda b: b.pointwise("tan", (b.input((4, 4)),)), "cores have no instructions for 'tan'"),
        (lambda b: b.call("sort", (b.input((4,)),), [(4,)], 1), "'sort' has no mesh kernel"),
        (
            lambda b: b.call("matmul", (b.input((4,)), b.input((4, 2))), [(2,)], 1),
            "Reshape both operands to at least two dimensions",
        ),
        (
            lambda b: b.matmul(b.input((200, 200)), b.input((200, 200))),
            "matmul needs .* bytes on each of 2 x 2 cores, which have 44,976",
        ),
        (
            lambda b: b.call("nest", (), [], 1, nest=single("neg", [float64], float64, 2, 2)),
            "cores cannot compute in float64",
        ),
    ],
)
def test_what_cores_cannot_do_is_refused_before_it_runs(build, text):
    with pytest.raises(LazyError, match=text):
        compiled(build)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_elements_along_any_dimension_are_the_hosts(dim):
    """Gathered by an index, scattered back, and the largest found."""
    random = np.random.default_rng(dim)
    shape, shorter = (3, 4, 5), tuple(2 if d == dim else e for d, e in enumerate((3, 4, 5)))
    x, index = random.standard_normal(shape).astype(np.float32), random.integers(0, shape[dim], shorter)
    value = random.standard_normal(shorter).astype(np.float32)
    calls = [("gather", {"dim": dim}, (x, index)), ("arg_reduce", {"kind": "max", "dim": dim, "keepdim": True}, (x,))]
    calls += [("scatter", {"dim": dim, "kind": kind}, (x, index, value)) for kind in ("set", "add")]
    for op, attrs, operands in calls:
        expected = OPS[op].eval(*operands, **attrs)
        b = Builder()
        reads = [b.input(a.shape, int64 if a.dtype == np.int64 else float32) for a in operands]
        out = b.buffer(expected.shape, dtype=int64 if op == "arg_reduce" else float32)
        b.call("call", reads, [], 1, attrs={"op": op, "attrs": attrs}, writes=[out])
        b.fetches.append(out)
        (found,) = MeshBackend((2, 3)).compile(b.program(), None).step(operands)
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=op)


def test_all_refusals_come_at_once_with_their_lines_and_ways_out():
    def build(b):
        x = b.input((4, 4))
        b.pointwise("tan", (x,))
        for _ in range(2):
            b.call("sort", (x,), [(4, 4)], 1)
        b.matmul(b.input((200, 200)), b.input((200, 200)))

    with pytest.raises(LazyError) as refused:
        compiled(build)
    lines = str(refused.value).splitlines()
    assert lines[0] == "4 of 4 kernels do not run on the cores:"
    assert [line.strip().split(":")[-1].strip()[:68] for line in lines[1::2]] == [
        "cores have no instructions for 'tan'",
        "'sort' has no mesh kernel (2 times)",
        "matmul needs 200,008 bytes on each of 2 x 2 cores, which have 44,976",
    ]
    assert lines[-1].strip() == "Use more cores."
    assert not isinstance(refused.value, PlacementError)
