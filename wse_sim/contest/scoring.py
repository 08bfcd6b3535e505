"""Score layouts of contest problems and check their legality, from the layout only.

No code is shared with the search, so that errors of the search show as illegal layouts or different scores. Source: the
contest's benchmark description. Its formula for adapters is not public. We assume that an edge costs one for each of h
and w in which its ends differ.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from wse_sim.contest.contest_kernels import COPIES_PER_CONVOLUTION, ContestKernel, KernelParameters
from wse_sim.contest.kernel_graph import ContestProblem

ROTATIONS = ("R0", "R90")


@dataclass(frozen=True)
class PlacedKernel:
    """A kernel on the mesh. `width` and `height` are its extents after rotation."""

    name: str
    x: int
    y: int
    width: int
    height: int
    rotation: str
    parameters: KernelParameters


@dataclass(frozen=True)
class Score:
    """The three figures of the contest and their weighted sum.

    - `delta_t`: cycles of the slowest kernel
    - `wirelength`: total distance between centres of connected kernels, in PEs
    - `adapter`: number of mismatches of h and w over all edges
    - `total`: the weighted sum
    """

    delta_t: Fraction
    wirelength: Fraction
    adapter: int
    total: Fraction


def score(problem: ContestProblem, layout: Sequence[PlacedKernel]) -> Score:
    """Return the exact score of a layout, whose kernels have the order of the problem's kernels.

    Legality is not checked; see `find_violations`. Raise ValueError for another number of kernels.
    """
    delta_t = max(_kernel_time(kernel, p.parameters) for kernel, p in zip(problem.kernels, layout, strict=True))
    wires = sum((_centre_distance(layout[a], layout[b]) for a, b in problem.edges), start=Fraction(0))
    adapter = sum(adapter_mismatch(layout[a].parameters, layout[b].parameters) for a, b in problem.edges)
    weights = (problem.time_weight, problem.wire_weight, problem.adapter_weight)
    # Use fractions: strides give quarters of cycles, centres may be between PEs, and sums are compared.
    terms = zip(weights, (delta_t, wires, Fraction(adapter)), strict=True)
    return Score(delta_t, wires, adapter, sum((Fraction(w) * v for w, v in terms), start=Fraction(0)))


def adapter_mismatch(one: KernelParameters, other: KernelParameters) -> int:
    """Return in how many of h and w the two ends of an edge differ: 0, 1 or 2."""
    return (one.h != other.h) + (one.w != other.w)


def _kernel_time(kernel: ContestKernel, p: KernelParameters) -> Fraction:
    """Return the cycles of a kernel, which are those of its slowest convolution."""
    # The convolutions of a block run at the same time.
    return max(conv.time(p.h, p.w, c, k) for conv, c, k in zip(kernel.convs, p.c, p.k, strict=True))


def _centre_distance(one: PlacedKernel, other: PlacedKernel) -> Fraction:
    """Return the Manhattan distance between the centres of two kernels in PEs, a whole or a half number."""
    across = (2 * one.x + one.width) - (2 * other.x + other.width)
    along = (2 * one.y + one.height) - (2 * other.y + other.height)
    return Fraction(abs(across) + abs(along), 2)


def find_violations(problem: ContestProblem, layout: Sequence[PlacedKernel]) -> Iterator[str]:
    """Yield a text for each violation in a layout; none if the layout is legal.

    If the names or the order of the kernels differ from the problem's, this is the only text. Overlapped PEs count for
    the first kernel that covers them.
    """
    # A map of the mesh with the index of the kernel that owns each PE.
    cells = np.full((problem.height, problem.width), -1, np.int32)
    if [p.name for p in layout] != [kernel.name for kernel in problem.kernels]:
        yield "the kernels are not those of the problem"
        return
    for n, (kernel, place) in enumerate(zip(problem.kernels, layout, strict=True)):
        yield from _parameter_violations(problem, kernel, place)
        if place.x < 0 or place.y < 0:
            yield f"{place.name} begins outside of the mesh, at ({place.x}, {place.y})"
            continue
        over_x, over_y = place.x + place.width - problem.width, place.y + place.height - problem.height
        if over_x > 0 or over_y > 0:
            yield f"{place.name} extends {max(0, over_x)} x {max(0, over_y)} PEs beyond the mesh"
        part = cells[place.y : place.y + place.height, place.x : place.x + place.width]
        for other in np.unique(part[part >= 0]):
            yield f"{place.name} shares {int((part == other).sum())} PEs with {layout[other].name}"
        # Keep the first owner, so that each overlap is reported once.
        part[part < 0] = n


def _parameter_violations(problem: ContestProblem, kernel: ContestKernel, place: PlacedKernel) -> Iterator[str]:
    """Yield a text for each violation of a kernel's rotation, extents, parameters and memory."""
    p = place.parameters
    extents = (COPIES_PER_CONVOLUTION * sum(p.k), p.h * p.w * (max(p.c) + 1))
    if place.rotation not in ROTATIONS:
        yield f"{place.name} has the invalid rotation {place.rotation}"
    if (place.width, place.height) != (extents if place.rotation == "R0" else extents[::-1]):
        yield f"{place.name} covers {place.width} x {place.height} PEs, but its parameters need {extents}"
    for conv, c, k in zip(kernel.convs, p.c, p.k, strict=True):
        limits = ((p.h, max(v.H for v in kernel.convs)), (p.w, max(v.W for v in kernel.convs)), (c, conv.C))
        if any(not 1 <= parts <= whole for parts, whole in (*limits, (k, conv.K))):
            yield f"{place.name} is cut into {p.h} x {p.w} tiles, {c} and {k} channels, which {conv} does not have"
        elif (words := conv.memory(p.h, p.w, c, k)) > problem.memory_limit:
            yield f"{place.name} needs {float(words):,.1f} words on a PE, which has {problem.memory_limit:,}"


@dataclass(frozen=True)
class ContestSolution:
    """A layout, and the area bound, a lower bound on the time of any layout."""

    bound: int
    layout: tuple[PlacedKernel, ...]
