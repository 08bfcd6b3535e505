"""The possible shapes of a problem's kernels for a given time, and the least feasible times."""

from collections.abc import Callable, Sequence

import numpy as np

from lazytensor.errors import PlacementError
from wse_sim.contest.contest_kernels import ContestKernel, Conv, ParameterChoices, find_parameter_choices
from wse_sim.contest.kernel_graph import ContestProblem
from wse_sim.contest.scoring import PlacedKernel
from wse_sim.floorplanning.shape_curves import ShapeCurve, min_curve_area
from wse_sim.layout import Rect

MAX_SEARCHED_SIDE = 1 << 13
"""Maximum side length in the search for the shape of a kernel that is too large for its mesh."""


class KernelChoices:
    """The possible parameters of a problem's kernels, cached by time and shared by equal kernels."""

    def __init__(self, problem: ContestProblem):
        self.problem = problem
        self._menus: dict[tuple[tuple[Conv, ...], int], tuple[ParameterChoices, ShapeCurve]] = {}
        kernels = problem.kernels
        self.longest = max(int(conv.time(1, 1, 1, 1)) + 1 for kernel in kernels for conv in kernel.convs)
        """A time in cycles that every choice of parameters keeps."""

    def of(self, n: int, time: int) -> tuple[ParameterChoices, ShapeCurve]:
        """Return the choices of kernel `n` that take at most `time` cycles, and their shape curve. Both are cached.

        Kernels with equal convolutions share them. No side is longer than that of the mesh.
        """
        problem, convs = self.problem, self.problem.kernels[n].convs
        if (convs, time) not in self._menus:
            width, height = problem.width, problem.height
            ways = find_parameter_choices(convs, time, problem.memory_limit, max(width, height))
            self._menus[convs, time] = ways, ways.curve(width, height)
        return self._menus[convs, time]

    def curves(self, time: int) -> Sequence[ShapeCurve]:
        """Return the shape curves of all kernels within `time`."""
        return [self.of(n, time)[1] for n in range(len(self.problem.kernels))]

    def area(self, time: int) -> int:
        """Return the total area in PEs of the smallest shapes within `time`."""
        return sum(map(min_curve_area, self.curves(time)))

    def bound(self) -> int:
        """Return the area bound: the least time at which the smallest shapes together are no larger than the mesh.

        Raise PlacementError if a kernel does not fit on the mesh, or if all together have no such time.
        """
        whole = self.problem.width * self.problem.height
        for n, curve in enumerate(self.curves(self.longest)):
            if curve[-1] > self.problem.height:
                raise _kernel_too_large_error(self.problem, self.problem.kernels[n])
        needed = self.area(self.longest)
        if needed > whole:
            n, largest = max(enumerate(map(min_curve_area, self.curves(self.longest))), key=lambda pair: pair[1])
            raise PlacementError(
                f"the kernels need {needed:,} PEs for their memory, but the mesh has {whole:,}: {needed - whole:,} "
                "over; "
                f"the largest, {self.problem.kernels[n].name}, needs {largest:,}",
                hint="Use a larger mesh or fewer kernels.",
            )
        return least_feasible_time(lambda time: self.area(time) <= whole, 0, self.longest)

    def placed(self, n: int, time: int, rect: Rect) -> PlacedKernel:
        """Return kernel `n` on a rectangle of its shape curve for `time`.

        Its rotation is "R0" if possible, else "R90". Of several choices with these sides, the first is taken. Raise
        PlacementError if there is none.
        """
        ways, kernel = self.of(n, time)[0], self.problem.kernels[n]
        for rotation, width, height in (("R0", rect.width, rect.height), ("R90", rect.height, rect.width)):
            match = np.flatnonzero((ways.widths == width) & (ways.heights == height))
            if len(match):
                return PlacedKernel(
                    name=kernel.name,
                    x=rect.x,
                    y=rect.y,
                    width=rect.width,
                    height=rect.height,
                    rotation=rotation,
                    parameters=ways.parameters(int(match[0])),
                )
        raise PlacementError(f"{kernel.name} has no parameters for {rect}", hint="Use a rectangle of its shape curve.")


def least_feasible_time(is_enough: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least time above `low` for which `is_enough` is True, given that it is True for `high`.

    Times above one that is enough have to be enough too. The search starts near `low`. The result is `high` if no less
    is enough.
    """
    # The answer is usually a few percent above the bound `low` and far below `high`.
    step = max(1, low // 128)
    while low + step < high:
        if is_enough(low + step):
            high = low + step
            break
        low, step = low + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _kernel_too_large_error(problem: ContestProblem, kernel: ContestKernel) -> PlacementError:
    """Return the error for a kernel that does not fit: its memory, or the shape that exceeds the mesh least.

    Shapes up to `MAX_SEARCHED_SIDE` PEs long are searched.
    """
    hint = "Use a larger mesh or more memory."
    h, w = max(conv.H for conv in kernel.convs), max(conv.W for conv in kernel.convs)
    most = max(conv.memory(h, w, conv.C, conv.K) for conv in kernel.convs)
    side, limit = 2 * max(problem.width, problem.height), problem.memory_limit
    if most > limit:
        what = f"{kernel.name} needs {float(most):,.0f} words on a PE in its finest cut, but a PE has {limit:,}: "
        return PlacementError(f"{what}{float(most) - limit:,.0f} over", hint=hint)
    longest = max(int(conv.time(1, 1, 1, 1)) + 1 for conv in kernel.convs)
    ways = find_parameter_choices(kernel.convs, longest, limit, side)
    while not len(ways.h) and side < MAX_SEARCHED_SIDE:
        side *= 2
        ways = find_parameter_choices(kernel.convs, longest, limit, side)
    if not len(ways.h):
        return PlacementError(f"{kernel.name} needs more than {side:,} x {side:,} PEs for its memory", hint=hint)
    wide, high = np.concatenate([ways.widths, ways.heights]), np.concatenate([ways.heights, ways.widths])
    over_x, over_y = np.maximum(0, wide - problem.width), np.maximum(0, high - problem.height)
    # The last key of lexsort is the primary one.
    n = int(np.lexsort((over_x + over_y, np.maximum(over_x, over_y)))[0])
    return PlacementError(
        f"{kernel.name} needs {wide[n]:,} x {high[n]:,} PEs for its memory, but the mesh has {problem.width:,} x "
        f"{problem.height:,}: {over_x[n]:,} over in x, {over_y[n]:,} over in y",
        hint=hint,
    )
