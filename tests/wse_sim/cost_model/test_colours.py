"""Colours of phase programs: as many as the lowering lays routes of."""

import pytest

from wse_sim.cost_model.colours import count_colours
from wse_sim.fabric.lowering.simulate import mesh_of
from wse_sim.layout import Rect
from wse_sim.machine import WSE2
from wse_sim.phase import AllReduce, Broadcast, Compute, Par, Reduce, Repeat, Seq, Shift, Stream

RECT, LINE = Rect(1, 1, 6, 5), Rect(1, 1, 7, 1)
MOVES = [
    *(Broadcast(RECT, axis, 8, put=8) for axis in ("x", "y", "xy")),
    *(Broadcast(RECT, "x", 8, groups=groups, put=8) for groups in (3, 6)),
    *(Shift(RECT, "x", 4, hops=hops, wrap=wrap, put=4) for hops in (1, 2) for wrap in ("", "line")),
    Shift(RECT, "y", 4, wrap="folded", put=4),
    *(Reduce(LINE, "x", 16, algorithm=name) for name in ("star", "chain", "tree", "two_phase", "auto_gen")),
    Reduce(Rect(0, 0, 4, 1), "x", 16, algorithm="two_phase", size=3),
    *(Reduce(RECT, axis, words) for axis in ("x", "y", "xy") for words in (1, 64)),
    *(AllReduce(RECT, axis, words) for axis in ("x", "y", "xy") for words in (1, 64)),
    AllReduce(LINE, "x", 14, algorithm="ring"),
    *(Stream(RECT, 400, side) for side in ("in", "out")),
]


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_a_move_takes_the_colours_that_its_routes_have(move):
    assert count_colours(move, WSE2) == len(mesh_of(move, WSE2, 8, 8, 128).colours)


def test_what_is_in_turn_takes_the_most_of_its_parts_and_what_is_beside_all_of_them():
    one, two = Broadcast(RECT, "x", 8), Reduce(RECT, "x", 8, algorithm="chain")
    assert count_colours(Seq((one, Repeat(3, two), Compute(RECT, "add", 1, 1, 4))), WSE2) == 2
    assert count_colours(Par((one, two)), WSE2) == 3
