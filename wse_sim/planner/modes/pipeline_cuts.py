"""Cuttings of the mesh for a pipeline, until the routes of one find colours and are no bottleneck."""

import math
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol

from lazytensor.errors import PlacementError
from wse_sim.machine import Machine
from wse_sim.planner.floorplan import MAX_SHORT_WAY_ASPECT_RATIO, MIN_FILL_RATIO, FloorplanProblem, Placement, Placer
from wse_sim.planner.modes.mode_plan import ModePlan
from wse_sim.planner.routing import NoColoursError, Routes
from wse_sim.planner.stage_shapes import MAX_ASPECT_RATIO


class CutAttempt(NamedTuple):
    """A way to cut a mesh: with at most `rounds` rounds of prices, and for a shorter fill of the pipeline or not."""

    rounds: int
    fills_sooner: bool


CUT_ATTEMPTS = (CutAttempt(7, True), CutAttempt(4, True), CutAttempt(7, False), CutAttempt(4, False))
"""Where the routes of one cutting find no colours, those of another may."""
MAX_UNCOLOURED_SHARE = 0.05
"""If a larger share of the routes of one cutting finds no colours, no other cutting is tried."""
STAGE_BOUNDS, ROUTE_BOUNDS = ("compute", "moving"), ("link", "adapter")
"""Kinds of bounds that lie in stages, and in the routes between them."""


class StagePipeline(Protocol):
    """A line of stages on some mesh."""

    def floor(self) -> FloorplanProblem:
        """Return what is to be placed, and on what."""

    def routes(self, placement: Placement) -> Routes:
        """Return the routes between the parts of a placement. Raises NoColoursError if colours do not suffice."""

    def relayed(self) -> "StagePipeline | None":
        """Return the line where a tensor that many stages read is passed from one to the next; None if none is."""

    def plan(self, placement: Placement, routes: Routes) -> ModePlan:
        """Return the plan of a placement."""


def fastest_cutting(line: StagePipeline, placer: Placer) -> ModePlan:
    """Return the plan of the first of `CUT_ATTEMPTS` whose routes find colours.

    If a route bounds the step more than a stage does, the mesh is cut into squarer parts too, whose routes have more
    lanes, and the faster plan is returned. If no attempt finds colours, routes are laid in relays. Raises
    PlacementError if nothing fits.
    """
    try:
        return _first_plan(line, placer)
    except NoColoursError:
        relayed = line.relayed()
        if relayed is None:
            raise
        # The refusal describes the routes to each reader: a user sees these, and not the relays.
        with suppress(NoColoursError):
            return _first_plan(relayed, placer)
        raise


def _first_plan(line: StagePipeline, placer: Placer) -> ModePlan:
    """Return the plan of the first of `CUT_ATTEMPTS` whose routes find colours, or a faster one of other parts.

    Where routes bound the step, squarer parts are tried too, and where its first sample takes long, smaller ones.

    Raises the NoColoursError of the first attempt if none has colours, and PlacementError if the mesh has no room.
    """
    refusal: NoColoursError | None = None
    for attempt in CUT_ATTEMPTS:
        try:
            plan = _plan(line, placer, attempt)
        except NoColoursError as error:
            refusal = refusal or error
            if error.share > MAX_UNCOLOURED_SHARE:
                break
            continue
        if not _is_bounded_by_routes(plan):
            return _plan_on_smaller_parts(line, placer, attempt, plan)
        with suppress(NoColoursError):
            return min(
                plan, _plan(line, placer, attempt, MAX_SHORT_WAY_ASPECT_RATIO), key=lambda one: one.report.step_cycles
            )
        return plan
    assert refusal is not None
    raise refusal


def _plan_on_smaller_parts(line: StagePipeline, placer: Placer, attempt: CutAttempt, plan: ModePlan) -> ModePlan:
    """Return a faster plan on a part of the mesh, or the given one.

    Large rectangles have long ways, which count where the first sample's way is much of a step. The mesh is halved
    along its longer side for as long as the step is faster. Without this a step of FC-MNIST takes 1.13 times as many
    cycles at a batch of 64.
    """
    machine = line.floor().machine
    while machine.usable_pes > 1 and plan.report.fill_cycles >= MIN_FILL_RATIO * plan.report.step_cycles:
        machine = _half_of(machine)
        try:
            smaller = _plan(line, placer, attempt, machine=machine)
        except PlacementError:  # no room, or no colours
            return plan
        if smaller.report.step_cycles >= plan.report.step_cycles:
            return plan
        plan = _with_bounds_of(smaller, plan)
    return plan


def _half_of(machine: Machine) -> Machine:
    """Return the machine with half of its usable mesh, cut across the longer side."""
    if machine.usable_width > machine.usable_height:
        return replace(machine, width=machine.reserved_columns + machine.usable_width // 2)
    return replace(machine, height=machine.reserved_rows + machine.usable_height // 2)


def _with_bounds_of(plan: ModePlan, whole: ModePlan) -> ModePlan:
    """Return a plan on a part of the mesh with the area bound of the whole mesh, and the shorter rhythm of both."""
    if plan.placement is None or whole.placement is None:
        return plan
    shortest = min(plan.placement.shortest_cycles, whole.placement.shortest_cycles)
    # A shape that only the smaller mesh asked for may be faster than the bound was told.
    bound = min(whole.placement.bound_cycles, shortest)
    return replace(
        plan,
        report=replace(plan.report, bound_cycles=bound),
        placement=replace(plan.placement, bound_cycles=bound, shortest_cycles=shortest),
    )


def _plan(
    line: StagePipeline,
    placer: Placer,
    attempt: CutAttempt,
    max_aspect: int = MAX_ASPECT_RATIO,
    machine: Machine | None = None,
) -> ModePlan:
    floor = line.floor()
    placement = placer(replace(floor, max_aspect=max_aspect, machine=machine or floor.machine), *attempt)
    return line.plan(placement, line.routes(placement))


def _is_bounded_by_routes(plan: ModePlan) -> bool:
    """Return whether the fullest link or the slowest adapter takes longer than the slowest stage."""
    rates = {bound.kind: bound.samples_per_s for bound in plan.report.bounds}
    routes, stages = (
        min((rates[k] for k in kinds if k in rates), default=math.inf) for kinds in (ROUTE_BOUNDS, STAGE_BOUNDS)
    )
    return routes < stages
