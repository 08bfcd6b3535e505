"""Laws of the data reading: moves as permutations and sums, instructions as a core runs them one by one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor.core.dtype import dtype_by_name, round_to
from lazytensor.errors import LazyError
from tests.wse_sim.programs import patient, quick, rects
from tests.wse_sim.reference.instructions import WORDS, SlowCore, bodies
from wse_sim.fabric import ALGORITHMS, simulate_phase
from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory, TaskChange, Vector
from wse_sim.isa.packing import decode_bits, pack, unpack, view_elements, word_count
from wse_sim.layout import Rect
from wse_sim.machine import WSE2
from wse_sim.phase import AllReduce, Broadcast, Compute, Local, Par, Reduce, Repeat, Seq, Shift
from wse_sim.reference.core_reference import run_local
from wse_sim.reference.phase_reference import apply

seeds = st.integers(0, 2**32 - 1)
small_rects = rects(6, 6)
dtypes = st.sampled_from(["float32", "float16", "bfloat16"])
orders = st.sampled_from(["", "star", "chain", "tree", "two_phase"])


def memory_of(rect: Rect, seed: int, words: int = 8) -> np.ndarray:
    """Any bits, on a mesh that is one PE larger than the rectangle reaches."""
    extents = rect.y + rect.height + 1, rect.x + rect.width + 1, words
    return np.random.default_rng(seed).integers(0, 2**32, extents, np.uint32)


def inside(memory: np.ndarray, rect: Rect) -> np.ndarray:
    return memory[rect.y : rect.y + rect.height, rect.x : rect.x + rect.width]


def outside(memory: np.ndarray, rect: Rect) -> np.ndarray:
    rest = memory.copy()
    inside(rest, rect)[:] = 0
    return rest


@patient
@given(small_rects, st.sampled_from("xy"), st.integers(-7, 7), seeds)
def test_shift_and_back_keeps_all_that_stayed_on_the_line(rect, axis, hops, seed):
    memory = memory_of(rect, seed)
    there, back = Shift(rect, axis, 3, hops, take=1, put=4), Shift(rect, axis, 3, -hops, take=4, put=1)
    moved = apply(there, memory)
    np.testing.assert_array_equal(apply(back, moved)[..., 1:4], memory[..., 1:4])
    np.testing.assert_array_equal(np.delete(moved, [4, 5, 6], 2), np.delete(memory, [4, 5, 6], 2))
    np.testing.assert_array_equal(outside(moved, rect), outside(memory, rect))


@patient
@given(small_rects, st.sampled_from("xy"), st.integers(-7, 7), st.sampled_from(["line", "folded"]), seeds)
def test_ring_comes_home_after_as_many_shifts_as_it_has_pes(rect, axis, hops, wrap, seed):
    memory = memory_of(rect, seed)
    length = rect.width if axis == "x" else rect.height
    one = Shift(rect, axis, 3, hops, wrap, 2, 2)
    np.testing.assert_array_equal(apply(Repeat(length, one), memory), memory)
    np.testing.assert_array_equal(apply(replace(one, hops=hops % length), memory), apply(one, memory))


@patient
@given(small_rects, st.sampled_from("xy"), st.sampled_from([1, -1]), seeds)
def test_folded_ring_reaches_no_further_than_two_pes(rect, axis, hops, seed):
    memory = memory_of(rect, seed)
    along = 1 if axis == "x" else 0
    memory[..., 0] = np.indices(memory.shape[:2])[along]
    came = inside(apply(Shift(rect, axis, 1, hops, "folded", 0, 1), memory), rect)
    length = came.shape[along]
    if length > 1:
        assert abs(came[..., 1].astype(int) - came[..., 0].astype(int)).max() <= 2
        assert (came[..., 1] != came[..., 0]).all()


@patient
@given(small_rects, st.sampled_from(["x", "y", "xy"]), st.data(), seeds)
def test_broadcast_gives_the_words_of_its_source_to_all(rect, axis, data, seed):
    memory = memory_of(rect, seed)
    length = {"x": rect.width, "y": rect.height, "xy": 1}[axis]
    groups = data.draw(st.integers(1, length))
    size = rect.area if axis == "xy" else length // groups
    source = data.draw(st.integers(0, size - 1))
    done = apply(Broadcast(rect, axis, 2, groups, source, take=1, put=5), memory)
    here, was = inside(done, rect), inside(memory, rect)
    if axis == "y":
        here, was = here.swapaxes(0, 1), was.swapaxes(0, 1)
    if axis == "xy":
        here, was = here.reshape(1, -1, 8), was.reshape(1, -1, 8)
    for first in range(0, size * groups, size):
        sent = was[:, first + source, None, 1:3]
        np.testing.assert_array_equal(here[:, first : first + size, 5:7], np.broadcast_to(sent, (len(was), size, 2)))
    np.testing.assert_array_equal(here[:, size * groups :], was[:, size * groups :])


@patient
@given(small_rects, st.sampled_from(["x", "y", "xy"]), orders, dtypes, st.sampled_from(["add", "max"]), seeds)
def test_all_reduce_is_a_reduction_that_all_get(rect, axis, order, dtype, combine, seed):
    """Of small whole numbers, whose sums are exact in every type and order."""
    numbers = np.random.default_rng(seed).integers(-3, 4, (*memory_of(rect, 0).shape[:2], 4)).astype(np.float32)
    memory = pack(numbers, dtype)
    words = memory.shape[-1]
    done = unpack(apply(AllReduce(rect, axis, words, 1, order, dtype=dtype, combine=combine), memory), dtype, 4)
    of = np.max if combine == "max" else np.sum
    axes = {"x": 1, "y": 0, "xy": (0, 1)}[axis]
    expected = np.broadcast_to(of(inside(numbers, rect), axes, keepdims=True), inside(numbers, rect).shape)
    np.testing.assert_array_equal(inside(done, rect), expected)
    np.testing.assert_array_equal(outside(done, rect), outside(numbers, rect))
    root = apply(Reduce(rect, axis, words, 1, order, dtype=dtype, combine=combine), memory)
    np.testing.assert_array_equal(unpack(inside(root, rect)[0, 0], dtype, 4), expected[0, 0])


@pytest.mark.slow
@settings(patient, max_examples=100)
@given(
    rects(6, 5),
    st.sampled_from(["x", "y", "xy"]),
    st.sampled_from(["", "ring", *sorted(ALGORITHMS)]),
    st.integers(1, 9),
    dtypes,
    seeds,
)
def test_reductions_add_in_the_order_of_the_wavelets(rect, axis, algorithm, words, dtype, seed):
    memory = pack(np.random.default_rng(seed).standard_normal((14, 15, 20)), dtype)
    phase = AllReduce(rect, axis, words, 1, algorithm, at=1, dtype=dtype)
    done = simulate_phase(phase, WSE2, memory).expect_finished()
    np.testing.assert_array_equal(apply(phase, memory, WSE2), done.memory)


@quick
@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), seeds)
def test_groups_are_lines_of_their_own(length, groups, lines, seed):
    rect = Rect(1, 0, length * groups + groups - 1, lines)
    memory = memory_of(rect, seed)
    done = apply(AllReduce(rect, "x", 8, groups, "chain"), memory)
    for g in range(groups):
        alone = Rect(1 + g * (rect.width // groups), 0, rect.width // groups, lines)
        np.testing.assert_array_equal(
            inside(done, alone), inside(apply(AllReduce(alone, "x", 8, 1, "chain"), memory), alone)
        )


@patient
@given(small_rects, st.integers(0, 3), seeds)
def test_composition_is_that_of_functions(rect, times, seed):
    memory = memory_of(rect, seed)
    turn, spread = Shift(rect, "x", 4, 1, "line", 0, 4), Broadcast(rect, "y", 4, take=4, put=0)
    body = Seq((turn, Compute(rect, "add", 3, 4, 4), spread))
    expected = memory
    for _ in range(times):
        expected = apply(spread, apply(turn, expected))
    before = memory.copy()
    np.testing.assert_array_equal(apply(Repeat(times, body), memory), expected)
    np.testing.assert_array_equal(apply(Par((Repeat(times, body),)), memory), expected)
    np.testing.assert_array_equal(memory, before)


@settings(patient, max_examples=200)
@given(bodies(), seeds)
def test_instructions_do_what_a_core_does_element_by_element(body, seed):
    """Unless something is no number, of which there are many."""
    rng = np.random.default_rng(seed)
    kind = "bfloat16" if seed % 2 else "float32"
    memory = pack(rng.choice([0, 1, 1.5, -2, 700], (3, 1, WORDS * (1 + seed % 2))) + rng.normal(size=(3, 1, 1)), kind)
    memory[..., 0] = rng.integers(0, 3, (3, 1))
    done = apply(Local(Rect(0, 0, 1, 2), body), memory)
    for y in range(2):
        core = SlowCore(memory[y, 0])
        with np.errstate(all="ignore"):
            core.run(body)
        if not core.has_nan:
            np.testing.assert_array_equal(done[y, 0], core.words())
    np.testing.assert_array_equal(done[2], memory[2])


def test_destination_that_stands_still_adds_up_in_order():
    b = Builder("sum", 4)
    total = Memory(0, 0)
    b.add(total, total, Memory(1), 3)
    values = np.array([1e8, 1, -1e8, 1], np.float32)
    found = run_local(b.build().tasks[0][1], values)
    assert found[0] == np.float32(np.float32(np.float32(np.float32(1e8) + 1) - np.float32(1e8)) + 1)
    assert values[0] == np.float32(1e8)


@patient
@given(st.lists(st.floats(width=32), max_size=7), dtypes)
def test_packed_values_come_back_rounded(values, dtype):
    given = np.array(values, np.float32)
    words = pack(given, dtype)
    assert len(words) == word_count(len(values), dtype)
    with np.errstate(over="ignore"):
        expected = round_to(given, dtype_by_name(dtype))
    np.testing.assert_array_equal(unpack(words, dtype, len(values)), expected)


def test_every_bit_pattern_of_a_half_is_kept():
    raw = np.arange(2**16, dtype=np.uint16)
    for dtype in ("float16", "bfloat16", "uint16"):
        values = unpack(raw.view(np.uint32), dtype, len(raw))
        again = view_elements(pack(values, dtype), dtype)
        is_nan = np.isnan(values)
        np.testing.assert_array_equal(again[~is_nan], raw[~is_nan])
        assert np.isnan(decode_bits(again, dtype)[is_nan]).all()


@pytest.mark.parametrize(
    "phase, text",
    [
        (Shift(Rect(0, 0, 2, 1), "x", 4, put=5), "words 5 to 8 of 8"),
        (Broadcast(Rect(0, 0, 2, 1), "x", 9), "words 0 to 8 of 8"),
        (AllReduce(Rect(0, 0, 2, 1), "x", 1, at=8), "words 8 to 8 of 8"),
        (Local(Rect(0, 0, 2, 1), (TaskChange("block", "main"),)), "the body of a Local cannot contain `block main`"),
    ],
)
def test_what_leaves_the_memory_is_refused(phase, text):
    with pytest.raises(LazyError, match=text):
        apply(phase, np.zeros((1, 2, 8), np.float32))


def test_an_index_that_leads_out_of_the_memory_is_refused_with_its_pe():
    b = Builder("named", 4)
    b.move(Memory(1), Memory(2, index=0, index_step=1), 1)
    body = b.build().tasks[0][1]
    memory = np.zeros((1, 3, 4), np.uint32)
    memory[0, 1, 0] = 2
    with pytest.raises(LazyError, match="reaches element 4 of 4 on PE 1"):
        apply(Local(Rect(0, 0, 3, 1), body), memory)


def test_memory_has_words_of_32_bits():
    with pytest.raises(LazyError, match="the memory is an array of float64"):
        apply(Seq(()), np.zeros((1, 1, 2)))


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_a_zero_has_its_own_sign_whichever_came_first(zeros):
    memory = np.ones((1, 1, 4), np.uint32)
    for zero in zeros:
        move = Vector("move", (Memory(base=2, stride=0, dtype="float32"), zero), 1)
        assert apply(Local(Rect(0, 0, 1, 1), (move,)), memory)[0, 0, 2] == np.float32(zero).view(np.uint32)
