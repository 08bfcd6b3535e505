"""Phases as wavelets: what lies in the memories afterwards, barriers, parts at once, and what is refused."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from lazytensor.errors import LazyError
from wse_sim.cost_model.collectives import shift_pairs
from wse_sim.cost_model.cost import cost
from wse_sim.fabric import ALGORITHMS, simulate_phase
from wse_sim.fabric.lowering.lines import colour_paths
from wse_sim.isa.core_program import LoopEnd, LoopStart, Memory, Vector
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE2, WSE3
from wse_sim.phase import AllReduce, Broadcast, Compute, Local, Par, Reduce, Repeat, Seq, Shift, Stream
from wse_sim.reference.phase_reference import apply
from wse_sim.testing import phase_programs

WIDTH, HEIGHT, WORDS = 8, 7, 64
MOST = 12
some = settings(max_examples=30, deadline=None)
counts = st.integers(1, MOST)
addresses = st.integers(0, WORDS - 3 * MOST)
strides = st.integers(1, 3)
wraps = st.sampled_from(["", "line", "folded"])
machines = st.sampled_from([TINY, WSE2, WSE3])


def memory(seed: int = 0) -> np.ndarray:
    """Whole numbers, so that sums do not depend on their order."""
    return np.random.default_rng(seed).integers(-99, 99, (HEIGHT, WIDTH, WORDS)).astype(np.float32)


@st.composite
def rects(draw) -> Rect:
    x, y = draw(st.integers(0, WIDTH - 1)), draw(st.integers(0, HEIGHT - 1))
    return Rect(x, y, draw(st.integers(1, WIDTH - x)), draw(st.integers(1, HEIGHT - y)))


@st.composite
def lined(draw, kind, **more):
    """A phase of `kind` on a random rectangle, axis and number of groups."""
    rect = draw(rects())
    axis = draw(st.sampled_from(["x", "y", "xy"]))
    groups = draw(st.integers(1, {"x": rect.width, "y": rect.height, "xy": 1}[axis]))
    return kind(rect, axis, draw(counts), groups, **{name: draw(values) for name, values in more.items()})


def lines_of(data: np.ndarray, rect: Rect, axis: str, groups: int = 1) -> list[np.ndarray]:
    """Views [positions, words] of all lines."""
    own = data[rect.y : rect.y + rect.height, rect.x : rect.x + rect.width]
    if axis == "xy":
        return [own]
    rows = own if axis == "x" else own.swapaxes(0, 1)
    size = rows.shape[1] // groups
    return [row[g * size : (g + 1) * size] for row in rows for g in range(groups)]


def ran(phase, before, machine=WSE2):
    return simulate_phase(phase, machine, before).expect_finished().memory


def ran_cycles(phase, before, machine):
    return simulate_phase(phase, machine, before).expect_finished().cycles


@pytest.mark.slow
@some
@given(
    rects(), st.sampled_from("xy"), counts, st.integers(-8, 8), wraps, addresses, addresses, strides, strides, machines
)
@example(Rect(0, 0, 1, 1), "x", 4, 1, "line", 0, 1, 2, 1, WSE2)
@example(Rect(0, 0, 1, 1), "x", 4, 1, "line", 1, 0, 1, 2, WSE2)
def test_a_shift_moves_what_every_pe_had(rect, axis, words, hops, wrap, take, put, take_stride, put_stride, machine):
    """A ring of one PE is a copy, also if its words overlap."""
    before = memory()
    expected = before.copy()
    sent = slice(take, take + words * take_stride, take_stride)
    stored = slice(put, put + words * put_stride, put_stride)
    for old, new in zip(lines_of(before, rect, axis), lines_of(expected, rect, axis), strict=True):
        pairs = shift_pairs(len(old), hops, wrap)
        for i, j in pairs:
            new[j, stored] = old[i, sent]
        if wrap and not pairs:
            new[:, stored] = old[:, sent]
    phase = Shift(rect, axis, words, hops, wrap, take, put, take_stride, put_stride)
    done = simulate_phase(phase, machine, before).expect_finished()
    np.testing.assert_array_equal(done.memory, expected)
    np.testing.assert_array_equal(apply(phase, before), expected)
    # Every word costs the same, wherever it is in memory.
    dense = Shift(rect, axis, words, hops, wrap, 0, MOST)
    if not phase.overlaps and not wrap:
        assert cost(phase, machine) == cost(dense, machine)
        assert done.cycles == ran_cycles(dense, before, machine)


@pytest.mark.slow
@some
@given(lined(Broadcast, take=addresses, put=addresses), st.integers(0, 99), machines)
def test_a_broadcast_reaches_every_pe_from_any_source(phase, place, machine):
    length = phase.rect.area if phase.axis == "xy" else max(map(len, lines_of(memory(), *_where(phase))))
    phase = Broadcast(*_where(phase)[:2], phase.words, phase.groups, place % length, phase.take, phase.put)
    before = memory()
    expected = before.copy()
    took, put = (slice(at, at + phase.words) for at in (phase.take, phase.put))
    for old, new in zip(lines_of(before, *_where(phase)), lines_of(expected, *_where(phase)), strict=True):
        new[..., put] = old.reshape(-1, WORDS)[phase.source, took]
    np.testing.assert_array_equal(ran(phase, before, machine), expected)


def _where(phase):
    return phase.rect, phase.axis, phase.groups


COMBINED = {"add": np.sum, "max": np.max}
algorithms = st.sampled_from(["", *sorted(ALGORITHMS)])
combinations = st.sampled_from(sorted(COMBINED))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(lined(Reduce, algorithm=algorithms, at=addresses, combine=combinations), machines)
def test_reductions_combine_every_line_at_its_position_0(phase, machine):
    before = memory()
    after = ran(phase, before, machine)
    block = slice(phase.at, phase.at + phase.words)
    for old, new in zip(lines_of(before, *_where(phase)), lines_of(after, *_where(phase)), strict=True):
        flat = old[..., block].reshape(-1, phase.words)
        np.testing.assert_array_equal(new.reshape(-1, WORDS)[0, block], COMBINED[phase.combine](flat, 0))
    after[..., block] = before[..., block]
    np.testing.assert_array_equal(after, before)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(lined(AllReduce, algorithm=algorithms | st.just("ring"), at=addresses, combine=combinations), machines)
def test_all_reductions_give_every_pe_the_result(phase, machine):
    before = memory()
    expected = before.copy()
    block = slice(phase.at, phase.at + phase.words)
    for old, new in zip(lines_of(before, *_where(phase)), lines_of(expected, *_where(phase)), strict=True):
        new[..., block] = COMBINED[phase.combine](old[..., block].reshape(-1, phase.words), 0)
    np.testing.assert_array_equal(ran(phase, before, machine), expected)


@pytest.mark.slow
@some
@given(
    rects().filter(lambda r: r.width < WIDTH and r.height < HEIGHT), st.integers(0, 400), st.integers(0, 4), machines
)
@example(Rect(0, 0, 2, 2), 1, 0, WSE2)
def test_a_stream_in_gives_every_pe_its_block_and_a_stream_out_brings_it_back(rect, size, at, machine):
    before = np.random.default_rng(1).integers(-99, 99, (HEIGHT, WIDTH, 600)).astype(np.float32)
    count, length = max(rect.height, rect.width), min(rect.height, rect.width)
    words = -(-size // (4 * count))
    inside = ran(Stream(rect, size, "in", at=at), before, machine)
    x, y = slice(rect.x, rect.x + rect.width), slice(rect.y, rect.y + rect.height)
    if rect.height >= rect.width:
        feeder = (y, rect.x - 1 if rect.x else rect.width)
        blocks, held = inside[y, x], before[feeder]
    else:
        feeder = (rect.y - 1 if rect.y else rect.height, x)
        blocks, held = inside[y, x].swapaxes(0, 1), before[feeder]
    share = -(-words // length)
    for i in range(length):
        part = held[:, at + i * share : at + min((i + 1) * share, words)]
        np.testing.assert_array_equal(blocks[:, i, at : at + part.shape[1]], part)
    wiped = inside.copy()
    wiped[feeder] = 0
    back = ran(Stream(rect, size, "out", at=at), wiped, machine)
    np.testing.assert_array_equal(back[feeder][:, at : at + words], held[:, at : at + words])


@pytest.mark.slow
def test_local_work_runs_on_every_pe_of_its_rectangle():
    before = memory()
    add = Vector("add", (Memory(3), Memory(3), 2.0), 5)
    after = ran(Local(Rect(1, 2, 3, 4), (LoopStart(3), add, LoopEnd())), before)
    expected = before.copy()
    expected[2:6, 1:4, 3:8] += 6
    np.testing.assert_array_equal(after, expected)


@pytest.mark.slow
def test_compute_changes_no_word():
    before = memory()
    for op in ("add", "fma", "move"):
        np.testing.assert_array_equal(ran(Compute(Rect(0, 0, 8, 7), op, 3, 9, 4, 12.5), before), before)


@pytest.mark.slow
def test_parts_of_a_sequence_and_rounds_of_a_repetition_add_up():
    rect, before = Rect(0, 0, 5, 3), memory()
    parts = (Reduce(rect, "x", 6, algorithm="tree"), Broadcast(rect, "xy", 6), Shift(rect, "y", 4, 1, "line"))
    whole = simulate_phase(Repeat(2, Seq(parts)), WSE2, before).expect_finished()
    cycles, data, busy = 0, before, 0
    for part in parts * 2:
        done = simulate_phase(part, WSE2, data).expect_finished()
        cycles, data, busy = cycles + done.cycles, done.memory, busy + done.counters["busy"]
    assert whole.cycles == cycles == whole.finished.max()
    np.testing.assert_array_equal(whole.memory, data)
    np.testing.assert_array_equal(whole.counters["busy"], busy)
    assert sum(whole.sent.values()) > 0


@pytest.mark.slow
def test_without_barriers_a_program_takes_no_longer():
    rect, before = Rect(0, 0, 8, 7), memory()
    phase = Seq((Broadcast(rect, "x", 6), Broadcast(rect, "y", 6), Shift(rect, "x", 4), Broadcast(rect, "x", 9)))
    apart = simulate_phase(phase, WSE2, before).expect_finished()
    at_once = simulate_phase(phase, WSE2, before, overlap=True).expect_finished()
    assert at_once.cycles < apart.cycles
    np.testing.assert_array_equal(at_once.memory, apart.memory)


@pytest.mark.slow
@some
@given(st.lists(st.one_of(lined(Broadcast), lined(Reduce, algorithm=algorithms)), min_size=2, max_size=3), machines)
def test_parts_at_once_give_what_they_give_one_after_another(parts, machine):
    """Each part has words of its own."""
    own = [_moved(part, i * MOST) for i, part in enumerate(parts)]
    before = memory()
    together, apart = ran(Par(tuple(own)), before, machine), ran(Seq(tuple(own)), before, machine)
    np.testing.assert_array_equal(together, apart)


def _moved(phase, at):
    if isinstance(phase, Broadcast):
        return Broadcast(*_where(phase)[:2], phase.words, phase.groups, 0, at, at)
    return Reduce(*_where(phase)[:2], phase.words, phase.groups, phase.algorithm, 0, at)


@pytest.mark.slow
def test_moves_of_several_steps_run_beside_local_work():
    rect, before = Rect(0, 0, 8, 7), memory()
    add = Vector("add", (Memory(30), Memory(30), 1.0), 4)
    parts = (
        AllReduce(rect, "x", 6, algorithm="two_phase"),
        AllReduce(rect, "y", 5, algorithm="tree", at=10),
        Shift(rect, "x", 4, 1, "folded", 20, 20),
        Local(rect, (LoopStart(9), add, LoopEnd())),
        Compute(rect, "fma", 3, 5, 4),
    )
    together = simulate_phase(Par(parts), WSE2, before).expect_finished()
    apart = simulate_phase(Seq(parts), WSE2, before).expect_finished()
    np.testing.assert_array_equal(together.memory, apart.memory)
    assert together.cycles < apart.cycles


@some
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).filter(lambda p: p[0] != p[1]), max_size=30))
def test_ways_that_meet_have_different_colours_and_no_more_than_meet(pairs):
    colours = colour_paths(pairs)
    spans = [(min(p), max(p)) for p in pairs]
    for a in range(len(pairs)):
        for b in range(a):
            if colours[a] == colours[b]:
                assert spans[a][1] < spans[b][0] or spans[b][1] < spans[a][0]
    meet = [sum(low <= k <= high for low, high in spans) for k in range(21)]
    assert max(colours, default=-1) + 1 == max(meet)


def words_of(phase, side: int) -> np.ndarray:
    """Random words; reductions get small whole numbers of their type, so that no sum is infinite."""
    random = np.random.default_rng(5)
    shape = (side + 4, side + 4, phase_programs.MEMORY_WORDS)
    if not isinstance(phase, Reduce | AllReduce):
        return random.standard_normal(shape).astype(np.float32)
    values = random.standard_normal((*shape[:2], 2 * shape[2])).astype(np.float32)
    if phase.dtype == "float32":
        return values[..., : shape[2]].copy()
    halves = values.astype(np.float16) if phase.dtype == "float16" else (values.view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(halves).view(np.float32)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(phase_programs.rects(9).flatmap(phase_programs.leaves), st.sampled_from([WSE2, WSE3]))
def test_every_leaf_leaves_in_memory_what_its_reading_as_data_says(phase, machine):
    """To the last bit; of a reduction the results alone are defined."""
    before = words_of(phase, 9)
    after, expected = ran(phase, before, machine), apply(phase, before, machine)
    if isinstance(phase, Reduce):
        ends = [
            [line.reshape(-1, line.shape[-1])[0] for line in lines_of(data, *_where(phase))]
            for data in (after, expected)
        ]
        after, expected = np.stack(ends[0]), np.stack(ends[1])
    np.testing.assert_array_equal(after.view(np.uint32), expected.view(np.uint32))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(phase_programs.programs(7), st.sampled_from([WSE2, WSE3]))
def test_programs_without_reductions_agree_with_their_reading_as_data(phase, machine):
    """Whole numbers, which are numbers too if they are taken for two halves."""
    before = np.rint(9 * words_of(Seq(()), 7))
    assume(not any(isinstance(leaf, Reduce) for leaf in leaves_of(phase)))
    np.testing.assert_array_equal(ran(phase, before, machine), apply(phase, before, machine))


def leaves_of(phase):
    parts = phase.parts if isinstance(phase, Seq | Par) else [phase.body] if isinstance(phase, Repeat) else []
    return [leaf for part in parts for leaf in leaves_of(part)] or [phase]


@pytest.mark.parametrize(
    "phase, message",
    [
        (Stream(Rect(0, 0, WIDTH, HEIGHT + 1), 8, "in"), "needs a core next to the rectangle"),
        (Par((Broadcast(Rect(0, 0, 2, 1), "x", 1), Seq((Par(()),)))), "a Par inside a part"),
        (Shift(Rect(0, 0, 60, 1), "x", 1, 24), "colour 24 does not exist"),
    ],
)
def test_what_has_no_lowering_is_refused(phase, message):
    with pytest.raises(LazyError, match=message):
        simulate_phase(phase, WSE2, np.zeros((HEIGHT + 1, 60 if isinstance(phase, Shift) else WIDTH, 4), np.float32))


@pytest.mark.parametrize("wrong", [np.zeros((2, 2, 2)), np.zeros((2, 2), np.float32)])
def test_a_memory_of_another_form_is_refused(wrong):
    with pytest.raises(LazyError, match=r"Give an array \[height, width, words\] of 32-bit elements"):
        simulate_phase(Broadcast(Rect(0, 0, 2, 1), "x", 1), WSE2, wrong)
