"""The closed forms against the fabric, cycle by cycle, over random phase programs (see wse_sim/testing).

Any two moves on the same cores are measured too, and held to wider bounds: they share links as well, and no closed form
says who waits there. Programs are drawn from fixed seeds, since the bounds are on what was seen and not on what can be;
`SEEDS=random` draws others.

The figures that are quoted are those of the campaign, `make campaign`: 500, 200 and 300 programs. The whole suite
runs a quarter of them.
"""

import os
from statistics import median

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from wse_sim.cost_model.cost import cost
from wse_sim.fabric import simulate_phase
from wse_sim.machine import TINY, WSE2, WSE3, Machine
from wse_sim.phase import Phase
from wse_sim.testing.phase_programs import MEMORY_WORDS, any_two_moves, programs

pytestmark = pytest.mark.slow

IS_FIXED = os.environ.get("SEEDS") != "random"
SHARE = 1 if os.environ.get("CAMPAIGN") else 4
"""One program in so many is run."""


def error_of(phase: Phase, machine: Machine, side: int) -> float:
    """The closed form relative to the simulation, less one."""
    height, width = min(side + 4, machine.height), min(side + 4, machine.width)
    memory = np.zeros((height, width, MEMORY_WORDS), np.float32)
    taken = simulate_phase(phase, machine, memory).expect_finished().cycles
    priced = cost(phase, machine).cycles
    return priced / taken - 1 if taken else float(priced > 0)


def errors_over(strategy, machine: Machine, side: int, count: int, worst: float) -> list[float]:
    found: list[float] = []

    @settings(
        max_examples=count, deadline=None, database=None, derandomize=IS_FIXED, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(phase):
        found.append(error_of(phase, machine, side))
        assert abs(found[-1]) <= worst

    collect()
    print(
        f"{machine.name}: {len(found)} programs, median {median(map(abs, found)):.2%}, worst {max(map(abs, found)):.2%}"
    )
    return found


@pytest.mark.parametrize("machine, side", [(TINY, 4), (WSE2, 12)], ids=["tiny", "wse2"])
def test_closed_forms_are_within_10_percent_of_the_fabric(machine, side):
    errors_over(programs(side), machine, side, 60, 0.10)


@pytest.mark.slow
def test_random_programs_up_to_32_x_32_are_within_2_percent_by_the_median():
    found = errors_over(programs(32), WSE2, 32, 500 // SHARE, 0.10)
    assert median(map(abs, found)) <= 0.02


@pytest.mark.slow
def test_latencies_in_whole_cycles_are_what_the_wse3_is_off_by():
    """Its ramp of 0.535 cycles counts as 1 there, and its links carry a wavelet in every cycle, not in 1.125."""
    found = errors_over(programs(32), WSE3, 32, 200 // SHARE, 0.50)
    assert median(map(abs, found)) <= 0.06


@pytest.mark.slow
def test_any_two_moves_on_the_same_cores_are_near_the_fabric():
    found = errors_over(any_two_moves(32), WSE2, 32, 300 // SHARE, 0.45)
    assert median(map(abs, found)) <= 0.06
