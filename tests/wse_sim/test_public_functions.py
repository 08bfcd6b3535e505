"""The doors of the simulator: a traced program and a machine by its name."""

import pytest

import lazytensor as lt
from lazytensor.errors import LazyError
from wse_sim import WSE3, plan, simulate, sweep


@pytest.fixture(scope="module")
def program():
    return lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64))


def test_machine_is_taken_by_its_name(program):
    assert plan(program, "wse3", "streaming").report == plan(program, WSE3, "streaming").report
    assert simulate(program, "wse3", "streaming") == plan(program, WSE3, "streaming").report
    assert simulate(program).machine == "wse2"
    with pytest.raises(LazyError, match="machine 'wse9' is unknown"):
        plan(program, "wse9")


def test_lone_program_is_swept_as_one_by_name(program):
    alone, named = sweep(program, ["wse2"], ["streaming"]), sweep({"step": program}, ["wse2"], ["streaming"])
    assert alone == named
    assert alone[0].fits
