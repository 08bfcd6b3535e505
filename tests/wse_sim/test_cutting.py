"""Which meshes a pipeline of many stages is cut from, told from lines whose times are drawn."""

import math
import sys
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import quick

from lazytensor.errors import PlacementError
from wse_sim import WSE2
from wse_sim.plan.known_meshes import smaller_meshes
from wse_sim.plan.modes.cutting import ATTEMPTS, HOPELESS, LITTLE, LOOSEST, PATIENCE, cuts
from wse_sim.plan.modes.mode_plan import ModePlan
from wse_sim.plan.place import CLOSE, Floor, Placement
from wse_sim.plan.report import ModeReport
from wse_sim.plan.routes import NoColours

BOUND = 1000
MACHINE = replace(WSE2, width=64, height=48, reserved_columns=0, reserved_rows=0)
MESHES = [(64, 48), *smaller_meshes(MACHINE, 1)]


@dataclass
class Drawn:
    """A line that takes what was drawn for the number of its mesh; None where no route finds a colour."""

    times: list[int | None]
    mesh: tuple[int, int] = MESHES[0]
    tried: list[int] = field(default_factory=list)

    def floor(self):
        width, height = self.mesh
        return Floor((), (), lambda *_: 1, 8, replace(MACHINE, width=width, height=height))

    def on(self, width, height):
        return replace(self, mesh=(width, height))

    def relayed(self):
        return None

    def routes(self, placement):
        number = MESHES.index(self.mesh)
        if number not in self.tried:
            self.tried.append(number)
        if self.times[number] is None:
            raise PlacementError(f"no colour on mesh {number}", hint="Use another one.")

    def plan(self, placement, routes):
        time = self.times[MESHES.index(self.mesh)]
        report = ModeReport("pipelined", fits=True, step_cycles=time, limit="fill", bound_cycles=BOUND)
        return ModePlan(report, placement=replace(placement, shortest_cycles=time))


def placed(floor, rounds, fills_sooner):
    return Placement((), (), (), bound_cycles=BOUND)


@pytest.fixture(autouse=True)
def bounds(monkeypatch):
    """A bound that no smaller mesh is far from, and none for that is cut."""
    monkeypatch.setattr(sys.modules["wse_sim.plan.modes.cutting"], "area_bound", lambda floor: BOUND)
    monkeypatch.setattr(sys.modules["wse_sim.plan.modes.cutting"], "LITTLE", 0)


TIMES = st.lists(st.none() | st.integers(BOUND, int(1.5 * BOUND)), min_size=len(MESHES), max_size=len(MESHES))


@quick
@given(times=TIMES)
def test_the_fastest_of_what_was_cut_is_taken_and_the_search_ends_in_time(times):
    line = Drawn(times)
    if all(time is None for time in times):
        with pytest.raises(PlacementError, match="mesh 0"):
            next(cuts(line, placed, MESHES[1:]))
        return
    reports = [plan.report for plan in cuts(line, placed, MESHES[1:])]
    steps = [report.step_cycles for report in reports]
    assert steps == sorted(set(steps), reverse=True)
    assert line.tried == list(range(len(line.tried)))
    best = math.inf
    missed = 0
    for n, time in enumerate(times):
        # Without a plan, for one that is loose, and until so many in a row gained nothing.
        goes_on = best == math.inf or (
            CLOSE * BOUND < best < LOOSEST * BOUND
            and missed < PATIENCE
            # What smaller meshes promise.
            and 0.99 * best > CLOSE * BOUND
        )
        assert (n in line.tried) == goes_on
        if not goes_on:
            break
        missed += best != math.inf
        if time is not None and time < best:
            best, missed = time, 0
    assert steps[-1] == best
    assert reports[-1].bound_cycles == BOUND


def test_no_smaller_mesh_is_cut_before_more_is_asked_for():
    line = Drawn([None, int(1.3 * BOUND), int(1.2 * BOUND), int(1.04 * BOUND), *[BOUND] * (len(MESHES) - 4)])
    plans = cuts(line, placed, MESHES[1:])
    assert (next(plans).report.step_cycles, line.tried) == (int(1.3 * BOUND), [0, 1])
    assert [plan.report.step_cycles for plan in plans] == [int(1.2 * BOUND), int(1.04 * BOUND)]
    assert line.tried == [0, 1, 2, 3]


def test_a_smaller_mesh_that_allows_nearly_the_same_is_cut_until_one_is_slower(monkeypatch):
    monkeypatch.setattr(sys.modules["wse_sim.plan.modes.cutting"], "LITTLE", LITTLE)
    line = Drawn([BOUND + 3, BOUND + 2, BOUND + 4, *[BOUND + 1] * (len(MESHES) - 3)])
    *_, plan = cuts(line, placed, MESHES[1:])
    assert line.tried == [0, 1, 2]
    assert plan.report.step_cycles == BOUND + 2


@pytest.mark.parametrize(("share", "tried"), [(HOPELESS, len(ATTEMPTS)), (1.01 * HOPELESS, 1)])
def test_a_mesh_on_which_many_routes_find_no_colours_is_not_cut_otherwise(share, tried, monkeypatch):
    placements = []

    def noted(*how):
        placements.append(placed(*how))
        return placements[-1]

    def routes(line, placement):
        error = NoColours("no colour", hint="Use another mesh.")
        error.share = share
        raise error

    monkeypatch.setattr(Drawn, "routes", routes)
    with pytest.raises(NoColours):
        next(cuts(Drawn([BOUND] * len(MESHES)), noted))
    assert len(placements) == tried
