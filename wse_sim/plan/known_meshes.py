"""Meshes from which many stages are cut: those of the machines that there are, and a grid of sides.

How close cuts come to the area bound differs from mesh to mesh, by more than one more row of cores is worth. So a
machine has the largest of these meshes, and where what was cut is loose, the next smaller ones are cut too: those
beside it on the grid, which a smaller machine has, are among them. Hardly any larger machine is slower then.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from wse_sim.machine import MACHINES, Machine

APART = 14
"""Sides from each power of two to the next."""
LARGEST = 1 << 12
"""The longest of them."""
REACH = 3
"""So many sides in a row are those of smaller meshes."""
SMALLER = 8
"""So many smaller meshes are looked at."""


def of_known_sides(machine: Machine) -> Machine:
    """The largest of these meshes that a machine has room for, as a machine."""
    own = machine.usable_width, machine.usable_height
    fitting = [mesh for mesh in _MESHES if mesh[0] <= own[0] and mesh[1] <= own[1]]
    width, height = (max(side for side in sides if side <= have) for sides, have in zip(_GRID, own, strict=True))
    width, height = max([(width, height), *fitting], key=lambda mesh: mesh[0] * mesh[1])
    if (width, height) == own:
        return machine
    return replace(machine, width=width, height=height, reserved_columns=0, reserved_rows=0)


def smaller_meshes(machine: Machine, least_pes: int) -> Iterator[tuple[int, int]]:
    """Widths and heights of a few smaller meshes with so many PEs at least, the largest first."""
    own = machine.usable_width, machine.usable_height
    sides = [[*[s for s in grid if s < have][-REACH:], have] for grid, have in zip(_GRID, own, strict=True)]
    meshes = ((width, height) for width in sides[0] for height in sides[1])
    largest = sorted(meshes, key=lambda mesh: (-mesh[0] * mesh[1], mesh))[1:]
    yield from (mesh for mesh in largest[:SMALLER] if mesh[0] * mesh[1] >= max(1, least_pes))


def _steps_between(anchors: Sequence[int]) -> list[int]:
    """Sides in equal steps, about `APART` to an octave, from each anchor to the next that is further than one step."""
    ends = [1, *sorted({a for k, a in enumerate(anchors) if all(APART * abs(a - b) > a for b in anchors[:k])}), LARGEST]
    sides = set(ends)
    for low, high in pairwise(ends):
        count = max(1, round(APART * math.log2(high / low)))
        sides |= {round(low * (high / low) ** (k / count)) for k in range(1, count)}
    return sorted(sides)


_MESHES = [(m.usable_width, m.usable_height) for m in MACHINES.values()]
_GRID = [_steps_between(own) for own in zip(*_MESHES, strict=True)]
