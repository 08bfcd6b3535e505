"""Calibration of the one number that nobody published: how many wavelets a queue holds.

On hardware the experiment is: stop a receiver, let a sender push, and see how far it comes, at growing distance. What
it sends more for each hop is the depth, and what is on the wire.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wse_sim.fabric import EAST, NORTH, RAMP, SOUTH, WEST, Builder, Memory, Mesh, Received, Sent, simulate
from wse_sim.machine import WSE2, WSE3

pytestmark = pytest.mark.slow

WORDS = 2000


def pushed(machine, hops: int, turns: bool = False) -> int:
    """How many words a sender gets rid of whose receiver waits for something else."""
    mesh = Mesh(machine, hops + 1, 2)
    for colour in (0, 1):
        mesh.route(colour, 0, 0, RAMP, [EAST])
        mesh.route(colour, slice(1, hops), 0, WEST, [EAST])
        mesh.route(colour, hops, 0, WEST, [SOUTH] if turns else [RAMP])
        if turns:
            mesh.route(colour, hops, 1, NORTH, [RAMP])
    sender, receiver = Builder("pushes", 1), Builder("waits", 1)
    sender.move(Sent(0), Memory(0, 0), WORDS)
    sender.move(Sent(1), Memory(0, 0), 1)
    receiver.move(Memory(0), Received(1), 1)
    receiver.move(Memory(0, 0), Received(0), WORDS)
    mesh.run(sender.build(), 0, 0)
    mesh.run(receiver.build(), hops, int(turns))
    done = simulate(mesh)
    assert done.status == "deadlock"
    assert done.left == {0: done.sent[0]}
    return done.sent[0]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 12), st.sampled_from([WSE2, WSE3]))
def test_a_stopped_receiver_lets_as_much_pass_as_queues_and_wires_hold(depth, hops, base):
    """Of each queue its depth; of a hop or ramp of n cycles n - 1 wavelets, and one more below the sending core."""
    machine = replace(base, queue_depth=depth)
    both_ramps, hop = round(2 * machine.ramp_cycles), round(machine.hop_cycles)
    assert pushed(machine, hops) == 2 * depth + both_ramps - 1 + hops * (depth + hop - 1)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_depth_can_be_read_from_two_distances(depth):
    machine = replace(WSE2, queue_depth=depth)
    assert (pushed(machine, 11) - pushed(machine, 1)) / 10 == depth + machine.hop_cycles - 1


def test_a_turn_holds_what_is_on_its_way_through_it():
    assert pushed(WSE3, 4, turns=True) - pushed(WSE3, 5) == WSE3.turn_cycles


def cycles(machine, words: int, hops: int) -> int:
    """Cycles to stream words to a core so many hops away, that takes them."""
    mesh = Mesh(machine, hops + 1, 1)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, slice(1, hops), 0, WEST, [EAST])
    mesh.route(0, hops, 0, WEST, [RAMP])
    sender, receiver = Builder("sends", 1), Builder("takes", 1)
    sender.move(Sent(0), Memory(0, 0), words)
    receiver.move(Memory(0, 0), Received(0), words)
    mesh.run(sender.build(), 0, 0)
    mesh.run(receiver.build(), hops, 0)
    return simulate(mesh).expect_finished().cycles


@pytest.mark.parametrize("depth, rate", [(1, 1 / 2), (2, 1), (3, 1), (8, 1)])
def test_queues_of_two_keep_a_stream_at_full_rate_and_queues_of_one_halve_it(depth, rate):
    """A router sees room at the start of a cycle: with one place it passes a wavelet on every other cycle."""
    machine = replace(WSE2, queue_depth=depth)
    times = np.array([cycles(machine, words, 6) for words in (100, 300)])
    assert 200 / np.diff(times)[0] == rate
