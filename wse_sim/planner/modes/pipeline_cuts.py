"""Try floorplans of a pipeline until one has colours for its routes and is not limited by them."""

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
    """Options of a placer: the maximum `rounds` of pricing, and whether a shorter fill may cost rhythm."""

    rounds: int
    fills_sooner: bool


CUT_ATTEMPTS = (CutAttempt(7, True), CutAttempt(4, True), CutAttempt(7, False), CutAttempt(4, False))
"""The options to try in turn. If the routes of one floorplan find no colours, those of another one may."""
MAX_UNCOLOURED_SHARE = 0.05
"""No further floorplan is tried if more than this share of the routes finds no colour."""
STAGE_BOUNDS, ROUTE_BOUNDS = ("compute", "moving"), ("link", "adapter")
"""Kinds of bounds that arise in stages, and in the routes between them."""


class StagePipeline(Protocol):
    """The stages of a pipeline on a mesh."""

    def floor(self) -> FloorplanProblem:
        """Return the placement problem."""

    def routes(self, placement: Placement) -> Routes:
        """Return the routes between the parts of a floorplan. Raise NoColoursError if colours do not suffice."""

    def relayed(self) -> "StagePipeline | None":
        """Return the pipeline with relayed tensors (see `relays`), or None if no tensor can be relayed."""

    def plan(self, placement: Placement, routes: Routes) -> ModePlan:
        """Return the plan for a floorplan and its routes."""


def fastest_cutting(line: StagePipeline, placer: Placer) -> ModePlan:
    """Return the plan of the first of `CUT_ATTEMPTS` whose routes find colours, or a faster variant of it.

    If a route limits the step more than a stage does, squarer parts, whose routes have more lanes, are tried too.
    Otherwise, if the first sample takes long, smaller parts of the mesh are tried. If no attempt finds colours, the
    attempts are repeated with relays. Raise NoColoursError of the plain routes if relays fail too, and PlacementError
    if the stages do not fit.
    """
    try:
        return _first_plan(line, placer)
    except NoColoursError:
        relayed = line.relayed()
        if relayed is None:
            raise
        # If relays fail too, report the error of the plain routes.
        with suppress(NoColoursError):
            return _first_plan(relayed, placer)
        raise


def _first_plan(line: StagePipeline, placer: Placer) -> ModePlan:
    """Return the plan of the first of `CUT_ATTEMPTS` whose routes find colours, or a faster variant of it.

    No further attempt is made if more than `MAX_UNCOLOURED_SHARE` of the routes lack a colour. Raise the NoColoursError
    of the first attempt if none finds colours, and PlacementError if the stages do not fit.
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

    Large rectangles have long routes, which matter if the first sample's latency is a notable share of the step. The
    mesh is halved along its longer side while the step gets faster and the stages fit. Without this, a step of FC-MNIST
    takes 1.13 times as many cycles at a batch of 64.
    """
    machine = line.floor().machine
    while machine.usable_pes > 1 and plan.report.fill_cycles >= MIN_FILL_RATIO * plan.report.step_cycles:
        machine = _half_of(machine)
        try:
            smaller = _plan(line, placer, attempt, machine=machine)
        except PlacementError:  # NoColoursError included
            return plan
        if smaller.report.step_cycles >= plan.report.step_cycles:
            return plan
        plan = _with_bounds_of(smaller, plan)
    return plan


def _half_of(machine: Machine) -> Machine:
    """Return the machine with half of its usable mesh (rounded down), cut across the longer side.

    A square mesh is cut in height.
    """
    if machine.usable_width > machine.usable_height:
        return replace(machine, width=machine.reserved_columns + machine.usable_width // 2)
    return replace(machine, height=machine.reserved_rows + machine.usable_height // 2)


def _with_bounds_of(plan: ModePlan, whole: ModePlan) -> ModePlan:
    """Return a plan on a part of the mesh with the area bound of `whole`, the plan on the whole mesh.

    Its `shortest_cycles` is the lesser value of both plans, and the bound is at most that. Plans without a floorplan
    are returned unchanged.
    """
    if plan.placement is None or whole.placement is None:
        return plan
    shortest = min(plan.placement.shortest_cycles, whole.placement.shortest_cycles)
    # A shape that was only tried on the smaller mesh may be faster than the bound.
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
    """Return the plan for one floorplan, on `machine` if it is given, else on that of `line`.

    Raise PlacementError if the stages do not fit, and NoColoursError if the routes find no colours.
    """
    floor = line.floor()
    placement = placer(replace(floor, max_aspect=max_aspect, machine=machine or floor.machine), *attempt)
    return line.plan(placement, line.routes(placement))


def _is_bounded_by_routes(plan: ModePlan) -> bool:
    """Return whether a link or an adapter allows a lower rate than the slowest stage. A missing bound is infinite."""
    rates = {bound.kind: bound.samples_per_s for bound in plan.report.bounds}
    routes, stages = (
        min((rates[k] for k in kinds if k in rates), default=math.inf) for kinds in (ROUTE_BOUNDS, STAGE_BOUNDS)
    )
    return routes < stages
