"""Which cutting of a mesh a pipeline uses, for lines whose times and limits are drawn."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.errors import PlacementError
from tests.wse_sim.programs import quick
from wse_sim import WSE2, Machine
from wse_sim.planner.bounds import RateBound
from wse_sim.planner.floorplan import FloorplanProblem, Placement
from wse_sim.planner.modes.mode_plan import ModePlan
from wse_sim.planner.modes.pipeline_cuts import fastest_cutting
from wse_sim.planner.report import ModeReport
from wse_sim.planner.routing import NoColoursError


@dataclass
class Drawn:
    """A line whose cutting number n takes `steps[n]` cycles, or has no colours for None.

    With `is_link_full` a link bounds every step. The first sample takes `fill` cycles.
    """

    steps: list[int | None]
    is_link_full: bool = False
    share: float = 0.0
    fill: int = 0
    relays: "Drawn | None" = None
    machine: Machine = WSE2
    tried: list[int | None] = field(default_factory=list)

    def floor(self):
        return FloorplanProblem((), (), lambda *_: 1, 8, self.machine)

    def relayed(self):
        return self.relays

    def routes(self, placement):
        self.tried.append(self.steps[len(self.tried) % len(self.steps)])
        if self.tried[-1] is None:
            error = NoColoursError(f"no colour for cutting {len(self.tried)}", hint="Use another one.")
            error.share = self.share
            raise error

    def plan(self, placement, routes):
        bounds = RateBound("compute", 2.0, ""), RateBound("link", 1.0 if self.is_link_full else 3.0, "")
        return ModePlan(
            ModeReport("pipelined", fits=True, step_cycles=self.tried[-1], fill_cycles=self.fill, bounds=bounds)
        )


def placed(floor, rounds, fills_sooner):
    return Placement((), (), ())


drawn_steps = st.lists(st.none() | st.integers(1, 9), min_size=4, max_size=4)


@quick
@given(drawn_steps)
def test_the_first_cutting_with_colours_is_taken(steps):
    line, found = Drawn(steps), [own for own in steps if own is not None]
    if not found:
        with pytest.raises(PlacementError, match="cutting 1"):
            fastest_cutting(line, placed)
        return
    assert fastest_cutting(line, placed).report.step_cycles == found[0]


@pytest.mark.parametrize("steps, fastest", [([5, 4], 4), ([4, 5], 4), ([None, 5, None], 5)])
def test_where_links_are_full_squarer_parts_are_tried_too(steps, fastest):
    shapes = []

    def noted(floor, *attempt):
        shapes.append(floor.max_aspect)
        return placed(floor, *attempt)

    line = Drawn(steps, is_link_full=True)
    assert fastest_cutting(line, noted).report.step_cycles == fastest
    assert shapes[-1] < shapes[0]


@pytest.mark.parametrize("share, is_tried_again", [(0.01, True), (0.2, False)])
def test_a_mesh_on_which_many_routes_find_no_colours_is_not_cut_otherwise(share, is_tried_again):
    line = Drawn([None, 5, 5, 5], share=share)
    if is_tried_again:
        assert fastest_cutting(line, placed).report.step_cycles == 5
    else:
        with pytest.raises(NoColoursError):
            fastest_cutting(line, placed)
        assert line.tried == [None]


def test_relays_are_laid_where_no_cutting_has_colours():
    assert fastest_cutting(Drawn([None], relays=Drawn([7])), placed).report.step_cycles == 7


@pytest.mark.parametrize("fill, fastest, meshes", [(9, 7, 3), (0, 9, 1)])
def test_halves_of_the_mesh_are_tried_while_they_are_faster_if_filling_is_long(fill, fastest, meshes):
    areas = []

    def noted(floor, *attempt):
        areas.append(floor.machine.usable_pes)
        return placed(floor, *attempt)

    assert fastest_cutting(Drawn([9, 7, 8, 1], fill=fill), noted).report.step_cycles == fastest
    assert len(areas) == meshes
    assert all(abs(larger - 2 * smaller) <= WSE2.width for larger, smaller in pairwise(areas))


def test_a_mesh_of_one_core_is_not_halved():
    one = replace(WSE2, width=1, height=1, reserved_columns=0, reserved_rows=0)
    assert fastest_cutting(Drawn([9, 7], fill=9, machine=one), placed).report.step_cycles == 9
