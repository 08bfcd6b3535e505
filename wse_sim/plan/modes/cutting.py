"""A pipeline of many stages, cut from its mesh, or from a smaller one where that is faster."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from lazytensor.errors import PlacementError
from wse_sim.plan.modes.mode_plan import ModePlan
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
LITTLE = 1.02
"""Of the area bound: a smaller mesh on which it is no longer is cut too."""
LOOSEST = 1.4
"""Of the area bound: what takes longer does so because smaller parts have shorter ways."""


class Line(Protocol):
    """A line of stages on some mesh."""

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


def cuts(
    line: Line, placer: Placer, smaller: Iterable[tuple[int, int]] = (), whole: Line | None = None
) -> Iterator[ModePlan]:
    """The first plan that is found, and then those that are faster. Raises PlacementError if there is none.

    Meshes of `smaller` sizes, the largest first, are cut where there is none yet, and where one may be faster. The area
    bound that a plan shows is that of `whole`, the line on all that there is, if that is more.
    """
    refusal: PlacementError | None = None
    best: ModePlan | None = None
    is_sooner, missed = True, 0
    for own in (line, *(line.on(*mesh) for mesh in smaller)):
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
        faster = [o for o in outcomes if best is None or _cycles(o) < best.report.step_cycles]
        if faster:
            attempt, best = min(faster, key=_cycles)
            is_sooner, missed = attempt.fills_sooner, 0
            yield best if own is (whole or line) else _with_bound_of(whole or line, best)
    if best is None:
        assert refusal is not None
        raise refusal


def _cycles(outcome: tuple[Attempt, ModePlan]) -> int:
    return outcome[1].report.step_cycles


def _with_bound_of(whole: Line, plan: ModePlan) -> ModePlan:
    """The plan with the bound of all of the mesh, whichever part was cut."""
    return plan.with_bound(min(plan.report.bound_cycles, area_bound(whole.floor())), _shortest(plan))


def _is_nearly_as_good(best: ModePlan, smaller: Line) -> bool:
    """Whether a smaller mesh allows nearly the same time of the slowest stage."""
    return area_bound(smaller.floor()) < LITTLE * best.report.bound_cycles


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
    if not CLOSE * bound < slowest < LOOSEST * bound:
        return False
    return CLOSE * area_bound(smaller.floor()) < GAIN * slowest
