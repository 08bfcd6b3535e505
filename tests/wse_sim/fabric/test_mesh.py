"""The mesh cycle by cycle: sums, published cycles, refusals, stalls."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor.errors import LazyError, PlacementError
from wse_sim.fabric import (
    ALGORITHMS,
    EAST,
    RAMP,
    WEST,
    Builder,
    Memory,
    Mesh,
    Received,
    Sent,
    simulate,
    simulate_phase,
)
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE2, WSE3
from wse_sim.phase import AllReduce, Broadcast, Reduce, Seq

# P = 512, B = 4096, float32: cycles of the vendor's simulator for groups of S, from the public log of the repository
# pr0f3ss/SpMM_Cerebras at a962552, src/mpi_collectives/reduce_0_pe/reduce_2colors_2phase/results.txt.
LOGGED = {2: 10055, 4: 9421, 8: 9117, 16: 8989, 32: 8973, 64: 9061, 128: 9297, 256: 9800, 512: 7218}
LOGGED_64 = {22: 925, 28: 928}


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def reduced(words: int, group: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Cycles, the sum that arrives, and the data, for the published row of 512 PEs."""
    data = numbers(1, 512, words)
    algorithm = {"algorithm": "chain"} if group == 512 else {"algorithm": "two_phase", "size": group}
    done = simulate_phase(Reduce(Rect(0, 0, 512, 1), "x", words, **algorithm), WSE2, data).expect_finished()
    return done.cycles, done.memory[0, 0], data[0]


@pytest.mark.slow
@pytest.mark.parametrize("group", [16, 256, pytest.param(512)])
def test_reduce_of_4096_words_is_within_2_percent_of_the_log(group):
    cycles, total, data = reduced(4096, group)
    assert cycles == pytest.approx(LOGGED[group], rel=0.02)
    np.testing.assert_allclose(total, data.sum(0, dtype=np.float64), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("group", LOGGED)
def test_every_row_of_the_log_is_within_2_percent(group):
    assert reduced(4096, group)[0] == pytest.approx(LOGGED[group], rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("group", LOGGED_64)
def test_reduce_of_64_words_is_within_8_percent_of_the_log(group):
    assert reduced(64, group)[0] == pytest.approx(LOGGED_64[group], rel=0.08)


@pytest.mark.slow
def test_a_chain_adds_from_the_far_end():
    data = numbers(1, 9, 5)
    done = simulate_phase(Reduce(Rect(0, 0, 9, 1), "x", 5, algorithm="chain"), WSE2, data)
    expected = data[0, 8]
    for i in range(7, -1, -1):
        expected = data[0, i] + expected
    np.testing.assert_array_equal(done.memory[0, 0], expected)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(ALGORITHMS)),
    st.sampled_from("xy"),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(1, 12),
    st.integers(1, 2),
)
def test_reductions_sum_every_line(algorithm, axis, length, lines, words, groups):
    groups = min(groups, length)
    rect = Rect(1, 2, length, lines) if axis == "x" else Rect(1, 2, lines, length)
    data = np.random.default_rng(words).integers(-99, 99, (rect.height + 2, rect.width + 1, words)).astype(np.float32)
    phase = Reduce(rect, axis, words, groups, algorithm)
    done = simulate_phase(phase, WSE2, data).expect_finished()
    size = length // groups
    data, memory = data[2:, 1:], done.memory[2:, 1:]
    if axis == "y":
        data, memory = data.swapaxes(0, 1), memory.swapaxes(0, 1)
    for g in range(groups):
        np.testing.assert_array_equal(memory[:, g * size], data[:, g * size : (g + 1) * size].sum(1))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.sampled_from("xy"), st.integers(1, 9), st.integers(1, 3), st.integers(1, 12))
def test_a_broadcast_reaches_every_pe(axis, length, lines, words):
    rect = Rect(0, 0, length, lines) if axis == "x" else Rect(0, 0, lines, length)
    data = numbers(rect.height, rect.width, words)
    done = simulate_phase(Broadcast(rect, axis, words), WSE2, data).expect_finished()
    sent = data[:, :1] if axis == "x" else data[:1]
    np.testing.assert_array_equal(done.memory, np.broadcast_to(sent, data.shape))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([*sorted(ALGORITHMS), ""]),
    st.sampled_from(["x", "y", "xy"]),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 5),
)
def test_an_all_reduce_gives_every_pe_the_sum(algorithm, axis, width, height, words):
    data = np.random.default_rng(words).integers(-99, 99, (height, width, words)).astype(np.float32)
    done = simulate_phase(AllReduce(Rect(0, 0, width, height), axis, words, algorithm=algorithm), WSE2, data)
    total = data.sum({"x": 1, "y": 0, "xy": (0, 1)}[axis], keepdims=True)
    np.testing.assert_array_equal(done.expect_finished().memory, np.broadcast_to(total, data.shape))


