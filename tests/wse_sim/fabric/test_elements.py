"""Every operation in every type on one core, against a plain interpreter over NumPy."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lazytensor.core import dtype as dtypes
from lazytensor.errors import LazyError
from wse_sim.cost_model.core_time import body_cycles
from wse_sim.fabric import EAST, RAMP, WEST, Builder, Memory, Mesh, Received, Sent, simulate, simulate_phase
from wse_sim.isa import record
from wse_sim.isa.core_program import Instruction, LoopEnd, LoopStart, Vector
from wse_sim.isa.operations import OPERATIONS, SPECIAL_OPS
from wse_sim.layout import Rect
from wse_sim.machine import MACHINES, WSE2, WSE3
from wse_sim.phase import Local
from wse_sim.reference.phase_reference import apply

WORDS = 48
FLOATS = ("float32", "float16", "bfloat16")
ITEM = {"float32": 4, "float16": 2, "bfloat16": 2, "uint16": 2}


def rounded(value: np.ndarray, dtype: str) -> np.ndarray:
    return dtypes.round_to(np.asarray(value, np.float32), dtypes.dtype_by_name(dtype))


def brain_bits(values: np.ndarray) -> np.ndarray:
    """bfloat16 from values that it can hold, and from any NaN."""
    bits = values.view(np.uint32) >> np.uint32(16)
    return np.where(np.isnan(values), bits | np.uint32(0x40), bits).astype(np.uint16)


class Interpreter:
    """Runs a body over the bytes of one memory, an element at a time. Notes whether a NaN came up."""

    def __init__(self, memory: np.ndarray):
        self.bytes = memory.view(np.uint8).copy()
        self.saw_nan = False

    def read(self, address: int, dtype: str) -> np.ndarray:
        raw = self.bytes.view({4: np.uint32, 2: np.uint16}[ITEM[dtype]])[address : address + 1]
        if dtype == "bfloat16":
            return (raw.astype(np.uint32) << 16).view(np.float32)[0]
        return raw.view({"float32": np.float32, "float16": np.float16, "uint16": np.uint16}[dtype])[0]

    def write(self, address: int, dtype: str, value: np.ndarray) -> None:
        if dtype == "bfloat16":
            self.bytes.view(np.uint16)[address] = brain_bits(np.asarray(value, np.float32))
        else:
            kind = {"float32": np.float32, "float16": np.float16, "uint16": np.uint16}[dtype]
            self.bytes.view(kind)[address] = value

    def run(self, body: list[Instruction]) -> None:
        self._block(body, 0, ())

    def _block(self, body: list[Instruction], at: int, rounds: tuple[int, ...]) -> int:
        while at < len(body) and not isinstance(body[at], LoopEnd):
            instruction = body[at]
            if isinstance(instruction, LoopStart):
                for i in range(instruction.times):
                    end = self._block(body, at + 1, (*rounds, i))
                at = end
            elif isinstance(instruction, Vector):
                self._vector(instruction, rounds)
            at += 1
        return at

    def _addresses(self, memory: Memory, length: int, rounds: tuple[int, ...]) -> list[int]:
        base = memory.base + sum(s * r for s, r in zip(memory.steps, rounds, strict=False))
        if memory.index is not None:
            base += int(self.read(memory.index, "uint16")) * memory.index_step
        inner = length // int(np.prod([e for e, _ in memory.outer], initial=1))
        dims = [*memory.outer, (inner, memory.stride)]
        return [
            base + sum(i * s for i, (_, s) in zip(at, dims, strict=True)) for at in np.ndindex(*(e for e, _ in dims))
        ]

    def _vector(self, vector: Vector, rounds: tuple[int, ...]) -> None:
        to, *sources = vector.operands
        places = [self._addresses(o, vector.length, rounds) if isinstance(o, Memory) else None for o in vector.operands]
        for i in range(vector.length):
            values = [
                self.read(places[j + 1][i], o.dtype) if isinstance(o, Memory) else np.float32(o)
                for j, o in enumerate(sources)
            ]
            self.saw_nan |= bool(np.isnan(values).any())
            if to.dtype != "uint16":
                values = [rounded(v, to.dtype) for v in values]
            with np.errstate(all="ignore"):
                found = self._compute(vector.op, to.dtype, values)
            self.saw_nan |= bool(np.isnan(found))
            self.write(places[0][i], to.dtype, found)

    @staticmethod
    def _compute(op: str, dtype: str, values: list) -> np.ndarray:
        if op == "move":
            return values[0]
        a, *more = values
        match op:
            case "convert":
                found = a
            case "fmac":
                found = rounded(a * more[0], dtype) + more[1]
            case "max":
                found = a if a >= more[0] or np.isnan(a) else more[0]
            case "greater":
                found = np.float32(a > more[0])
            case "reciprocal":
                found = np.float32(1) / a
            case "exp" | "log" | "sqrt" | "tanh":
                found = np.float32(getattr(np, op)(np.float64(a)))
            case _:
                name = {"add": "add", "sub": "subtract", "mul": "multiply"}[op]
                found = getattr(np, name)(a, more[0])
        return rounded(found, dtype)


def run_alone(body: list[Instruction], memory: np.ndarray, machine=WSE2, **how):
    builder = Builder("alone", len(memory))
    for instruction in body:
        builder.append(instruction)
    mesh = Mesh(machine, 1, 1)
    mesh.run(builder.build(), 0, 0)
    mesh.load(memory, 0, 0)
    return simulate(mesh, **how)


def assert_same(found: np.ndarray, expected: np.ndarray, dtype: str) -> None:
    """Equal bits, or NaN in both."""
    kind = {4: np.uint32, 2: np.uint16}[ITEM[dtype]]
    a, b = found.view(kind), expected.view(kind)
    infinity = {"float32": 0x7F800000, "float16": 0x7C00, "bfloat16": 0x7F80, "uint16": 0xFFFF}[dtype]
    largest = {4: 0x7FFFFFFF, 2: 0x7FFF}[ITEM[dtype]] if dtype != "uint16" else 0xFFFF
    nan = ((a & largest) > infinity) & ((b & largest) > infinity)
    np.testing.assert_array_equal(np.where(nan, 0, a), np.where(nan, 0, b))


@st.composite
def memories(draw, dtype: str, length: int, rounds: list[int]):
    """A memory operand that stays inside WORDS words."""
    size = WORDS * 4 // ITEM[dtype]
    outer: tuple[tuple[int, int], ...] = ()
    inner = length
    for extent in draw(st.lists(st.sampled_from([1, 2, 3]), max_size=3)):
        if inner % extent == 0:
            outer = (*outer, (extent, draw(st.integers(-2, 3))))
            inner //= extent
    steps = tuple(draw(st.integers(-2, 2)) for _ in rounds[: draw(st.integers(0, len(rounds)))])
    made = Memory(0, draw(st.integers(-2, 3)), dtype, steps, outer)
    low, high = made.span(length, rounds)
    base = draw(st.integers(0, max(0, size - 1 - (high - low))))
    return replace(made, base=base - low)


@st.composite
def vectors(draw, rounds: list[int]):
    op = draw(st.sampled_from([n for n, row in OPERATIONS.items() if n not in SPECIAL_OPS and not row.is_integer]))
    length = draw(st.one_of(st.integers(1, 9), st.sampled_from([6, 8, 12])))
    dtype = draw(st.sampled_from([*FLOATS, "uint16"] if op == "move" else FLOATS))
    operands = [draw(memories(dtype, length, rounds))]
    for _ in range(OPERATIONS[op].sources):
        other = dtype if op == "move" else draw(st.sampled_from(FLOATS))
        constant = st.integers(0, 9) if dtype == "uint16" else st.floats(-8, 8, width=32)
        operands.append(draw(st.one_of(memories(other, length, rounds), constant)))
    return Vector(op, tuple(operands), length)


@st.composite
def bodies(draw):
    """Vector operations, some of them in loops."""
    body: list[Instruction] = []
    rounds: list[int] = []
    for _ in range(draw(st.integers(1, 6))):
        if len(rounds) < 3 and draw(st.integers(0, 3)) == 0:
            rounds.append(draw(st.integers(1, 3)))
            body.append(LoopStart(rounds[-1]))
        body.append(draw(vectors(rounds)))
        if rounds and draw(st.integers(0, 2)) == 0:
            rounds.pop()
            body.append(LoopEnd())
    return body + [LoopEnd()] * len(rounds)


def contents(seed: int, kind: str) -> np.ndarray:
    """Numbers at random: of every size that float16 has, or small ones in one of the types."""
    generator = np.random.default_rng(seed)
    if kind == "any":
        signs = generator.integers(0, 2, 2 * WORDS) << 15
        return (generator.integers(0, 0x7C00, 2 * WORDS) | signs).astype(np.uint16).view(np.float32)
    halves = generator.standard_normal(2 * WORDS).astype(np.float16)
    return halves.view(np.float32) if kind == "halves" else generator.standard_normal(WORDS).astype(np.float32)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(bodies(), st.integers(0, 2**20), st.sampled_from(["any", "halves", "floats"]), st.sampled_from([WSE2, WSE3]))
def test_bodies_give_the_bits_of_an_interpreter_in_the_cycles_of_the_closed_form(body, seed, kind, machine):
    memory = contents(seed, kind)
    expected = Interpreter(memory)
    expected.run(body)
    done = run_alone(body, memory, machine).expect_finished()
    dtypes_written = {i.operands[0].dtype for i in body if isinstance(i, Vector)}
    event(f"writes {len(dtypes_written)} types, NaN: {expected.saw_nan}")
    if not expected.saw_nan:  # which NaN an operation gives is not said
        np.testing.assert_array_equal(done.memory[0, 0].view(np.uint8), expected.bytes)
    assert done.cycles == body_cycles(tuple(body), machine)


EVERY_HALF = np.arange(2**16, dtype=np.uint16)


def converted(values: np.ndarray, source: str, to: str) -> np.ndarray:
    """All of `values` (bits) converted by one core, in pieces that fit its memory."""
    pieces = []
    for piece in values.reshape(-1, 4096):
        words = 2 * 4096
        builder = Builder("converts", words)
        place = 4096 if to == "float32" else 8192
        builder.convert(Memory(place, dtype=to), Memory(0, dtype=source), 4096)
        mesh = Mesh(WSE2, 1, 1)
        mesh.run(builder.build(), 0, 0)
        mesh.load(piece.view(np.float32), 0, 0)
        kind = np.uint32 if to == "float32" else np.uint16
        pieces.append(simulate(mesh).memory[0, 0].view(kind)[place : place + 4096])
    return np.concatenate(pieces)


@pytest.mark.slow
def test_every_float16_becomes_the_float32_that_numpy_makes_of_it():
    found = converted(EVERY_HALF, "float16", "float32")
    assert_same(found, EVERY_HALF.view(np.float16).astype(np.float32), "float32")
    found = converted(EVERY_HALF, "bfloat16", "float32")
    assert_same(found, (EVERY_HALF.astype(np.uint32) << 16).view(np.float32), "float32")


@pytest.mark.slow
@pytest.mark.parametrize("to", ["float16", "bfloat16"])
def test_float32_is_rounded_to_nearest_even(to):
    """All neighbourhoods of values of the type, of ties between them, and numbers at random."""
    generator = np.random.default_rng(3)
    exact = EVERY_HALF.view(np.float16).astype(np.float32) if to == "float16" else None
    exact = (EVERY_HALF.astype(np.uint32) << 16).view(np.float32) if exact is None else exact
    ties = exact.view(np.uint32) + np.uint32(0x1000 if to == "float16" else 0x8000)
    bits = [exact.view(np.uint32), ties, ties + np.uint32(1), ties - np.uint32(1)]
    values = np.concatenate([*bits, generator.integers(0, 2**32, 2**15, np.uint32)]).view(np.float32)
    with np.errstate(over="ignore"):
        half = values.astype(np.float16).view(np.uint16)
    brain = brain_bits(dtypes.round_to(values, dtypes.bfloat16))
    assert_same(converted(values, "float32", to), half if to == "float16" else brain, to)


@pytest.mark.slow
@pytest.mark.parametrize("op, dtype", list(itertools.product(SPECIAL_OPS, FLOATS)))
def test_library_routines_are_within_one_ulp(op, dtype):
    """Of the value in float64, rounded to the type: 1 ULP, for a value is rounded to float32 first."""
    values = np.random.default_rng(5).uniform(-10, 10, 1000).astype(np.float32)
    values = np.abs(values) + np.float32(1e-3) if op in ("log", "sqrt") else values
    builder = Builder("special", 2000)
    builder.convert(Memory(0, dtype=dtype), Memory(1000), 1000)
    builder.special(op, Memory(0, dtype=dtype), Memory(0, dtype=dtype), 1000)
    mesh = Mesh(WSE2, 1, 1)
    mesh.run(builder.build(), 0, 0)
    mesh.load(values, 0, 0, 1000)
    found = simulate(mesh).expect_finished().read(0, 0, 0, 1000, dtype).astype(np.float64)
    exact = rounded(values, dtype).astype(np.float64)
    expected = 1 / exact if op == "reciprocal" else getattr(np, op)(exact)
    digits = {"float32": 23, "float16": 10, "bfloat16": 7}[dtype]
    smallest = {"float32": -126, "float16": -14, "bfloat16": -126}[dtype]
    ulp = np.exp2(np.maximum(np.floor(np.log2(np.maximum(np.abs(expected), 1e-30))), smallest) - digits)
    assert (np.abs(found - expected) <= ulp).all()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.sampled_from([*FLOATS, "uint16"]), st.integers(1, 21), st.sampled_from([WSE2, WSE3]), st.integers(0, 3))
def test_elements_of_16_bits_travel_two_to_a_wavelet(dtype, length, machine, at):
    values = np.random.default_rng(length).integers(0, 2**16, 64).astype(np.uint16).view(np.float32)
    left, right = Builder("sends", 32), Builder("takes", 32)
    left.move(Sent(0, dtype), Memory(at, dtype=dtype), length)
    right.move(Memory(0, dtype=dtype), Received(0, dtype), length)
    mesh = Mesh(machine, 2, 1)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [RAMP])
    mesh.run(left.build(), 0, 0)
    mesh.run(right.build(), 1, 0)
    mesh.load(values[:32], 0, 0)
    done = simulate(mesh).expect_finished()
    assert done.sent[0] == (length if dtype == "float32" else -(-length // 2))
    raw = {4: "float32", 2: "uint16"}[ITEM[dtype]]
    np.testing.assert_array_equal(
        done.read(1, 0, 0, length, raw).view(np.uint8), done.read(0, 0, at, length, raw).view(np.uint8)
    )


@pytest.mark.slow
def test_wavelets_of_16_bits_are_computed_on_as_they_pass():
    """Half precision over the wires, float32 in memory, an odd number of elements."""
    values = np.random.default_rng(1).standard_normal(7).astype(np.float16)
    left, right = Builder("sends", 8), Builder("adds", 8)
    left.mul(Sent(0, "float16"), Memory(0, dtype="float16"), 3.0, 7)
    right.fmac(Memory(0), Received(0, "float16"), 2.0, 1.0, 7)
    mesh = Mesh(WSE2, 2, 1)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [RAMP])
    mesh.run(left.build(), 0, 0)
    mesh.run(right.build(), 1, 0)
    mesh.load(values, 0, 0, dtype="float16")
    sent = values * np.float16(3)
    expected = sent.astype(np.float32) * np.float32(2) + np.float32(1)
    np.testing.assert_array_equal(simulate(mesh).expect_finished().read(1, 0, 0, 7), expected)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["move", "convert", "add", "sub", "mul", "max", "greater", "fmac"]),
    st.sampled_from(["float16", "bfloat16"]),
    st.sampled_from(["float16", "bfloat16"]),
    st.sampled_from(FLOATS),
    st.integers(1, 11),
    st.sampled_from([WSE2, WSE3]),
)
def test_what_passes_a_core_is_computed_in_the_type_that_it_leaves_in(op, taken, sent, kept, length, machine):
    """One core sends, one computes with what it has and sends on, one stores."""
    generator = np.random.default_rng(length)
    first, second, third = (rounded(generator.standard_normal(length), d) for d in (taken, kept, kept))
    sent = taken if op == "move" else sent
    sources = [Received(0, taken), Memory(0, dtype=kept), Memory(16, dtype=kept)][: OPERATIONS[op].sources]
    left, middle, right = (Builder(name, 32) for name in ("left", "middle", "right"))
    left.move(Sent(0, taken), Memory(0, dtype=taken), length)
    middle.append(Vector(op, (Sent(1, sent), *sources), length))
    right.move(Memory(0, dtype=sent), Received(1, sent), length)
    mesh = Mesh(machine, 3, 1)
    for colour in (0, 1):
        mesh.route(colour, colour, 0, RAMP, [EAST])
        mesh.route(colour, colour + 1, 0, WEST, [RAMP])
    for x, builder in enumerate((left, middle, right)):
        mesh.run(builder.build(), x, 0)
    mesh.load(first, 0, 0, dtype=taken)
    mesh.load(second, 1, 0, dtype=kept)
    mesh.load(third, 1, 0, 16, kept)
    done = simulate(mesh).expect_finished()
    values = [rounded(v, sent) for v in (first, second, third)][: OPERATIONS[op].sources]
    expected = [Interpreter._compute(op, sent, [v[i] for v in values]) for i in range(length)]
    np.testing.assert_array_equal(done.read(2, 0, 0, length, sent).astype(np.float32), np.float32(expected))
    assert done.sent == dict.fromkeys((0, 1), -(-length // 2))


@pytest.mark.slow
@pytest.mark.parametrize("op", [name for name, row in OPERATIONS.items() if row.is_integer])
def test_bits_are_numpys_in_both_readings_and_conversions_leave_out_fractions(op):
    of_bits = {"bit_and": np.bitwise_and, "bit_xor": np.bitwise_xor, "shift_left": np.left_shift}
    a, b = np.array([0, 1, 0xFFFF, 0x8001, 0xABCD, 7], np.uint16), np.array([0, 15, 5, 1, 3, 2], np.uint16)
    fractions = np.array([0.9, 65535.5, 3, 2.5, 1e-9, 256.25], np.float32)
    builder = Builder("bits", 18)
    one, other, result, whole = (Memory(base, dtype="uint16") for base in (0, 6, 24, 30))
    builder.bits(op, result, one, other, 6)
    builder.convert(whole, Memory(6), 6)
    phase = Local(Rect(0, 0, 1, 1), builder.build().tasks[0][1])
    memory = np.zeros((1, 1, 18), np.float32)
    memory[0, 0, :12] = np.concatenate([np.concatenate([a, b]).view(np.float32), fractions])
    for done in (apply(phase, memory), simulate_phase(phase, WSE2, memory).memory):
        halves = np.ascontiguousarray(done).view(np.uint16)[0, 0]
        np.testing.assert_array_equal(halves[24:30], of_bits.get(op, np.right_shift)(a, b))
        np.testing.assert_array_equal(halves[30:36], fractions.astype(np.uint16))


@pytest.mark.slow
def test_an_index_is_added_to_the_base_and_checked_when_it_is_read():
    table = np.arange(24, dtype=np.float32)
    builder = Builder("looks up", 32)
    builder.move(Memory(28), Memory(0, index=48, index_step=4), 4)
    mesh = Mesh(WSE2, 3, 1)
    mesh.run(builder.build(), slice(None), 0)
    mesh.load(table, slice(None), 0)
    mesh.load(np.array([[3], [0], [5]]), slice(None), 0, 48, "uint16")
    done = simulate(mesh)
    assert done.status == "finished"
    np.testing.assert_array_equal(done.read(slice(None), 0, 28, 4)[:, 0], [12, 0, 20])
    mesh.load(np.array([[3], [8], [65535]]), slice(None), 0, 48, "uint16")
    for engine in ("list", "scan"):
        done = simulate(mesh, engine)
        assert done.status == "error"
        where = "looks up, main.0, `move [28], [0 + 4 * (48)] x4`: an index points outside the memory"
        assert done.waits == (f"core (1, 0): {where}", f"core (2, 0): {where}")
    with pytest.raises(LazyError, match="error after 1 cycles"):
        done.expect_finished()


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda b: b.move(Memory(0), Memory(0, dtype="float16"), 2), "a move has operands of different types"),
        (lambda b: b.add(Memory(0), Memory(0, dtype="uint16"), 1.0, 2), "arithmetic is not defined for uint16"),
        (
            lambda b: b.bits("bit_and", Memory(0), Memory(2, dtype="uint16"), 1.0, 2),
            "bitwise operands are float32, uint16",
        ),
        (lambda b: b.convert(Memory(0), Memory(0, dtype="float8"), 2), "element type 'float8' is not supported"),
        (lambda b: b.convert(Sent(0), Received(1, "float16"), 2), "wavelets of 32 and of 16 bits"),
        (lambda b: b.move(Memory(0), Memory(0, outer=((4, 1),)), 6), r"6 elements do not fit 1 outer extents \[4\]"),
        (lambda b: b.move(Memory(0), Memory(0, outer=((1, 1),) * 4), 6), "6 elements do not fit 4 outer extents"),
        (lambda b: b.move(Memory(0), Memory(0, steps=(1,)), 1), "1 steps, but only 0 loops"),
        (lambda b: b.move(Memory(0), Memory(0, 4, outer=((2, 1),)), 6), "reaches from element 0 to 9 of 8"),
        (lambda b: b.move(Memory(0), Memory(0, index=16), 1), "the index is element 16 of 16"),
        (lambda b: b.move(Memory(9, dtype="float16"), Memory(0, dtype="float16"), 8), "from element 9 to 16 of 16"),
        (lambda b: b.append(Vector("mod", (Memory(0), 1.0), 1)), "operation 'mod' is unknown"),
        (lambda b: b.append(Vector("add", (Memory(0), 1.0), 1)), "the operation has 1 sources, in"),
        (lambda b: b.append(LoopEnd()), "the loop end has no loop start"),
        (lambda b: b.append(LoopStart(2)), "a loop of 2 rounds has no end"),
        (lambda b: b.move(Memory(0), 1.0, 1, advance=True), "advance is set, but the target is not a colour"),
    ],
)
def test_operands_that_cannot_be_are_refused(build, message):
    builder = Builder("bad", 8)
    build(builder)
    with pytest.raises(LazyError, match=message):
        builder.build()


def test_steps_are_checked_over_all_rounds():
    builder = Builder("bad", 8)
    with builder.loop(3), builder.loop(2):
        builder.move(Memory(0), Memory(0, steps=(2, 3)), 2)
    with pytest.raises(LazyError, match="reaches from element 0 to 8 of 8"):
        builder.build()


@pytest.mark.parametrize("machine", [m for m in MACHINES.values() if m.width > 8], ids=lambda m: m.name)
def test_16_bit_types_run_at_their_rate(machine):
    """The cycles of a long operation without conflicts are its setup and its elements over the machine's rate."""
    for dtype, fields in (("float16", "f16"), ("float32", "f32")):
        operation = Vector("add", (Memory(0, dtype=dtype), Memory(0, dtype=dtype), 1.0), 4000)
        expected = 4000 / getattr(machine, f"add_{fields}_per_cycle")
        assert body_cycles((operation,), machine) == pytest.approx(expected + machine.loaded_setup_cycles, abs=1)


def test_codes_of_operations_are_in_the_order_of_their_table():
    assert [getattr(record, name.upper()) for name in OPERATIONS] == list(range(len(OPERATIONS)))
