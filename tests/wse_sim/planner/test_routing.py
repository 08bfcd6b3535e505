"""Routes between stages: their hops, loads and colours, and where they show in a report."""

import sys
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.errors import PlacementError
from tests.wse_sim.pipeline.small_pipelines import Case
from tests.wse_sim.pipeline.test_step_run import hold_to_host
from tests.wse_sim.planner.test_floorplan import stage
from tests.wse_sim.programs import mlp, quick
from wse_sim.cost_model.relayout import adapter_cycles
from wse_sim.fabric.lowering.moves import make_receive, make_send
from wse_sim.fabric.mesh import DIRECTIONS, RAMP, Mesh
from wse_sim.fabric.run import simulate
from wse_sim.isa.core_program import CoreProgram
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE2
from wse_sim.pipeline.layer_region import link_direction, make_core_path
from wse_sim.planner.floorplan import PLACERS
from wse_sim.planner.modes import plan
from wse_sim.planner.routing import (
    NO_COLOUR,
    NoColoursError,
    Routes,
    StageColours,
    lay_routes,
    require_colours,
    route_lanes,
)

MACHINE = replace(TINY, width=20, height=20)


def test_a_route_has_a_lane_for_each_row_and_then_for_each_column():
    laid = lay_routes({(0, 1): 120}, [Rect(0, 0, 4, 6), Rect(10, 10, 3, 3)], MACHINE)
    (route,) = laid.routes
    assert (route.hops, route.colour, laid.colours) == (9 + 8, 0, 1)
    # 20 bytes on each of six rows, and 40 on each of three columns.
    assert laid.link_bytes == 40
    assert laid.fullest == route
    # The first row turns last, into the farthest column, which the second row turns into too.
    assert laid.core_bytes[0, 2:12].tolist() == [20] * 10
    assert laid.core_bytes[5, 10:13].tolist() == [40] * 3
    assert laid.core_bytes.sum() == 20 * laid_links(laid, Rect(0, 0, 4, 6), Rect(10, 10, 3, 3))
    # Six rows and three columns: six ports take five words of a sample each, and give them.
    assert (route.lanes, route.ports, route.port_words) == (6, 6, 5)
    assert route.link.bytes == 40


def laid_links(laid, one, other):
    """Links of all lanes, each counted as often as lanes pass it and as no link of another direction is fuller."""
    return sum(abs(run.end - run.start) for lane in route_lanes(one, other) for run in lane)


def test_equal_numbers_of_rows_and_columns_need_no_adapter():
    laid = lay_routes({(0, 1): 120}, [Rect(0, 0, 4, 3), Rect(10, 10, 3, 3)], MACHINE)
    assert (laid.routes[0].ports, laid.routes[0].port_words) == (0, 0)


def test_routes_that_meet_have_colours_of_their_own_and_loads_add_up():
    rects = [Rect(0, 0, 2, 2), Rect(4, 0, 2, 2), Rect(8, 0, 2, 2), Rect(0, 10, 2, 2), Rect(8, 10, 2, 2)]
    laid = lay_routes({(0, 2): 8, (1, 2): 4, (3, 4): 2}, rects, MACHINE)
    assert [route.colour for route in laid.routes] == [0, 1, 0]
    assert laid.link_bytes == (8 + 4) / 2


def test_nothing_flows_nothing_is_loaded():
    assert lay_routes({}, [Rect(0, 0, 2, 2)], MACHINE) == Routes(())


def test_a_route_without_a_colour_is_refused_with_its_ends_and_line():
    rects, flows = [Rect(0, 0, 2, 2), Rect(4, 0, 2, 2)], {(0, 1): 1, (1, 0): 1}
    stages = [stage(1, 7), stage(1, 8)]
    require_colours(lay_routes(flows, rects, MACHINE), stages, rects, MACHINE)
    single = replace(MACHINE, colours=1)
    # Whichever is laid first takes the only one.
    words = "no colour is free on the whole route from layer 8 to layer 7; tiny has 1 colours"
    with pytest.raises(PlacementError, match=words) as raised:
        require_colours(lay_routes(flows, rects, single), stages, rects, single)
    assert raised.value.where == stages[1].where


