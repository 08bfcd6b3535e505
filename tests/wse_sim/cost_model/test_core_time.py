"""The price of instructions on one core is what the cores of the fabric take."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor.errors import LazyError
from wse_sim.cost_model.core_time import body_cycles
from wse_sim.cost_model.cost import cost
from wse_sim.fabric import Builder, Memory, Mesh, Received, Sent, simulate
from wse_sim.isa.core_program import Branch, LoopEnd, LoopStart, Vector
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE2, WSE3
from wse_sim.phase import Local

WORDS = 64
operands = st.builds(Memory, st.integers(0, 20), st.integers(0, 2))
sources = {"move": 1, "add": 2, "mul": 2, "max": 2, "fmac": 3}


@st.composite
def vectors(draw):
    op = draw(st.sampled_from(sorted(sources)))
    values = [draw(operands | st.just(2.0)) for _ in range(sources[op])]
    return Vector(op, (draw(operands), *values), draw(st.integers(1, 20)))


@st.composite
def bodies(draw, depth: int = 0):
    body = []
    for _ in range(draw(st.integers(0 if depth else 1, 3))):
        if depth < 3 and draw(st.booleans()):
            body += [LoopStart(draw(st.integers(1, 4))), *draw(bodies(depth + 1)), LoopEnd()]
        else:
            body.append(draw(vectors()))
    return tuple(body)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(bodies(), st.sampled_from([TINY, WSE2, WSE3]))
def test_price_is_what_a_core_takes(body, machine):
    builder = Builder("alone", WORDS)
    for instruction in body:
        builder.append(instruction)
    mesh = Mesh(machine, 1, 1)
    mesh.run(builder.build(), 0, 0)
    taken = simulate(mesh).expect_finished().cycles
    assert body_cycles(body, machine) == taken
    assert cost(Local(Rect(0, 0, 3, 2), body), machine).cycles == taken


def test_what_has_no_price_of_its_own_is_refused():
    for body in ([Branch(0, "<", 1.0, "main")], [LoopStart(2)], [LoopEnd()]):
        with pytest.raises(ValueError):
            body_cycles(tuple(body), WSE2)


@pytest.mark.parametrize("operands", [(Sent(1), Memory(0)), (Memory(0), Received(2))])
def test_a_local_phase_with_a_colour_is_refused(operands):
    with pytest.raises(LazyError, match="uses a colour"):
        Local(Rect(0, 0, 1, 1), (Vector("move", operands, 1),))
