"""A pipeline of many stages, cut from its mesh, or from a smaller one where that is faster."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from lazytensor.errors import PlacementError
from wse_sim.plan.known_meshes import smaller_meshes
from wse_sim.plan.modes.mode_plan import ModePlan, Share
from wse_sim.plan.place import CLOSE, Floor, Placement, Placer, area_bound
from wse_sim.plan.routes import NoColours, Routes


class Attempt(NamedTuple):
    """A way to cut a mesh: in so many rounds at most, and so that its pipeline fills sooner or not."""

    rounds: int
    fills_sooner: bool


FILLING_SOONER = (Attempt(7, True), Attempt(4, True))
ATTEMPTS = (*FILLING_SOONER, Attempt(7, False), Attempt(4, False))
"""Where the routes of one cutting find no colours, those of another may."""
PATIENCE = 2
"""So many smaller meshes in a row without a faster plan end the search for one."""
HOPELESS = 0.05
"""Where a larger share of the routes of one cutting finds no colours, no other one is tried."""
BETWEEN = ("link", "adapter")
"""Limits that lie between stages."""
GAIN = 0.99
"""Of the slowest stage's time: a smaller mesh has to promise so much to be cut."""
MOST_COPIES = 2
"""Of more none is cut closer."""
LITTLE = 1.02
"""Of the area bound: a smaller mesh on which it is no longer is cut too."""
LOOSEST = 1.4
"""Of the area bound: what takes longer does so because smaller parts have shorter ways."""


class Line(Protocol):
    """A line of stages on some mesh."""

    @property
    def share(self) -> Share:
        """What it is of all copies of the pipeline."""

    @property
    def least_pes(self) -> Sequence[int]:
        """PEs that the memory of each stage asks for."""

    def floor(self) -> Floor:
        """What is to be placed, and on what."""

    def on(self, width: int, height: int) -> "Line":
        """The same on a mesh of that size."""

    def routes(self, placement: Placement) -> Routes:
        """The routes between the parts of a placement. Raises PlacementError where colours do not suffice."""

    def relayed(self) -> "Line | None":
        """The same where what many stages read is handed on from one to the next; None where nothing is."""

    def plan(self, placement: Placement, routes: Routes) -> ModePlan:
        """The plan of a placement."""


def cut(line: Line, placer: Placer, whole: Line | None = None) -> ModePlan:
    """The fastest plan that was found. Raises PlacementError if there is none.

    The area bound that it shows is that of `whole`, the line on all that there is, if that is more.
    """
    whole = whole or line
    refusal: PlacementError | None = None
    best: ModePlan | None = None
    cut_from, is_sooner, missed = line, True, 0
    meshes = smaller_meshes(line.floor().machine, sum(line.least_pes))
    for own in (line, *(line.on(*mesh) for mesh in meshes)):
        attempts: Sequence[Attempt] = ATTEMPTS
        patience = PATIENCE
        if best is not None and best.report.limit not in BETWEEN and not _may_be_closer(best, own):
            # The fastest step of a smaller mesh may be shorter than one that fills late on all of this, or one for
            # which more cores do little but lengthen its ways.
            attempts = FILLING_SOONER if not is_sooner or _is_nearly_as_good(best, own) else ()
            patience = PATIENCE if not is_sooner else 1
        if not attempts or missed >= patience:
            break
        missed += best is not None
        try:
            outcomes, without = _plans(own, placer, attempts)
            # A refusal tells of the routes to each reader: a user knows these, and not how a tensor is handed on.
            refusal = refusal or without
            if not outcomes and attempts is ATTEMPTS and (relayed := own.relayed()) is not None:
                outcomes, _ = _plans(relayed, placer, attempts)
        except PlacementError as error:
            # A smaller mesh has no more room.
            refusal = refusal or error
            break
        for attempt, outcome in outcomes:
            if best is None or outcome.report.step_cycles < best.report.step_cycles:
                best, cut_from, is_sooner, missed = outcome, own, attempt.fills_sooner, 0
    if best is None:
        assert refusal is not None
        raise refusal
    if cut_from is whole:
        return best
    # Whatever mesh was cut, the bound is that of all of it.
    shortest = _shortest(best)
    return best.with_bound(min(best.report.bound_cycles, area_bound(whole.floor())), shortest)


def _is_nearly_as_good(best: ModePlan, smaller: Line) -> bool:
    """Whether a smaller mesh allows nearly the same time of the slowest stage."""
    # Copies of a pipeline are on less of the mesh anyway.
    return smaller.share.copies == 1 and area_bound(smaller.floor()) < LITTLE * best.report.bound_cycles


def _plans(
    line: Line, placer: Placer, attempts: Sequence[Attempt]
) -> tuple[list[tuple[Attempt, ModePlan]], PlacementError | None]:
    """Plans of some cuttings of its mesh, and why the first without one has none. PlacementError where no room is."""
    outcomes: list[tuple[Attempt, ModePlan]] = []
    refusal: PlacementError | None = None
    for attempt in attempts:
        placement = placer(line.floor(), *attempt)
        try:
            outcome = line.plan(placement, line.routes(placement))
        except PlacementError as error:
            refusal = refusal or error
            if isinstance(error, NoColours) and error.share > HOPELESS:
                break
            continue
        outcomes.append((attempt, outcome))
        # Where routes had to go where colours were left, those of another cutting may be emptier.
        if outcome.report.limit not in BETWEEN:
            break
    return outcomes, refusal


def _shortest(plan: ModePlan) -> int:
    assert plan.placement is not None
    return plan.placement.shortest_cycles


def _may_be_closer(best: ModePlan, smaller: Line) -> bool:
    """Whether a smaller mesh may be faster, cut as close to its area bound as most are."""
    slowest, bound = _shortest(best), best.report.bound_cycles
    # Many copies are small, and few of them worth the time.
    if smaller.share.copies > MOST_COPIES or not CLOSE * bound < slowest < LOOSEST * bound:
        return False
    return CLOSE * area_bound(smaller.floor()) < GAIN * slowest