def grid_of(count: int, seed: int) -> tuple[list[Rect], dict[tuple[int, int], int]]:
    """Stages of one core each, and flows between any of them."""
    rng = np.random.default_rng(seed)
    return [Rect(x, y, 1, 1) for x in range(5) for y in range(5)], {
        tuple(rng.choice(25, 2, replace=False).tolist()): 4 for _ in range(count)
    }


@pytest.mark.parametrize(("seed", "colours"), [(34, 5), (0, 6), (11, 6), (16, 7)])
def test_routes_of_which_some_go_without_at_first_all_find_a_colour(seed, colours, monkeypatch):
    (rects, flows), mesh = grid_of(20, seed), replace(MACHINE, colours=colours)
    assert NO_COLOUR not in {route.colour for route in lay_routes(flows, rects, mesh).routes}
    for name in ("PATIENCE_STEPS_PER_ROUTE", "MIN_PATIENCE_STEPS"):
        monkeypatch.setattr(sys.modules["wse_sim.planner.route_colouring"], name, 0)
    assert NO_COLOUR in {route.colour for route in lay_routes(flows, rects, mesh).routes}


@quick
@given(
    seed=st.integers(0, 1000),
    count=st.integers(1, 30),
    colours=st.integers(2, 8),
    own=st.integers(0, 2),
    extents=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=25, max_size=25),
)
def test_no_two_routes_over_one_core_have_one_colour_nor_one_that_its_kernels_have(seed, count, colours, own, extents):
    (rects, flows), mesh = grid_of(count, seed), replace(MACHINE, colours=colours)
    rects = [Rect(4 * rect.x, 4 * rect.y, *extent) for rect, extent in zip(rects, extents, strict=True)]
    laid = lay_routes(flows, rects, mesh, [StageColours("matmul", own)] * len(rects))
    assert [(route.source, route.target) for route in laid.routes] == list(flows)
    taken = Counter()
    for route in laid.routes:
        # All cores of its lanes, those where they begin, turn and end among them.
        cores = {
            (at, run.line) if run.is_row else (run.line, at)
            for lane in route.placed_lanes(rects)
            for run in lane
            for at in range(min(run.start, run.end), max(run.start, run.end) + 1)
        }
        if route.colour != NO_COLOUR:
            assert 0 <= route.colour < colours - own
            taken.update((*core, route.colour) for core in cores)
    assert max(taken.values(), default=1) == 1


def test_kernels_take_colours_that_routes_over_their_rectangles_cannot_have():
    rects, flows = [Rect(0, 0, 2, 2), Rect(4, 0, 2, 2), Rect(8, 0, 2, 2)], {(0, 2): 8}
    taken = [StageColours(), StageColours("matmul", 3, flow=2), StageColours("softmax", 3)]
    laid = lay_routes(flows, rects, MACHINE, taken)
    assert laid.router_colours == 6
    stages, narrow = [stage(1, 7), stage(1, 8), stage(1, 9)], replace(MACHINE, colours=5)
    words = r"in use at core \(4, 0\), where matmul of layer 8 needs 3 colours, and its inputs and outputs 2,"
    with pytest.raises(PlacementError, match=words) as e:
        require_colours(lay_routes(flows, rects, narrow, taken), stages, rects, narrow, taken)
    assert e.value.where == stages[0].where


def test_kernels_that_want_more_colours_than_there_are_are_refused_where_they_are():
    rects, stages, taken = [Rect(4, 2, 2, 2)], [stage(1, 7)], [StageColours("softmax", 23, flow=3)]
    demand = "softmax of layer 7 needs 23 colours, and its inputs and outputs 3"
    words = demand + r", on every router from \(4, 2\) on; tiny has 24 colours"
    with pytest.raises(PlacementError, match=words) as e:
        require_colours(lay_routes({}, rects, MACHINE, taken), stages, rects, MACHINE, taken)
    assert e.value.where == stages[0].where


