"""From a contest problem to a layout: the time is bisected, then the wires are shortened."""

from collections.abc import Iterator, Sequence

from lazytensor.errors import PlacementError
from wse_sim.contest.kgraph import Problem
from wse_sim.contest.menus import Menus, least_time
from wse_sim.contest.scoring import PlacedKernel, Solution, score
from wse_sim.placement.curves import Curve
from wse_sim.placement.short_wires import Task, fits, short_tree
from wse_sim.placement.slicing import Tree, fits_mesh, least_sides, rectangles

SLACKS = (1.03, 1.09, 1.17, 1.27, 1.4, 1.6, 2.0)
"""Times that are tried, in area bounds: smaller kernels have shorter wires between them."""
WORK, MOST, EACH = 15_000_000, 200_000, 50
"""How long to look for short wires: changes times kernels, the most changes, and changes over the cube of kernels."""
SECONDS = 24.0
"""Of processors, on both threads: ends the search on a slow machine."""


def solve(problem: Problem, effort: float = 1.0, trade: bool = False) -> Solution:
    """Place the kernels of a problem; `effort` is how long to look for short wires, 1.0 some seconds.

    The time is at most 1.03 of the area bound if that can be; `trade` gives more of it away for a better score.

    Raises PlacementError if they do not fit at any time.
    """
    menus = Menus(problem)
    bound = menus.bound()
    if not fits(_task(problem, menus, menus.longest)):
        raise _too_full(problem, menus.curves(menus.longest))
    first = int(SLACKS[0] * bound)
    if not fits(_task(problem, menus, first)):
        first = least_time(lambda time: fits(_task(problem, menus, time)), first, menus.longest)
    best: tuple[PlacedKernel, ...] = ()
    for slack in SLACKS if trade else SLACKS[:1]:
        time = max(first, int(slack * bound))
        if best and not _may_pay(problem, best, time):
            break
        layouts = (*_layouts(problem, menus, time, effort), *((best,) if best else ()))
        # The first time that is no better ends it: more slack only makes larger holes then.
        before, best = best, min(layouts, key=lambda layout: score(problem, layout).total)
        if best is before:
            break
    return Solution(bound=bound, layout=best)


def _may_pay(problem: Problem, best: Sequence[PlacedKernel], time: int) -> bool:
    """Whether a slower layout could have the better score: if it saved a fifth of the wires."""
    marks = score(problem, best)
    return problem.time_weight * (time - float(marks.delta_t)) < problem.wire_weight * float(marks.wirelength) / 5


def _task(problem: Problem, menus: Menus, time: int) -> Task:
    return Task(menus.curves(time), [(a, b, 1) for a, b in problem.edges if a != b], problem.width, problem.height)


def _layouts(problem: Problem, menus: Menus, time: int, effort: float) -> Iterator[tuple[PlacedKernel, ...]]:
    """The layout with the shortest wires within a time, and the same tree in the least time for it."""
    task, n = _task(problem, menus, time), len(problem.kernels)
    # A few kernels have few trees, and a change of many takes long.
    changes = min(MOST, WORK // n, EACH * n**3)
    tree = short_tree(task, int(effort * changes), SECONDS)
    if tree is None:
        return

    # Kernels take a little less time than they may: the tree may stand with less for all of them.
    def stands(other: int) -> bool:
        return fits_mesh(tree, menus.curves(other), problem.width, problem.height)

    yield _layout(problem, menus, time, tree)
    yield _layout(problem, menus, least_time(stands, 0, time), tree)


def _layout(problem: Problem, menus: Menus, time: int, tree: Tree) -> tuple[PlacedKernel, ...]:
    places = rectangles(tree, menus.curves(time), problem.width, problem.height)
    return tuple(menus.placed(n, time, rect) for n, rect in enumerate(places))


def _too_full(problem: Problem, curves: Sequence[Curve]) -> PlacementError:
    wide, high = least_sides(curves, problem.width, problem.height)
    return PlacementError(
        f"{len(curves)} kernels fill the mesh of {problem.width:,} x {problem.height:,} PEs too well to be cut from "
        f"it: {wide - problem.width:,} over in x, or {high - problem.height:,} over in y",
        hint="Give a larger mesh or more memory.",
    )