@pytest.mark.slow
def test_parts_of_a_sequence_run_one_after_another():
    rect = Rect(0, 0, 4, 1)
    parts = (Reduce(rect, "x", 2), Broadcast(rect, "x", 2), Reduce(rect, "x", 2))
    done = simulate_phase(Seq(parts), WSE2, np.ones((1, 4, 2), np.float32)).expect_finished()
    np.testing.assert_array_equal(done.memory[0, 0], [16, 16])


def pair(program: Builder, other: Builder | None = None, machine=TINY) -> Mesh:
    """Two cores: colour 0 goes from the left one to the right one, colour 1 back."""
    mesh = Mesh(machine, 2, 1)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [RAMP])
    mesh.route(1, 1, 0, RAMP, [WEST])
    mesh.route(1, 0, 0, EAST, [RAMP])
    mesh.run(program.build(), 0, 0)
    mesh.run((other or program).build(), 1, 0)
    return mesh


def exchanging(words: int, first: int, second: int) -> Builder:
    """A core that sends `words` on one colour and then receives as many on the other."""
    b = Builder(f"on {first}", words)
    b.move(Sent(first), Memory(0), words)
    b.move(Memory(0), Received(second), words)
    return b


@pytest.mark.slow
def test_cores_that_send_more_than_the_queues_hold_before_they_receive_are_a_deadlock():
    ok = simulate(pair(exchanging(6, 0, 1), exchanging(6, 1, 0)))
    assert ok.status == "finished"
    stuck = simulate(pair(exchanging(50, 0, 1), exchanging(50, 1, 0)))
    assert stuck.status == "deadlock"
    text = "\n".join(stuck.waits)
    assert "core (0, 0): on 0, main.0, `move out0, [0] x50` waits for space in the queue of colour 0 after" in text
    assert "waits for space in the queue of colour 0" in text
    assert "router of core (1, 0): colour 0 waits to go to core; wavelets in the queue: 2" in text
    with pytest.raises(LazyError, match="deadlock after"):
        stuck.expect_finished()


@pytest.mark.slow
def test_a_run_that_passes_its_cycles_says_who_waits():
    done = simulate(pair(exchanging(6, 0, 1), exchanging(6, 1, 0)), max_cycles=12)
    assert (done.status, done.cycles) == ("max_cycles", 12)
    assert done.waits


def alone(build, machine=WSE2) -> int:
    """Cycles of one core."""
    mesh = Mesh(machine, 1, 1)
    builder = Builder("alone", 6000)
    build(builder)
    mesh.run(builder.build(), 0, 0)
    return simulate(mesh).expect_finished().cycles


@pytest.mark.slow
@pytest.mark.parametrize("n, cycles", [(1028, 1034), (5124, 5130)])
def test_a_multiply_add_takes_n_plus_6_cycles_and_twice_n_with_a_bank_conflict(n, cycles):
    """Both are in the csv of SpMM_Cerebras, src/fmacs_test."""
    assert alone(lambda b: b.fmac(Memory(1), Memory(0), 2.0, Memory(1), n)) == cycles
    assert alone(lambda b: b.fmac(Memory(4), Memory(0), 2.0, Memory(4), n)) == cycles + n


@pytest.mark.slow
def test_tasks_loops_and_branches_run_as_they_read():
    b = Builder("counts", 4)
    b.block("late")
    b.move(Memory(3), 5.0, 1, asynchronous=True, unblock="late")
    b.activate("late")
    with b.loop(3), b.loop(2):
        b.add(Memory(0), Memory(0), 1.0, 1)
    b.branch(0, "==", 6.0, "hit")
    b.move(Memory(1), -1.0, 1)
    b.task("hit")
    b.move(Memory(1), 1.0, 1)
    b.task("late")
    b.max(Memory(2), Memory(3), 2.0, 1)
    program = b.build()
    mesh = Mesh(WSE2, 1, 1)
    mesh.run(program, 0, 0)
    np.testing.assert_array_equal(simulate(mesh).expect_finished().memory[0, 0], [6, 1, 5, 5])
    assert str(program).splitlines()[:6] == [
        "program counts, 4 words",
        "task main",
        "   0   block late",
        "   1   move [3], 5.0 x1 async, then unblock late",
        "   2   activate late",
        "   3   loop 3",
    ]


@pytest.mark.slow
def test_programs_that_differ_in_the_sign_of_a_zero_are_two_and_equal_ones_are_one():
    mesh = Mesh(WSE2, 3, 1)
    for x, zero in enumerate([0.0, -0.0, 0.0]):
        b = Builder("zero", 1)
        b.move(Memory(0), zero, 1)
        mesh.run(b.build(), x, 0)
    assert len(mesh.programs) == 2
    memory = simulate(mesh).expect_finished().memory[0, :, 0]
    np.testing.assert_array_equal(np.signbit(memory), [False, True, False])


