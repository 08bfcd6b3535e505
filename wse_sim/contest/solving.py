"""From a contest problem to a layout: the time is bisected, then the wires are shortened."""

from collections.abc import Sequence
from dataclasses import dataclass

from lazytensor.errors import PlacementError
from wse_sim.contest.kgraph import Problem
from wse_sim.contest.menus import Menus, least_time
from wse_sim.contest.scoring import PlacedKernel
from wse_sim.placement.curves import Curve
from wse_sim.placement.order import line_up
from wse_sim.placement.slicing import least_sides, ordered_tree, rectangles


@dataclass(frozen=True)
class Solution:
    """A layout, and the area bound: no layout whatever takes less time."""

    bound: int
    layout: tuple[PlacedKernel, ...]


def solve(problem: Problem) -> Solution:
    """Place the kernels of a problem. Raises PlacementError if they do not fit at any time."""
    menus = Menus(problem)
    bound = menus.bound()
    order = line_up(len(problem.kernels), problem.edges)

    def in_order(time: int) -> Sequence[Curve]:
        curves = menus.curves(time)
        return [curves[n] for n in order]

    # Less than the bound fits nowhere, so the search begins there.
    def fits(time: int) -> bool:
        return ordered_tree(in_order(time), problem.width, problem.height) is not None

    if not fits(menus.longest):
        raise _too_full(problem, in_order(menus.longest))
    time = least_time(fits, bound - 1, menus.longest)
    curves = in_order(time)
    tree = ordered_tree(curves, problem.width, problem.height)
    assert tree is not None
    places = rectangles(tree, curves, problem.width, problem.height)
    layout = {n: menus.placed(n, time, rect) for n, rect in zip(order, places, strict=True)}
    return Solution(bound, tuple(layout[n] for n in range(len(order))))


def _too_full(problem: Problem, curves: Sequence[Curve]) -> PlacementError:
    wide, high = least_sides(curves, problem.width, problem.height)
    return PlacementError(
        f"{len(curves)} kernels fill the mesh of {problem.width:,} x {problem.height:,} PEs too well to be cut from "
        f"it: {wide - problem.width:,} over in x, or {high - problem.height:,} over in y",
        hint="Give a larger mesh or more memory.",
    )
