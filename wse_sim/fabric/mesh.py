"""A mesh to run: which program each core has, and where each router sends each colour.

Routes are static: on one colour a router takes wavelets from one direction and gives them to any others. What cannot
run is refused by `check`, with the coordinates (x, y) of the core.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from lazytensor.errors import LazyError, PlacementError
from wse_sim.fabric.program import Memory, Program, Received, Sent, Vector
from wse_sim.machine import Machine

NORTH, EAST, SOUTH, WEST, RAMP = range(5)
DIRECTIONS = ("north", "east", "south", "west", "core")
STEPS = {NORTH: (0, -1), EAST: (1, 0), SOUTH: (0, 1), WEST: (-1, 0)}
"""Direction -> (dx, dy)."""
WORD_BYTES = 4
_SOURCE_SHIFT = 5

Cells = Any
"""An index of NumPy for the rows or columns that are meant: an int, a slice or an array."""


class Mesh:
    """`width` x `height` cores of `machine`, at first without programs and routes."""

    def __init__(self, machine: Machine, width: int, height: int):
        if not (1 <= width <= machine.width and 1 <= height <= machine.height):
            raise PlacementError(
                f"a mesh of {width} x {height} on {machine.name!r}, which has {machine.width} x {machine.height}",
                todo="Take a smaller mesh or another machine.",
            )
        self.machine, self.width, self.height = machine, width, height
        self.programs: list[Program] = []
        self.program_at = np.full((height, width), -1, np.int16)
        self._routes: dict[int, np.ndarray] = {}
        self._data: list[tuple[Cells, Cells, int, np.ndarray]] = []

    @property
    def colours(self) -> list[int]:
        """The colours that have routes."""
        return sorted(self._routes)

    @property
    def words(self) -> int:
        """The largest memory of a program."""
        return max((p.words for p in self.programs), default=0)

    def run(self, program: Program, x: Cells, y: Cells) -> None:
        """Give `program` to the cores at columns `x` and rows `y`."""
        if program not in self.programs:
            self.programs.append(program)
        self.program_at[y, x] = self.programs.index(program)

    def load(self, values: Any, x: Cells, y: Cells, address: int = 0) -> None:
        """Put `values` (over the cores, their last axis over the words) in memory before the run."""
        self._data.append((x, y, address, np.asarray(values, np.float32)))

    def reload(self, values: Any) -> None:
        """Put `values` [height, width, words] in all memories before the run, in place of all that was loaded."""
        self._data = []
        self.load(values, slice(None), slice(None))

    def route(self, colour: int, x: Cells, y: Cells, source: int, targets: Iterable[int]) -> None:
        """Have routers give what comes on `colour` from `source` to all of `targets`."""
        if not 0 <= colour < self.machine.colours:
            raise LazyError(f"there is no colour {colour}", todo=f"Use 0 to {int(self.machine.colours) - 1}.")
        table = self._routes.setdefault(colour, np.zeros((self.height, self.width), np.int32))
        before = table[y, x]
        if np.any((before != 0) & (before >> _SOURCE_SHIFT != source)):
            where = self._first(table, (table != 0) & (table >> _SOURCE_SHIFT != source), x, y)
            raise LazyError(f"two inputs on colour {colour}", where=where, todo="Use another colour for one of them.")
        table[y, x] = before | sum({1 << t for t in targets}) | source << _SOURCE_SHIFT

    def outputs(self, colour: int) -> np.ndarray:
        """For each router the directions that it gives a colour to, as bits."""
        return self._routes[colour] & (1 << _SOURCE_SHIFT) - 1

    def sources(self, colour: int) -> np.ndarray:
        """For each router the direction that it takes a colour from, -1 without a route."""
        table = self._routes[colour]
        return np.where(table == 0, -1, table >> _SOURCE_SHIFT)

    def memory(self) -> np.ndarray:
        """The memory before the run: [height, width, words] float32."""
        memory = np.zeros((self.height, self.width, self.words), np.float32)
        for x, y, address, values in self._data:
            words = values.shape[-1] if values.ndim else 1
            if address < 0 or address + words > self.words:
                raise LazyError(f"data for words {address} to {address + words - 1} of {self.words}", todo="Load less.")
            memory[y, x, address : address + words] = values
        return memory

    @staticmethod
    def _first(table: np.ndarray, wrong: np.ndarray, x: Cells, y: Cells) -> str:
        here = np.zeros(table.shape, bool)
        here[y, x] = True
        return at(*np.argwhere(wrong & here)[0][::-1])


def at(x: Any, y: Any) -> str:
    return f"core ({x}, {y})"


def check(mesh: Mesh) -> None:
    """Raise for the first thing of a mesh that cannot run."""
    for colour in mesh.colours:
        _check_fork(mesh, colour)
        for direction in STEPS:
            _check_links(mesh, colour, direction)
        _check_cores_read(mesh, colour)
    for i, program in enumerate(mesh.programs):
        _check_program(mesh, program, mesh.program_at == i)


def _refuse(wrong: np.ndarray, what: str, todo: str) -> None:
    """Raise at the first core that is `wrong`."""
    if wrong.any():
        y, x = np.argwhere(wrong)[0]
        raise LazyError(what, where=at(x, y), todo=todo)


def _check_links(mesh: Mesh, colour: int, direction: int) -> None:
    """What goes out in a direction stays on the mesh, and the neighbour there takes it from this side."""
    dx, dy = STEPS[direction]
    goes = mesh.outputs(colour) >> direction & 1 == 1
    beyond = np.pad(mesh.sources(colour), 1, constant_values=-2)
    h, w = goes.shape
    takes = beyond[1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]
    side = DIRECTIONS[direction]
    _refuse(goes & (takes == -2), f"colour {colour} leaves the mesh to the {side}", "End the route one core earlier.")
    _refuse(
        goes & (takes == -1),
        f"colour {colour} goes {side} to a router without a route for it",
        "Route it there, or end the route here.",
    )
    _refuse(
        goes & (takes != (direction + 2) % 4),
        f"colour {colour} goes {side} to a router that takes it from another side: two inputs on one colour",
        "Use another colour for one of them.",
    )


def _check_fork(mesh: Mesh, colour: int) -> None:
    sources = mesh.sources(colour)
    back = (sources >= 0) & (mesh.outputs(colour) >> np.maximum(sources, 0) & 1 == 1)
    _refuse(back, f"the route of colour {colour} forks back to where it comes from", "Leave that direction out.")


def _check_cores_read(mesh: Mesh, colour: int) -> None:
    to_core = mesh.outputs(colour) >> RAMP & 1 == 1
    readers = [i for i, p in enumerate(mesh.programs) if colour in _colours(p, Received)]
    _refuse(
        to_core & ~np.isin(mesh.program_at, readers),
        f"colour {colour} goes to a core whose program never receives it",
        "Receive it, or do not route it to the core.",
    )


def _check_program(mesh: Mesh, program: Program, here: np.ndarray) -> None:
    needed, usable = program.words * WORD_BYTES, mesh.machine.usable_bytes_per_pe
    _refuse(here & (needed > usable), f"{program.name!r} needs {needed} bytes of {usable}", "Use less memory.")
    for place, instruction in program.numbered():
        for operand in instruction.operands if isinstance(instruction, Vector) else ():
            if isinstance(operand, Memory | float | int):
                continue
            wrong = here & ~_is_routed(mesh, operand)
            verb = "to" if isinstance(operand, Received) else "from"
            _refuse(
                wrong,
                f"{program.name}, {place}, `{instruction}`: colour {operand.colour} has no route {verb} the core",
                "Route the colour there.",
            )


def _is_routed(mesh: Mesh, operand: Received | Sent) -> np.ndarray:
    if operand.colour not in mesh.colours:
        return np.zeros(mesh.program_at.shape, bool)
    if isinstance(operand, Received):
        return mesh.outputs(operand.colour) >> RAMP & 1 == 1
    return mesh.sources(operand.colour) == RAMP


def _colours(program: Program, kind: type[Received] | type[Sent]) -> set[int]:
    vectors = (i for _, i in program.numbered() if isinstance(i, Vector))
    return {o.colour for v in vectors for o in v.operands if isinstance(o, kind)}
