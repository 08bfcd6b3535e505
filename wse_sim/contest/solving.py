"""Solve a contest problem: find the least feasible time by bisection, then shorten the wires."""

from collections.abc import Iterator, Sequence

from lazytensor.errors import PlacementError
from wse_sim.contest.kernel_choices import KernelChoices, least_feasible_time
from wse_sim.contest.kernel_graph import ContestProblem
from wse_sim.contest.scoring import ContestSolution, PlacedKernel, score
from wse_sim.floorplanning.shape_curves import ShapeCurve
from wse_sim.floorplanning.slicing_tree import SlicingTree, fits_mesh, min_sides, place_blocks
from wse_sim.floorplanning.wirelength_search import WirelengthProblem, find_short_tree, has_fitting_tree

TIME_BOUND_MULTIPLES = (1.03, 1.09, 1.17, 1.27, 1.4, 1.6, 2.0)
"""Multiples of the area bound to try as times. Slower kernels are smaller and have shorter wires."""
MAX_KERNEL_CHANGES, MAX_CHANGES, MAX_CHANGES_PER_CUBED_KERNELS = 15_000_000, 200_000, 50
"""Limits of the wirelength search: changes times kernels, changes, and changes divided by the cube of kernels."""
MAX_PROCESSOR_SECONDS = 24.0
"""Limit of the search in processor seconds over both threads, for slow machines."""


def solve(problem: ContestProblem, effort: float = 1.0, trade: bool = False) -> ContestSolution:
    """Return a layout of a problem's kernels, and the area bound. Raise PlacementError if they do not fit at any time.

    `effort` scales the length of the wirelength search; 1.0 takes some seconds. The time is at most 1.03 times the area
    bound if possible, else the least time with an initial slicing tree. With `trade`, slower layouts are tried too, and
    the one with the best score is returned.
    """
    menus = KernelChoices(problem)
    bound = menus.bound()
    if not has_fitting_tree(_wirelength_problem(problem, menus, menus.longest)):
        raise _mesh_too_full_error(problem, menus.curves(menus.longest))
    first = int(TIME_BOUND_MULTIPLES[0] * bound)
    if not has_fitting_tree(_wirelength_problem(problem, menus, first)):
        first = least_feasible_time(
            lambda time: has_fitting_tree(_wirelength_problem(problem, menus, time)), first, menus.longest
        )
    best: tuple[PlacedKernel, ...] = ()
    for slack in TIME_BOUND_MULTIPLES if trade else TIME_BOUND_MULTIPLES[:1]:
        time = max(first, int(slack * bound))
        if best and not _may_improve_score(problem, best, time):
            break
        layouts = (*_candidate_layouts(problem, menus, time, effort), *((best,) if best else ()))
        # Stop at the first time without improvement: more slack only makes larger holes.
        before, best = best, min(layouts, key=lambda layout: score(problem, layout).total)
        if best is before:
            break
    return ContestSolution(bound=bound, layout=best)


def _may_improve_score(problem: ContestProblem, best: Sequence[PlacedKernel], time: int) -> bool:
    """Return whether a layout of this `time` could have a better score than `best`.

    It is assumed to save a fifth of the wires and no adapters.
    """
    marks = score(problem, best)
    return problem.time_weight * (time - float(marks.delta_t)) < problem.wire_weight * float(marks.wirelength) / 5


def _wirelength_problem(problem: ContestProblem, menus: KernelChoices, time: int) -> WirelengthProblem:
    """Return the wirelength problem of the kernels within `time`."""
    return WirelengthProblem(
        menus.curves(time), [(a, b, 1) for a, b in problem.edges if a != b], problem.width, problem.height
    )


def _candidate_layouts(
    problem: ContestProblem, menus: KernelChoices, time: int, effort: float
) -> Iterator[tuple[PlacedKernel, ...]]:
    """Yield the layout with the shortest wires within `time`, and the same slicing tree in its least time.

    `effort` scales the number of changes in the search. Yield nothing if no slicing tree fits.
    """
    task, n = _wirelength_problem(problem, menus, time), len(problem.kernels)
    # Few kernels have few trees, and with many kernels each change takes long.
    changes = min(MAX_CHANGES, MAX_KERNEL_CHANGES // n, MAX_CHANGES_PER_CUBED_KERNELS * n**3)
    tree = find_short_tree(task, int(effort * changes), MAX_PROCESSOR_SECONDS)
    if tree is None:
        return

    # Kernels take slightly less than the time allowed, so the tree may fit for a shorter time too.
    def stands(other: int) -> bool:
        return fits_mesh(tree, menus.curves(other), problem.width, problem.height)

    yield _make_layout(problem, menus, time, tree)
    yield _make_layout(problem, menus, least_feasible_time(stands, 0, time), tree)


def _make_layout(
    problem: ContestProblem, menus: KernelChoices, time: int, tree: SlicingTree
) -> tuple[PlacedKernel, ...]:
    """Return the layout in which the kernels have their shapes for `time` and are placed by a slicing tree.

    The tree has to fit for this time. The layout has the order of the problem's kernels.
    """
    places = place_blocks(tree, menus.curves(time), problem.width, problem.height)
    return tuple(menus.placed(n, time, rect) for n, rect in enumerate(places))


def _mesh_too_full_error(problem: ContestProblem, curves: Sequence[ShapeCurve]) -> PlacementError:
    """Return the error for kernels that fit by area but not as a slicing tree.

    It names the rows or columns in excess.
    """
    wide, high = min_sides(curves, problem.width, problem.height)
    return PlacementError(
        f"{len(curves)} kernels fit the mesh of {problem.width:,} x {problem.height:,} PEs by area, but not as a "
        "slicing "
        f"floorplan: {wide - problem.width:,} over in x, or {high - problem.height:,} over in y",
        hint="Use a larger mesh or more memory.",
    )