def words_on_links(lanes, words: int, extent: int) -> np.ndarray:
    """What the fullest link that leaves each core passes when each lane carries so many words on the fabric."""
    mesh = Mesh(MACHINE, extent, extent)
    sends, stores = defaultdict(list), defaultdict(list)
    for colour, (first, last) in enumerate(lanes):
        (x, y), (to_x, to_y) = (first.start, first.line), (last.line, last.end)
        ends = ((x, y), (to_x, to_y)) if first.is_row else ((y, x), (to_y, to_x))
        path = make_core_path(*ends, is_row_first=first.is_row)
        for n, cell in enumerate(path):
            source = link_direction(cell, path[n - 1]) if n else RAMP
            mesh.route(colour, *cell, source, [link_direction(cell, path[n + 1]) if n < len(path) - 1 else RAMP])
        sends[path[0]].append(replace(make_send(colour, 0, words), is_async=True))
        stores[path[-1]].append(make_receive(colour, words, words))
    for n, cell in enumerate({**sends, **stores}):
        body = (*sends.get(cell, ()), *stores.get(cell, ()))
        mesh.run(CoreProgram(f"p{n}", 2 * words, (("main", body),)), *cell)
    done = simulate(mesh).expect_finished()
    return np.max([done.counters[name] for name in DIRECTIONS[:RAMP]], axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [16, 64])
def test_lanes_of_a_placed_pipeline_load_the_links_of_the_fabric_as_the_table_says(batch):
    machine = replace(MACHINE, width=9, height=9)
    placed = plan(mlp((64, 32, 16), batch=batch), machine, "pipelined", other=False).pipelined
    rects, words = placed.placement.rects, 8
    first = lay_routes({(0, 1): 1, (1, 0): 1}, rects, machine)
    laid = lay_routes({(r.source, r.target): 4 * words * r.lanes for r in first.routes}, rects, machine)
    assert [r.lanes for r in laid.routes] == [r.lanes for r in first.routes]
    counted = words_on_links([lane for route in laid.routes for lane in route.placed_lanes(rects)], words, 9)
    np.testing.assert_array_equal(4 * counted, laid.core_bytes)
    assert counted.max() > words


@pytest.mark.slow
def test_routes_turn_the_other_way_or_take_another_colour_where_they_would_find_none():
    corners = ((4, 0), (8, 8), (8, 4), (4, 4), (4, 8))
    rects, narrow = [Rect(x, y, 2, 2) for x, y in corners], replace(MACHINE, colours=2)
    flows = dict.fromkeys(((0, 2), (1, 0), (3, 4), (4, 3)), 4 * 8 * 2)
    laid = lay_routes(flows, rects, narrow)
    # As they come the last one would have none, whichever way it turns: in a line there is one way.
    assert [(r.source, r.target) for r in laid.routes] == list(flows)
    assert NO_COLOUR not in [r.colour for r in laid.routes]
    assert [r.is_row_first for r in laid.routes][:3] == [True, False, True]
    lanes = [lane for route in laid.routes for lane in route.placed_lanes(rects)]
    np.testing.assert_array_equal(4 * words_on_links(lanes, 8, 20), laid.core_bytes)


def test_a_route_to_a_high_and_narrow_stage_enters_along_its_rows():
    rects = [Rect(0, 0, 8, 8), Rect(12, 10, 2, 8)]
    laid = lay_routes({(0, 1): 64}, rects, MACHINE)
    # Along its two columns, as the first turn has it, four of the lanes would share each.
    assert not laid.routes[0].is_row_first
    assert laid.link_bytes == laid.fullest.link.bytes == 64 / 8


