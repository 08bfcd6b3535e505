"""Laws of the fabric over random legal meshes: nothing lost or made, one answer from every engine, stalls reported."""

import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from lazytensor.system import threads as thread_start
from wse_sim.fabric import RunResult, mesh_of, simulate, simulate_phase, space_time, trace
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, WSE3
from wse_sim.phase import AllReduce, Reduce
from wse_sim.testing.flow_meshes import REGION_WORDS, Flow, FlowMesh, meshes

pytestmark = pytest.mark.slow

SPANS = st.sampled_from([1_000_000, 1_000_000, 40])
CORES_OF_TWO_BANDS = 640
"""On so many cores of meshes up to 5 wide two threads have work."""


def assert_equal(a: RunResult, b: RunResult) -> None:
    for name in ("status", "cycles", "waits", "sent", "received", "copied", "left"):
        assert getattr(a, name) == getattr(b, name), name
    np.testing.assert_array_equal(a.memory.view(np.uint32), b.memory.view(np.uint32))
    np.testing.assert_array_equal(a.finished, b.finished)
    for name, counts in a.counters.items():
        np.testing.assert_array_equal(counts, b.counters[name], err_msg=name)


@settings(max_examples=150, deadline=None)
@given(meshes(even=False), SPANS)
def test_nothing_is_lost_or_made_and_stalls_are_reported(made, most):
    done = simulate(made.mesh(), "list", max_cycles=most)
    event(done.status)
    for i, flow in enumerate(made.flows):
        event(f"{'switches' if len(flow.senders) > 1 else 'no switch'}, ends with {flow.ends_with or 'data'}")
        assert_conserved(done, flow)
        assert_in_order(done, flow, i)
    assert bool(done.waits) == (done.status != "finished")
    assert not (done.left and done.status == "finished")


@settings(max_examples=150, deadline=None)
@given(meshes(even=False), SPANS)
def test_every_engine_gives_the_same(made, most):
    first = simulate(made.mesh(), "list", max_cycles=most)
    for engine in ("scan", "auto"):
        assert_equal(first, simulate(made.mesh(), engine, max_cycles=most))


@settings(max_examples=12, deadline=None)
@given(meshes(even=False), SPANS, st.sampled_from(["list", "scan", "auto"]))
def test_threads_and_place_make_no_difference(made, most, engine):
    """Copies of a mesh below each other, cut by two threads, do each what it does alone."""
    copies = -(-CORES_OF_TWO_BANDS // (made.width * made.height))
    alone = simulate(made.mesh(), max_cycles=most)
    first = simulate(made.mesh(copies), engine, 1, most)
    assert_equal(first, simulate(made.mesh(copies), engine, 2, most))
    assert (first.status, first.cycles) == (alone.status, alone.cycles)
    np.testing.assert_array_equal(first.memory, np.tile(alone.memory, (copies, 1, 1)))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(meshes(even=False), SPANS, st.sampled_from(["list", "scan", "auto"]), st.integers(1, 2))
def test_columns_could_be_rows(made, most, engine, threads):
    """Turned, with copies beside each other: the engine goes through the cores in another order, at other distances.

    Without switches: which of a colour's sources goes first on a shared link is a matter of their directions.
    """
    assume(all(len(flow.senders) == 1 for flow in made.flows))
    copies = -(-CORES_OF_TWO_BANDS // (made.width * made.height))
    alone = simulate(made.mesh(), max_cycles=most)
    turned = simulate(made.mesh(copies, is_turned=True), engine, threads, most)
    assert (turned.status, turned.cycles) == (alone.status, alone.cycles)
    np.testing.assert_array_equal(turned.memory, np.tile(alone.memory.swapaxes(0, 1), (1, copies, 1)))
    for name in ("busy", "on_input", "on_output", "on_memory", "idle", "ramp"):
        np.testing.assert_array_equal(turned.counters[name], np.tile(alone.counters[name].T, (1, copies)))


@settings(max_examples=2, deadline=None)
@given(st.integers(1, 3), st.integers(520, 700), st.integers(1, 3), st.sampled_from([WSE2, WSE3]))
def test_bands_of_threads_see_each_other(width, height, words, machine):
    """Long columns, of which each thread has a part."""
    data = np.random.default_rng(height).integers(-9, 9, (height, width, words)).astype(np.float32)
    phase = AllReduce(Rect(0, 0, width, height), "y", words, algorithm="tree")
    first = simulate_phase(phase, machine, data, engine="list")
    np.testing.assert_array_equal(first.memory, np.broadcast_to(data.sum(0), data.shape))
    for engine, threads in (("list", 2), ("scan", 2), ("scan", 3), ("auto", 2)):
        assert_equal(first, simulate_phase(phase, machine, data, engine=engine, threads=threads))


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 5), st.sampled_from(["list", "scan", "auto"]))
def test_a_system_that_starts_no_more_threads_makes_no_difference(count, engine):
    """From some moment on, in the middle of a run too, there are fewer threads than bands."""
    data = np.random.default_rng(0).integers(-9, 9, (600, 2, 2)).astype(np.float32)
    phase = AllReduce(Rect(0, 0, 2, 600), "y", 2, algorithm="tree")
    first = simulate_phase(phase, WSE2, data, engine=engine, threads=1)
    start, left = threading.Thread.start, [count]

    def start_or_fail(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_or_fail)
        patch.setattr(thread_start, "_warned_reasons", {"warned before"})
        assert_equal(first, simulate_phase(phase, WSE2, data, engine=engine, threads=3))
    assert left[0] < 0 or count > 1