@pytest.mark.slow
def test_a_task_that_stays_blocked_is_a_deadlock():
    b = Builder("b", 1)
    b.block("other")
    b.activate("other")
    b.task("other")
    b.move(Memory(0), 1.0, 1)
    mesh = Mesh(WSE2, 1, 1)
    mesh.run(b.build(), 0, 0)
    done = simulate(mesh)
    assert (done.status, done.waits) == ("deadlock", ("core (0, 0): task other is active and blocked",))


@pytest.mark.parametrize(
    "build, message",
    [
        (
            lambda b: b.move(Memory(3), Memory(0), 6),
            r"bad, main.0: \[3\] x6 reaches from element 3 to 8 of 8, in `move",
        ),
        (lambda b: b.move(Memory(0), Memory(7, -2), 5), "reaches from element -1 to 7"),
        (lambda b: b.move(Received(0), Memory(0), 1), "in0 cannot be written"),
        (lambda b: b.add(Memory(0), Received(1), Received(1), 2), "two sources read the same colour"),
        (lambda b: b.move(Memory(0), Sent(1), 2), "a colour to send on is used as a source"),
        (lambda b: b.move(Memory(0), 0.0, 0), "the length is 0"),
        (lambda b: b.activate("nobody"), "task 'nobody' does not exist"),
        (lambda b: b.branch(0, "<>", 0, "main"), "comparison '<>' is unknown"),
    ],
)
def test_programs_that_cannot_run_are_refused(build, message):
    b = Builder("bad", 8)
    build(b)
    with pytest.raises(LazyError, match=message):
        b.build()


def test_a_program_that_does_not_fit_the_memory_is_refused():
    mesh = Mesh(TINY, 2, 2)
    mesh.run(Builder("large", 12_000).build(), 1, 1)
    with pytest.raises(LazyError, match=r"core \(1, 1\): 'large' needs 48000 bytes of memory, but a PE has 44976"):
        simulate(mesh)


def receiving(colour: int):
    b = Builder("r", 1)
    b.move(Memory(0), Received(colour), 1)
    return b.build()


def leaves(mesh):
    mesh.route(0, 2, 0, RAMP, [EAST])


def forks_back(mesh):
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [WEST])


def nobody_takes(mesh):
    mesh.route(0, 0, 0, RAMP, [EAST])


def met_by_another(mesh):
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, EAST, [RAMP])


def two_inputs(mesh):
    mesh.route(0, slice(1, 3), 0, WEST, [RAMP])
    mesh.route(0, slice(0, 2), 0, EAST, [RAMP])


def unread(mesh):
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [RAMP])


def unrouted(mesh):
    mesh.run(receiving(5), 2, 0)


def unknown_colour(mesh):
    mesh.route(24, 0, 0, RAMP, [EAST])


@pytest.mark.parametrize(
    "lay, message",
    [
        (leaves, r"core \(2, 0\): colour 0 leaves the mesh to the east"),
        (forks_back, r"core \(1, 0\): the route of colour 0 leads back to its source"),
        (nobody_takes, r"core \(0, 0\): colour 0 goes east to a router without a route"),
        (met_by_another, r"core \(0, 0\): colour 0 goes east .* from another side"),
        (two_inputs, r"core \(1, 0\): the router has two inputs on colour 0"),
        (unread, r"core \(1, 0\): colour 0 goes to a core whose program never receives it"),
        (unrouted, r"core \(2, 0\): r, main.0, `move \[0\], in5 x1`: colour 5 has no route to the core"),
        (unknown_colour, "colour 24 does not exist"),
    ],
)
def test_routes_that_cannot_run_are_refused(lay, message):
    mesh = Mesh(TINY, 3, 1)
    with pytest.raises(LazyError, match=message):
        lay(mesh)
        simulate(mesh)


def test_a_mesh_larger_than_the_machine_is_refused():
    with pytest.raises(PlacementError, match="a mesh of 9 x 1 does not fit 'tiny', which has 8 x 8"):
        Mesh(TINY, 9, 1)


@pytest.mark.slow
def test_a_hop_takes_what_the_machine_says():
    phase = Broadcast(Rect(0, 0, 30, 1), "x", 4)
    near, far = (simulate_phase(phase, m, numbers(1, 30, 4)).expect_finished() for m in (WSE2, WSE3))
    hops = [round(float(np.diff(r.finished[0, 1:]).mean()), 6) for r in (near, far)]
    assert hops == [WSE2.hop_cycles, WSE3.hop_cycles]


@pytest.mark.process
def test_importing_the_fabric_does_not_load_numba():
    script = "import sys, wse_sim.fabric; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
