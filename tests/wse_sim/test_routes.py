"""Routes between stages: their hops, loads and colours, and where they show in a report."""

from dataclasses import replace

import pytest
from programs import mlp
from test_floors import stage

from lazytensor.errors import PlacementError
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE2
from wse_sim.plan.modes import plan
from wse_sim.plan.routes import Routes, require_colours, routes_of

MACHINE = replace(TINY, width=20, height=20)


def test_a_route_has_a_lane_for_each_row_and_then_for_each_column():
    laid = routes_of({(0, 1): 120}, [Rect(0, 0, 4, 6), Rect(10, 10, 3, 3)], MACHINE)
    (route,) = laid.routes
    assert (route.hops, route.colour, laid.colours) == (9 + 8, 0, 1)
    # 20 bytes on each of six rows, and 40 on each of three columns.
    assert laid.link_bytes == 40
    assert laid.fullest == route
    # The column of the turn has both, and the fuller counts.
    assert laid.core_bytes[0, 2:10].tolist() == [20] * 8
    assert laid.core_bytes[5, 10:13].tolist() == [40] * 3


def test_routes_that_meet_have_colours_of_their_own_and_loads_add_up():
    rects = [Rect(0, 0, 2, 2), Rect(4, 0, 2, 2), Rect(8, 0, 2, 2), Rect(0, 10, 2, 2), Rect(8, 10, 2, 2)]
    laid = routes_of({(0, 2): 8, (1, 2): 4, (3, 4): 2}, rects, MACHINE)
    assert [route.colour for route in laid.routes] == [0, 1, 0]
    assert laid.link_bytes == (8 + 4) / 2


def test_nothing_flows_nothing_is_loaded():
    assert routes_of({}, [Rect(0, 0, 2, 2)], MACHINE) == Routes(())


def test_a_route_without_a_colour_is_refused_with_its_ends_and_line():
    laid = routes_of({(0, 1): 1, (1, 0): 1}, [Rect(0, 0, 2, 2), Rect(4, 0, 2, 2)], MACHINE)
    stages = [stage(1, 7), stage(1, 8)]
    require_colours(laid, stages, MACHINE)
    with pytest.raises(PlacementError, match="layer 8 to layer 7 meets others in all 1 colours") as raised:
        require_colours(laid, stages, replace(MACHINE, colours=1))
    assert raised.value.where == stages[1].where


def test_the_fullest_link_is_a_bound_that_names_its_two_stages():
    report = plan(mlp((64, 32, 16), batch=64), WSE2, "pipelined", other=False).report
    bound = next(b for b in report.pipelined.bounds if b.kind == "link")
    assert " to " in bound.what
    assert report.samples_per_s <= bound.samples_per_s
    assert report.pipelined.colours == 2
    assert f"{report.pipelined.route_hops} hops between stages, in 2 colours" in report.text()


def test_the_first_sample_takes_its_way_between_stages_there_and_back():
    placed = plan(mlp((64, 32, 16), batch=64), WSE2, "pipelined", other=False).pipelined
    ways = [(span.label, span.end_cycles - span.start_cycles) for span in placed.timeline.lanes["routes"]]
    # Two stages, and so one route each way: what goes there comes back over as many hops.
    assert [label for label, _ in ways] == ["forward", "backward"]
    assert sum(cycles for _, cycles in ways) == placed.report.route_hops * WSE2.hop_cycles
