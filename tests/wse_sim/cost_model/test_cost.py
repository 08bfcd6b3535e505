"""Laws of the fold: Seq adds, Par takes the maximum, Repeat multiplies, traffic is conserved, better is not slower."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lazytensor.errors import LazyError
from tests.wse_sim.programs import leaves, machines, patient, phases
from wse_sim.cost_model.cost import ZERO_COST, Cost, cost
from wse_sim.fabric.lowering.simulate import simulate_phase
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE2
from wse_sim.phase import EMPTY_PHASE, AllReduce, Broadcast, Compute, Par, Reduce, Repeat, Rounds, Seq, Shift, Stream

PES = Rect(0, 0, 8, 8)


def traffic(c: Cost) -> tuple[int, int, int]:
    return c.bytes_in, c.bytes_out, c.wire_words


@patient
@given(phases(), phases(), phases())
def test_grouping_does_not_matter(a, b, c):
    for form in (Seq, Par):
        flat = cost(form((a, b, c)), TINY)
        assert cost(form((a, form((b, c)))), TINY) == flat == cost(form((form((a, b)), c)), TINY)


@patient
@given(phases(), phases())
def test_order_does_not_matter_for_the_total(a, b):
    assert cost(Par((a, b)), TINY) == cost(Par((b, a)), TINY)
    assert cost(Seq((a, b)), TINY) == cost(Seq((b, a)), TINY)


@patient
@given(phases(), phases())
def test_seq_adds_and_par_takes_at_least_the_maximum(a, b):
    one, other = cost(a, TINY), cost(b, TINY)
    assert cost(Seq((a, b)), TINY).cycles == one.cycles + other.cycles
    assert cost(Par((a, b)), TINY).cycles >= max(one.cycles, other.cycles)


@patient
@given(st.lists(leaves(), max_size=4))
def test_leaves_at_the_same_time_take_no_longer_than_one_after_another(parts):
    assert cost(Par(tuple(parts)), TINY).cycles <= cost(Seq(tuple(parts)), TINY).cycles


@patient
@given(leaves(), leaves())
def test_parts_on_cores_of_their_own_take_the_maximum(a, b):
    apart = replace(b, rect=replace(b.rect, x=b.rect.x + 100))
    taken = cost(Par((a, apart)), TINY)
    assert taken == cost(a, TINY).overlap(cost(apart, TINY))


def test_work_on_the_same_cores_takes_turns():
    """Two local parts share one thread; a stream beside a sum of many elements loses a turn for each of them."""
    work, stream = Compute(PES, "fma", 1, 5000, 4), Broadcast(PES, "x", 100)
    assert cost(Par((work, work)), TINY).cycles == 2 * cost(work, TINY).cycles
    assert cost(Par((work, stream)), TINY).cycles == pytest.approx(cost(work, TINY).cycles + 100, abs=2)
    assert cost(Par((stream, stream)), TINY).cycles == cost(stream, TINY).cycles + 100 + 1


@patient
@given(phases(), phases())
def test_traffic_adds_whatever_the_order(a, b):
    one, other = traffic(cost(a, TINY)), traffic(cost(b, TINY))
    both = tuple(x + y for x, y in zip(one, other, strict=True))
    assert traffic(cost(Seq((a, b)), TINY)) == traffic(cost(Par((a, b)), TINY)) == both


@patient
@given(phases(), st.integers(0, 6))
def test_repeat_is_a_sequence_of_copies(a, n):
    assert cost(Repeat(n, a), TINY) == cost(Seq((a,) * n), TINY)


@patient
@given(st.lists(phases(), max_size=6), st.integers(1, 8))
def test_rounds_are_priced_by_those_looked_at(parts, looks):
    """All of them, if each round is; with one look the middle one stands for all."""
    rounds = Rounds(len(parts), parts.__getitem__, len(parts) + looks)
    assert cost(rounds, TINY) == cost(Seq(tuple(parts)), TINY)
    if parts:
        middle = parts[len(parts) // 2]
        assert cost(replace(rounds, looks=1), TINY) == cost(Repeat(len(parts), middle), TINY)


@patient
@given(phases())
def test_idle_changes_nothing(a):
    assert cost(Seq((EMPTY_PHASE, a)), TINY) == cost(Par((a, EMPTY_PHASE)), TINY) == cost(a, TINY)
    assert cost(EMPTY_PHASE, TINY) == ZERO_COST


@patient
@given(phases(), machines())
def test_parts_of_the_time_are_at_most_the_time(a, machine):
    c = cost(a, machine)
    assert 0 <= c.latency_cycles <= c.cycles
    assert 0 <= c.compute_cycles <= c.cycles


FASTER = {
    "edge_bits_per_s": 2,
    "fma_f16_per_cycle": 2,
    "fma_f32_per_cycle": 2,
    "add_f16_per_cycle": 2,
    "add_f32_per_cycle": 2,
    "shifted_add_f32_per_cycle": 2,
    "conflict_add_f32_per_cycle": 2,
    "move_f16_per_cycle": 2,
    "move_f32_per_cycle": 2,
    "link_bits": 2,
    "wavelet_cycles": 0.5,
    "special_f16_cycles": 0.5,
    "special_f32_cycles": 0.5,
    "dsd_setup_cycles": 0.5,
    "hop_cycles": 0.5,
    "ramp_cycles": 0.5,
}
# But for ramps: those that take less hold less, and cores wait for each other, as the next test has it.
NEVER_SLOWER = sorted(FASTER.keys() - {"ramp_cycles"})


@patient
@given(phases(has_par=False), st.sampled_from(NEVER_SLOWER))
@example(Stream(Rect(0, 0, 4, 8), 1028, "in"), "hop_cycles")
def test_a_better_part_never_makes_a_phase_slower(a, name):
    """Parts at once are left out: a part that is faster may take turns from another one while it lasts."""
    better = replace(TINY, **{name: getattr(TINY, name) * FASTER[name]})
    assert cost(a, better).cycles <= cost(a, TINY).cycles


@pytest.mark.slow
def test_a_ramp_that_takes_less_holds_less_so_that_cores_wait_for_each_other():
    """Blocks of eight words, which longer ramps hold until the core begins: simulated cores are slower too."""
    stream, memory = Stream(Rect(0, 0, 4, 8), 1024, "in"), np.zeros((8, 8, 64), np.float32)
    short, long = (replace(TINY, ramp_cycles=cycles) for cycles in (1, 2))
    assert cost(stream, short).cycles > cost(stream, long).cycles
    for machine in (short, long):
        assert simulate_phase(stream, machine, memory).cycles == cost(stream, machine).cycles


BOUND_BY = {
    "edge_bits_per_s": Stream(Rect(0, 0, 16, 16), 4096, "in", "edge"),
    "fma_f16_per_cycle": Compute(PES, "fma", 1, 4096, 2),
    "fma_f32_per_cycle": Compute(PES, "fma", 1, 4096, 4),
    "add_f16_per_cycle": Compute(PES, "add", 1, 4096, 2),
    "add_f32_per_cycle": Compute(PES, "add", 1, 4096, 4),
    "shifted_add_f32_per_cycle": Compute(PES, "add", 1, 4096, 4, apart=1),
    "conflict_add_f32_per_cycle": Compute(PES, "add", 1, 4096, 4, apart=0),
    "move_f16_per_cycle": Compute(PES, "move", 1, 4096, 2),
    "move_f32_per_cycle": Compute(PES, "move", 1, 4096, 4),
    "link_bits": Stream(PES, 4096, "out"),
    "wavelet_cycles": Broadcast(PES, "x", 4096),
    "special_f16_cycles": Compute(PES, "special", 1, 4096, 2),
    "special_f32_cycles": Compute(PES, "special", 1, 4096, 4),
    "dsd_setup_cycles": Compute(PES, "add", 100, 1, 4),
    "hop_cycles": Shift(PES, "x", 1, 7),
    "ramp_cycles": Broadcast(PES, "x", 1),
}


@pytest.mark.parametrize("name", FASTER)
def test_each_parameter_is_felt_where_it_binds(name):
    better = replace(TINY, **{name: getattr(TINY, name) * FASTER[name]})
    assert cost(BOUND_BY[name], better).cycles < cost(BOUND_BY[name], TINY).cycles


def test_more_pes_are_not_always_faster():
    """Hops cost: the same words take longer over a longer line."""
    short, long = (cost(Reduce(Rect(0, 0, p, 1), "x", 16), WSE2).cycles for p in (64, 512))
    assert short < long


@patient
@given(leaves())
def test_only_streams_cross_the_border_of_a_rectangle(leaf):
    c = cost(leaf, TINY)
    moved = leaf.bytes if isinstance(leaf, Stream) else 0
    assert c.bytes_in + c.bytes_out == moved


def test_vector_operation_takes_setup_and_its_elements():
    """1,028 elements in 1,034 cycles and 5,124 in 5,130: published counts of the WSE-2 simulator."""
    for n, cycles in ((1028, 1034), (5124, 5130)):
        assert cost(Compute(PES, "fma", 1, n, 4), WSE2).cycles == cycles
    assert cost(Compute(PES, "fma", 10, 8, 2), WSE2).cycles == 10 * (6 + 2)


def test_stream_is_bound_by_the_side_or_by_the_edge():
    """4,096 bytes are 1,024 words, 128 for each of 8 lines, 16 for each PE: more than the queues hold."""
    starts, step = 8 * TINY.dsd_setup_cycles, 1 + 2 * 2 + 1
    assert cost(Stream(PES, 4096, "in"), TINY).cycles == 128 + starts + step
    assert cost(Stream(PES, 4096, "out"), TINY).cycles == 128 + TINY.dsd_setup_cycles + step
    assert cost(Stream(PES, 2048, "in"), TINY).cycles == 64 + 2 * TINY.dsd_setup_cycles + step
    slow = replace(TINY, edge_bits_per_s=TINY.edge_bits_per_s / 4)
    assert cost(Stream(PES, 4096, "in", "edge"), slow).cycles == 4 * 128 + TINY.dsd_setup_cycles + step + 7
    assert cost(Stream(PES, 4096, "in", "fabric"), slow).cycles == 128 + starts + step


@pytest.mark.parametrize(
    "make",
    [
        lambda: Compute(PES, "dance", 1, 1, 4),
        lambda: Shift(PES, "xy", 1),
        lambda: Shift(PES, "x", 1, wrap="round"),
        lambda: Shift(PES, "x", 1, put=-1),
        lambda: Broadcast(PES, "z", 1),
        lambda: Broadcast(PES, "x", 1, groups=2, source=4),
        lambda: Broadcast(PES, "x", -1),
        lambda: Reduce(PES, "x", 1, dtype="int8"),
        lambda: Reduce(PES, "x", 1, combine="mul"),
        lambda: Reduce(PES, "x", 1, algorithm="ring"),
        lambda: AllReduce(PES, "x", 1, algorithm="round"),
        lambda: Reduce(PES, "x", 1, groups=9),
        lambda: Stream(PES, 1, "up"),
        lambda: Stream(PES, 1, "in", "window"),
        lambda: Repeat(-1, EMPTY_PHASE),
        lambda: Rounds(-1, lambda number: EMPTY_PHASE),
        lambda: Rounds(1, lambda number: EMPTY_PHASE, looks=0),
    ],
)
def test_impossible_phases_are_refused(make):
    with pytest.raises(LazyError) as caught:
        make()
    assert caught.value.hint