def test_routes_that_would_fill_a_link_turn_apart_unless_colours_do_not_suffice():
    rects, flows = [Rect(0, 0, 2, 2), Rect(10, 10, 2, 2), Rect(0, 4, 2, 2)], {(0, 1): 8, (2, 1): 8}
    laid = lay_routes(flows, rects, MACHINE)
    assert [route.is_row_first for route in laid.routes] == [True, False]
    assert laid.link_bytes == 4
    # A router that both pass, whichever way, has one colour for each: two are enough, and one is not.
    assert max(route.colour for route in lay_routes(flows, rects, replace(MACHINE, colours=2)).routes) < 2
    assert NO_COLOUR in {route.colour for route in lay_routes(flows, rects, replace(MACHINE, colours=1)).routes}


@pytest.mark.slow
def test_a_pipeline_without_colours_to_fill_sooner_keeps_the_fastest_rhythm(monkeypatch):
    deep, mesh = (
        mlp((16,) * 20 + (256,) * 8, batch=8),
        replace(WSE2, width=87, height=71, reserved_columns=0, reserved_rows=0),
    )
    free = plan(deep, mesh, "pipelined", other=False)
    line_of = sys.modules["wse_sim.planner.modes.pipelined"]._PricedPipeline
    sooner, laid, cutting = [], line_of.routes, PLACERS["slicing"]

    def placed(floor, rounds, fills_sooner):
        placement = cutting(floor, rounds, fills_sooner)
        if fills_sooner:
            sooner.append(placement)
        return placement

    def routes(line, placement):
        if any(placement is one for one in sooner):
            raise NoColoursError("a route finds no colour", hint="Use another cutting.")
        return laid(line, placement)

    monkeypatch.setitem(PLACERS, "slicing", placed)
    monkeypatch.setattr(line_of, "routes", routes)
    late = plan(deep, mesh, "pipelined", other=False)
    assert late.chosen.placement.rects not in [one.rects for one in sooner]
    assert late.report.chosen.step_cycles > free.report.chosen.step_cycles
    # The rhythm is the fastest that there is.
    assert late.chosen.placement.shortest_cycles == free.chosen.placement.shortest_cycles
    assert late.report.chosen.slowest_cycles < free.report.chosen.slowest_cycles


@pytest.mark.slow
def test_an_adapter_takes_as_long_as_a_port_of_simulated_cores():
    run = hold_to_host(Case((12, 9, 7), batch=8, micro=2), [Rect(0, 0, 3, 4), Rect(4, 1, 4, 3)])
    x, y = run.sites.seats[0].after
    # Four micro-batches of nine columns of two samples; what the port waits for is no work of its own.
    assert run.result.counters["busy"][y, x] == 4 * adapter_cycles(9 * 2, WSE2)


@pytest.mark.slow
def test_the_fullest_link_is_a_bound_that_names_its_two_stages():
    report = plan(mlp((64, 32, 16), batch=64), WSE2, "pipelined", other=False).report
    bound = next(b for b in report.pipelined.bounds if b.kind == "link")
    assert " to " in bound.what
    assert report.samples_per_s <= bound.samples_per_s
    assert report.pipelined.colours == 2 < report.pipelined.router_colours <= 24
    most = f"the fullest router has {report.pipelined.router_colours} colours of routes and kernels"
    shown = " ".join(report.text().split())
    assert f"{report.pipelined.route_hops} hops between stages, in 2 colours; {most}" in shown


def test_the_first_sample_takes_its_way_between_stages_there_and_back():
    placed = plan(mlp((64, 32, 16), batch=64), WSE2, "pipelined", other=False).pipelined
    ways = [(span.label, span.end_cycles - span.start_cycles) for span in placed.timeline.lanes["routes"]]
    # Two stages, and so one route each way: what goes there comes back over as many hops.
    adapters = [span.end_cycles - span.start_cycles for span in placed.timeline.lanes.get("adapters", ())]
    assert sum(adapters) == sum(row.adapter_cycles for row in placed.report.routes)
    assert [label for label, _ in ways] == ["forward", "backward"]
    assert sum(cycles for _, cycles in ways) == placed.report.route_hops * WSE2.hop_cycles