def assert_conserved(done: RunResult, flow: Flow) -> None:
    """Wavelets of a colour: what cores sent and routers copied is what cores received and what is on the way."""
    colour = flow.colour
    assert done.sent[colour] + done.copied[colour] == done.received[colour] + done.left.get(colour, 0)
    if done.status != "finished":
        return
    data = flow.wavelets * len(flow.senders)
    turns = (len(flow.senders) - 1) * flow.by_control
    ends = flow.ends_with != ""
    assert done.sent[colour] == data + turns + ends
    called = data + (flow.ends_with == "task")
    assert done.received[colour] == called * len(flow.takes)
    assert done.copied[colour] == called * (len(flow.takes) - 1) - turns - (flow.ends_with == "nothing")


def assert_in_order(done: RunResult, flow: Flow, i: int) -> None:
    """Every receiver holds a beginning of what was sent, in order, and was called after the last of it, or not."""
    arriving = flow.arriving()
    size = 1 if flow.dtype == "float32" else 2
    for (x, y), count in flow.takes.items():
        found = done.read(x, y, i * REGION_WORDS * size, count, flow.dtype)
        got = int(np.max(np.flatnonzero(found), initial=-1)) + 1
        np.testing.assert_array_equal(found[:got], arriving[:got])
        was_called = done.memory[y, x, (i + 1) * REGION_WORDS - 1] == 1
        if was_called:
            assert flow.ends_with == "task"
            assert got >= min(count, len(arriving)) - 1
        if done.status == "finished":
            assert count == len(arriving)
            np.testing.assert_array_equal(found, arriving)
            assert was_called == (flow.ends_with == "task")


@settings(max_examples=80, deadline=None)
@given(meshes(even=True))
def test_flows_that_match_and_run_beside_each_other_always_finish(made):
    simulate(made.mesh()).expect_finished()


@settings(max_examples=40, deadline=None)
@given(meshes(even=False))
def test_a_traced_run_gives_the_same_and_accounts_for_every_cycle(made: FlowMesh):
    cells = [(x, y) for x in range(made.width) for y in range(made.height)]
    done, moments = trace(made.mesh(), cells)
    plain = simulate(made.mesh())
    assert (done.status, done.cycles, done.waits) == (plain.status, plain.cycles, plain.waits)
    np.testing.assert_array_equal(done.memory, plain.memory)
    for x, y in cells:
        busy = sum((m.x, m.y, m.did) == (x, y, "busy") for m in moments)
        assert busy == plain.counters["busy"][y, x]


def test_a_chain_of_four_is_drawn_as_stairs():
    mesh = mesh_of(Reduce(Rect(0, 0, 4, 1), "x", 8, algorithm="chain"), WSE2, 1, 4, 8)
    done, moments = trace(mesh, [(x, 0) for x in range(4)])
    assert done.status == "finished"
    assert space_time(moments).splitlines() == [
        "(0, 0) ######------------------########",
        "(1, 0) ######------------########",
        "(2, 0) ######------########",
        "(3, 0) ##############",
    ]
    assert moments[0].stands_at == (f"{mesh.programs[mesh.program_at[0, 0]].name}, main.0, `add [0], [0], in0 x8`",)
