"""Switch positions, control wavelets and control tasks; rings of routes that never end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor.errors import LazyError
from wse_sim.fabric import EAST, NORTH, RAMP, SOUTH, WEST, Builder, Memory, Mesh, Received, Sent, simulate
from wse_sim.machine import TINY, WSE2, WSE3


def star(pes: int, words: int, machine, by_control: bool = False) -> Mesh:
    """Each core in turn sends its words to core 0, over one colour: then those behind it may pass."""
    mesh = Mesh(machine, pes, 1)
    mesh.route(0, slice(1, pes), 0, RAMP, [WEST])
    mesh.route(0, slice(1, pes - 1), 0, EAST, [WEST], position=1)
    mesh.route(0, 0, 0, EAST, [RAMP])
    root, others = Builder("root", words), Builder("others", words)
    with root.loop(pes - 1):
        root.add(Memory(0), Memory(0), Received(0), words)
    others.move(Sent(0), Memory(0), words, advance=not by_control)
    if by_control:
        others.control(0, ["advance"])
    mesh.run(root.build(), 0, 0)
    mesh.run(others.build(), slice(1, pes), 0)
    return mesh


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.integers(1, 7), st.sampled_from([WSE2, WSE3]), st.booleans())
def test_a_star_adds_in_the_order_of_the_cores(pes, words, machine, by_control):
    mesh = star(pes, words, machine, by_control)
    data = np.random.default_rng(words).standard_normal((1, pes, words)).astype(np.float32)
    mesh.load(data, slice(None), slice(None))
    done = simulate(mesh).expect_finished()
    expected = data[0, 0]
    for i in range(1, pes):
        expected = expected + data[0, i]
    np.testing.assert_array_equal(done.memory[0, 0], expected)
    scanned = simulate(mesh, "scan", 2)
    assert (scanned.cycles, scanned.sent, scanned.left) == (done.cycles, done.sent, done.left)
    assert done.sent[0] == (pes - 1) * (words + by_control)


@pytest.mark.slow
def test_a_star_takes_its_words_one_after_another():
    """The closed form of a star: all words pass the last link, after the ramps and the hop."""
    words, pes = 50, 8
    done = simulate(star(pes, words, WSE2)).expect_finished()
    assert done.cycles >= (pes - 1) * words
    assert done.cycles <= (pes - 1) * (words + 3 * WSE2.dsd_setup_cycles)


def line(*builders: Builder, machine=WSE2) -> Mesh:
    """Cores in a row with a program each."""
    mesh = Mesh(machine, len(builders), 1)
    for x, builder in enumerate(builders):
        mesh.run(builder.build(), x, 0)
    return mesh


@pytest.mark.slow
def test_a_control_wavelet_activates_its_task_after_the_words_before_it():
    sender, taker = Builder("sends", 4), Builder("takes", 4)
    sender.move(Sent(0), Memory(0), 3)
    sender.control(0, task="then")
    taker.move(Memory(0), Received(0), 3)
    taker.task("then")
    taker.mul(Memory(3), Memory(0), 2.0, 1)
    mesh = line(sender, taker)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [RAMP])
    mesh.load([7, 8, 9, 0], 0, 0)
    done = simulate(mesh).expect_finished()
    np.testing.assert_array_equal(done.memory[0, 1], [7, 8, 9, 14])
    assert (done.sent[0], done.received[0]) == (4, 4)


@pytest.mark.slow
def test_a_task_starts_as_late_as_the_machine_says():
    builder = Builder("b", 1)
    builder.activate("next")
    builder.task("next")
    builder.move(Memory(0), 1.0, 1)
    mesh = line(builder)
    expected = 1 + 1 + WSE2.task_start_cycles + WSE2.dsd_setup_cycles + 1
    assert simulate(mesh).expect_finished().cycles == expected


@pytest.mark.slow
def test_commands_go_to_one_router_each():
    """The second router switches, neither the first nor the third."""
    sender, middle, last = Builder("sends", 2), Builder("middle", 2), Builder("last", 2)
    sender.control(0, ["nop", "advance"])
    sender.move(Sent(0), Memory(0), 1)
    middle.move(Memory(1), Received(0), 1)
    mesh = line(sender, middle, last)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [EAST])
    mesh.route(0, 1, 0, WEST, [RAMP], position=1)
    mesh.route(0, 2, 0, WEST, [RAMP])
    last.move(Memory(0), Received(0), 1)
    mesh.run(last.build(), 2, 0)
    mesh.load([5, 6], 0, 0)
    done = simulate(mesh)
    assert done.memory[0, 1, 1] == 5
    assert done.status == "deadlock"
    assert "core (2, 0): last, main.0, `move [0], in0 x1` waits for colour 0 after 0 elements" in done.waits


@pytest.mark.slow
def test_a_control_wavelet_without_a_task_needs_no_room_at_the_core():
    """It passes a core that takes nothing and whose queue is full."""
    held = WSE2.queue_depth + WSE2.ramp_cycles - 1
    sender, stopped, last = Builder("sends", held), Builder("stopped", held), Builder("last", held)
    sender.move(Sent(0), Memory(0), held)
    sender.control(0)
    stopped.branch(0, "==", 0.0, "end")
    stopped.move(Memory(0), Received(0), held)
    stopped.task("end")
    last.move(Memory(0), Received(0), held)
    mesh = line(sender, stopped, last)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [EAST, RAMP])
    mesh.route(0, 2, 0, WEST, [RAMP])
    done = simulate(mesh)
    assert done.status == "deadlock"
    assert (done.left, done.received, done.copied) == ({0: held}, {0: held}, {0: held - 1})


@pytest.mark.slow
def test_a_torn_down_route_lets_nothing_pass_until_it_is_configured():
    def build(configures: bool) -> Mesh:
        sender, middle, last = Builder("sends", 2), Builder("middle", 2), Builder("last", 2)
        sender.move(Sent(0), Memory(0), 1)
        sender.control(0, ["nop", "teardown"])
        sender.move(Sent(0), Memory(1), 1)
        middle.move(Memory(0), Received(0), 1)
        if configures:
            middle.move(Memory(1, 0), 0.0, 400)
            middle.configure(0, 1)
        last.move(Memory(0), Received(0), 1)
        mesh = line(sender, middle, last)
        mesh.route(0, 0, 0, RAMP, [EAST])
        mesh.route(0, 1, 0, WEST, [RAMP])
        mesh.route(0, 1, 0, WEST, [EAST], position=1)
        mesh.route(0, 2, 0, WEST, [RAMP])
        mesh.load([3, 4], 0, 0)
        return mesh

    done = simulate(build(configures=False))
    assert done.status == "deadlock"
    assert (
        "router of core (1, 0): colour 0 waits for a switch position that routes it; wavelets in the queue: 1"
        in done.waits
    )
    done = simulate(build(configures=True)).expect_finished()
    assert (done.memory[0, 1, 0], done.memory[0, 2, 0]) == (3, 4)
    assert done.cycles > 200


def ring(machine=WSE2) -> Mesh:
    """Four routers in a ring; the first lets its core in, then closes the ring."""
    mesh = Mesh(machine, 2, 2)
    mesh.route(3, 0, 0, RAMP, [EAST])
    mesh.route(3, 0, 0, SOUTH, [EAST], position=1)
    mesh.route(3, 1, 0, WEST, [SOUTH])
    mesh.route(3, 1, 1, NORTH, [WEST])
    mesh.route(3, 0, 1, EAST, [NORTH])
    builder = Builder("lets go", 2)
    builder.move(Sent(3), Memory(0), 2, advance=True)
    mesh.run(builder.build(), 0, 0)
    return mesh


@pytest.mark.slow
@pytest.mark.parametrize("engine, threads", [("list", 1), ("scan", 2), ("auto", 1)])
def test_wavelets_that_go_round_for_ever_are_reported(engine, threads):
    done = simulate(ring(), engine, threads)
    assert done.status == "livelock"
    assert done.left == {3: 2}
    assert any("colour 3 circulates to" in text for text in done.waits)
    with pytest.raises(LazyError, match="livelock after"):
        done.expect_finished()


@pytest.mark.slow
def test_a_ring_that_drains_into_a_core_is_no_livelock():
    """Far more quiet cycles than the engine is patient for, then a core that goes on."""
    sender, taker = Builder("sends", 2), Builder("takes", 2)
    sender.move(Memory(1, 0), 0.0, 40_000)
    sender.move(Sent(0), Memory(0), 1)
    taker.move(Memory(0), Received(0), 1)
    mesh = line(sender, taker)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [RAMP])
    assert simulate(mesh).expect_finished().cycles > 10_000


def two_inputs_at_one_position(mesh):
    mesh.route(0, 1, 0, WEST, [RAMP], position=2)
    mesh.route(0, 1, 0, EAST, [RAMP], position=2)


def leaves_at_a_position(mesh):
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [RAMP])
    mesh.route(0, 0, 0, EAST, [WEST], position=3)


def forks_back_at_a_position(mesh):
    mesh.route(0, 1, 0, WEST, [WEST, RAMP], position=1)


def nobody_takes_at_a_position(mesh):
    mesh.route(0, 0, 0, RAMP, [EAST], position=1)


def never_taken_from_this_side(mesh):
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, EAST, [WEST])
    mesh.route(0, 1, 0, RAMP, [WEST], position=1)


def fifth_position(mesh):
    mesh.route(0, 0, 0, RAMP, [EAST], position=4)


def without_targets(mesh):
    mesh.route(0, 0, 0, RAMP, [])


def task_missing(mesh):
    builder = Builder("sends", 1)
    builder.control(0, task="absent")
    mesh.run(builder.build(), 0, 0)
    mesh.run(Builder("other", 1).build(), 1, 0)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [RAMP])


def control_unrouted(mesh):
    builder = Builder("sends", 1)
    builder.control(4, ["advance"])
    mesh.run(builder.build(), 1, 0)


def configures_nothing(mesh):
    builder = Builder("sets", 1)
    builder.configure(0, 2)
    mesh.run(builder.build(), 1, 0)


@pytest.mark.parametrize(
    "lay, message",
    [
        (two_inputs_at_one_position, r"core \(1, 0\): the router has two inputs on colour 0 at switch position 2"),
        (leaves_at_a_position, r"core \(0, 0\): colour 0 at switch position 3 leaves the mesh to the west"),
        (
            forks_back_at_a_position,
            r"core \(1, 0\): the route of colour 0 at switch position 1 leads back to its source",
        ),
        (nobody_takes_at_a_position, r"core \(0, 0\): colour 0 at switch position 1 goes east to a router without"),
        (never_taken_from_this_side, r"core \(0, 0\): colour 0 goes east .* another side"),
        (fifth_position, "switch position 4 does not exist"),
        (without_targets, "a route of colour 0 has no targets"),
        (task_missing, r"core \(1, 0\): control wavelets on colour 0 activate 'absent' at a core"),
        (control_unrouted, r"core \(1, 0\): sends, main.0, `control out4 advance`: colour 4 has no route from"),
        (
            configures_nothing,
            r"core \(1, 0\): sets, main.0, .* no route at switch position 2 at the core",
        ),
    ],
)
def test_switches_that_cannot_work_are_refused(lay, message):
    mesh = Mesh(TINY, 3, 1)
    with pytest.raises(LazyError, match=message):
        lay(mesh)
        simulate(mesh)


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda b: b.control(0, ["advance"] * 9), "9 commands"),
        (lambda b: b.control(0, ["jump"]), "command 'jump' is unknown"),
        (lambda b: b.configure(0, 4), "switch position 4 does not exist"),
    ],
)
def test_commands_that_do_not_exist_are_refused(build, message):
    builder = Builder("bad", 8)
    build(builder)
    with pytest.raises(LazyError, match=message):
        builder.build()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9)), min_size=1, max_size=12), st.sampled_from([WSE2, WSE3])
)
def test_a_switch_that_turns_under_a_stream_loses_nothing(turns, machine):
    """The core in the middle sends a stream on or to itself, by turns; its queue is full before it takes a word."""
    words = 120
    sender, middle, last = Builder("sends", words), Builder("middle", words), Builder("last", words)
    sender.move(Sent(0), Memory(0), words)
    middle.move(Memory(words - 1, 0), 0.0, 40)
    for position, pause in turns:
        middle.configure(0, position)
        middle.move(Memory(words - 1, 0), 0.0, pause)
    middle.move(Memory(0), Received(0), words)
    last.move(Memory(0), Received(0), words)
    mesh = line(sender, middle, last, machine=machine)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, 1, 0, WEST, [EAST])
    mesh.route(0, 1, 0, WEST, [RAMP], position=1)
    mesh.route(0, 2, 0, WEST, [RAMP])
    mesh.load(np.arange(1, words + 1), 0, 0)
    done = simulate(mesh)
    assert done.sent[0] == done.received[0] + done.left.get(0, 0)
    found = done.memory[0, 1:].reshape(-1)
    arrived = np.sort(found[found > 0])
    assert len(arrived) == done.received[0]
    assert (np.diff(arrived) > 0).all()
    if not done.left:
        np.testing.assert_array_equal(arrived, np.arange(1, words + 1))
