"""A mesh to simulate: the program of each core, and the routes of each router.

For each colour a router takes wavelets from one direction and sends them to one or more others. It has up to four such
routes, which are the positions of its switch. It starts at position 0. An advance moves the switch to the next
position; at the last one it stays. After a teardown no wavelet passes until the core configures a position. `check`
raises an error for a mesh that cannot run, with the coordinates (x, y) of the core. It checks every position
separately, not which positions of neighbours coincide at run time.
"""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import numpy as np

from lazytensor.display.table import Column, Table
from lazytensor.errors import LazyError, PlacementError
from wse_sim import floor_drawing
from wse_sim.isa.core_program import (
    ITEM_BYTES,
    MAX_SWITCH_POSITIONS,
    WORD_BYTES,
    ConfigureSwitch,
    ControlWavelet,
    CoreProgram,
    Instruction,
    Received,
    Sent,
    Vector,
)
from wse_sim.isa.rounding import to_bits
from wse_sim.machine import Machine

NORTH, EAST, SOUTH, WEST, RAMP = range(5)
DIRECTIONS = ("north", "east", "south", "west", "core")
DIRECTION_OFFSETS = {NORTH: (0, -1), EAST: (1, 0), SOUTH: (0, 1), WEST: (-1, 0)}
"""Direction -> (dx, dy)."""
_SOURCE_SHIFT = 5
MAX_SHOWN_CORES = 64
"""Maximum number of rows, columns and programs of a mesh that a notebook shows. Larger meshes are sampled."""

CellIndex = Any
"""A NumPy index of columns or rows: an int, a slice or an array."""


class Mesh:
    """A mesh of `width` x `height` cores of `machine`, initially without programs, routes and data.

    `machine` is a machine or its name. Raises PlacementError if it has fewer columns or rows.
    """

    def __init__(self, machine: Machine | str, width: int, height: int):
        machine = Machine.of(machine)
        if not (1 <= width <= machine.width and 1 <= height <= machine.height):
            raise PlacementError(
                f"a mesh of {width} x {height} does not fit {machine.name!r}, which has {machine.width} x "
                f"{machine.height}",
                hint="Use a smaller mesh or another machine.",
            )
        self.machine, self.width, self.height = machine, width, height
        self.programs: list[CoreProgram] = []
        # Keyed by text, since 0.0 and -0.0 are equal but make different programs.
        self._numbers: dict[str, int] = {}
        self.program_at = np.full((height, width), -1, np.int16)
        self._routes: dict[int, dict[int, np.ndarray]] = {}
        # Written to memory at the start of a run, since the number of words depends on all programs.
        self._data: list[tuple[CellIndex, CellIndex, int, np.ndarray]] = []

    @property
    def colours(self) -> list[int]:
        """The colours that have routes, sorted."""
        return sorted(self._routes)

    def _repr_html_(self) -> str:
        """Return HTML with a letter for each core's program, and a table of the programs.

        The table has each program's letter, name, number of cores and words of memory.
        """
        # A wafer has more cores than a page can show.
        columns, rows = (max(1, -(-extent // MAX_SHOWN_CORES)) for extent in (self.width, self.height))
        grid = self.program_at[::rows, ::columns]
        lines = ["".join(floor_drawing.index_letter(int(n)) if n >= 0 else "." for n in line) for line in grid]
        counts = [int((self.program_at == n).sum()) for n in range(len(self.programs))]
        listed = [
            (floor_drawing.index_letter(n), p.name, counts[n], p.words)
            for n, p in enumerate(self.programs[:MAX_SHOWN_CORES])
        ]
        heads = Column("", is_words=True), Column("program", is_words=True), Column("cores"), Column("words")
        head = f"{self.width} x {self.height} cores of {self.machine.name}, {len(self.colours)} colours"
        every = f"; 1 of {rows} rows and 1 of {columns} columns shown" if rows > 1 or columns > 1 else ""
        picture = escape("\n".join(lines))
        return f'<p>{escape(head)}{every}</p><pre style="line-height:1">{picture}</pre>{Table(heads, listed).html()}'

    @property
    def words(self) -> int:
        """Words of the largest memory of a program."""
        return max((p.words for p in self.programs), default=0)

    def run(self, program: CoreProgram, x: CellIndex, y: CellIndex) -> None:
        """Assign `program` to the cores at columns `x` and rows `y`; it replaces an earlier program.

        Equal programs are stored once. The program is not checked here; see `check`.
        """
        # Equal programs share one number: a mesh of 750,000 cores has a handful, and the engine stores each once.
        number = self._numbers.setdefault(repr(program), len(self.programs))
        if number == len(self.programs):
            self.programs.append(program)
        self.program_at[y, x] = number

    def load(self, values: Any, x: CellIndex, y: CellIndex, address: int = 0, dtype: str = "float32") -> None:
        """Store `values` in the memory of the cores at columns `x` and rows `y` before the run; later loads win.

        The last axis of `values` is the elements; the others broadcast over the cores. `address` counts elements of
        `dtype`. Values are converted to `dtype`; for bfloat16 they are given as float32 and rounded. Raises LazyError
        for another `dtype`. `memory` reports an address outside the memory, when the run starts.
        """
        if dtype not in ITEM_BYTES:
            raise LazyError(f"element type {dtype!r} is not supported", hint=f"Use one of {', '.join(ITEM_BYTES)}.")
        self._data.append((x, y, address, to_bits(values, dtype)))

    def reload(self, values: Any) -> None:
        """Replace all loaded data by `values` [height, width, words], the memories before the run, as float32."""
        self._data = []
        self.load(values, slice(None), slice(None))

    def route(
        self, colour: int, x: CellIndex, y: CellIndex, source: int, targets: Iterable[int], position: int = 0
    ) -> None:
        """Add a route: the routers at `x`, `y` send wavelets of `colour` that come from `source` to all `targets`.

        `source` and `targets` are directions or RAMP; `position` is a switch position. Targets are added to those of an
        existing route from the same source. Raises LazyError for an invalid colour or position, without targets, or if
        a router has a route of this colour and position from another source.
        """
        if not 0 <= colour < self.machine.colours:
            raise LazyError(f"colour {colour} does not exist", hint=f"Use 0 to {int(self.machine.colours) - 1}.")
        if not 0 <= position < MAX_SWITCH_POSITIONS:
            raise LazyError(f"switch position {position} does not exist", hint=f"Use 0 to {MAX_SWITCH_POSITIONS - 1}.")
        # A set, so that a repeated target counts once.
        outputs = sum({1 << t for t in targets})
        if outputs == 0:
            what = f"a route of colour {colour} has no targets"
            raise LazyError(what, hint="Give at least one target, or remove the route.")
        blank = np.zeros((self.height, self.width), np.uint8)
        table = self._routes.setdefault(colour, {}).setdefault(position, blank)
        before = table[y, x]
        if np.any((before != 0) & (before >> _SOURCE_SHIFT != source)):
            where = self._first(table, (table != 0) & (table >> _SOURCE_SHIFT != source), x, y)
            what = f"the router has two inputs on {_colour_label(colour, position)}"
            raise LazyError(what, where=where, hint="Use another colour or switch position for one of the routes.")
        # A route is a byte for each router, colour and position: five bits of targets and three for the source. Targets
        # of the same source are added, so a multicast can be routed piece by piece.
        table[y, x] = before | np.uint8(outputs | source << _SOURCE_SHIFT)

    def positions(self, colour: int) -> list[int]:
        """Return the switch positions at which a colour has routes somewhere, sorted."""
        return sorted(self._routes[colour])

    def outputs(self, colour: int, position: int = 0) -> np.ndarray:
        """Return [height, width] with the targets of a colour at each router, as bits (1 << direction).

        Routers without a route have 0.
        """
        return self._table(colour, position).astype(np.int32) & (1 << _SOURCE_SHIFT) - 1

    def sources(self, colour: int, position: int = 0) -> np.ndarray:
        """Return [height, width] with the source direction of a colour at each router, -1 without a route."""
        table = self._table(colour, position)
        # A route has at least one target, so a byte of 0 means no route, although north is source 0.
        return np.where(table == 0, np.int8(-1), (table >> _SOURCE_SHIFT).astype(np.int8))

    def _table(self, colour: int, position: int) -> np.ndarray:
        nothing = np.zeros((self.height, self.width), np.uint8)
        return self._routes.get(colour, {}).get(position, nothing)

    def memory(self) -> np.ndarray:
        """Return the memory before the run, [height, width, words] as float32 whose bits count.

        All cores have the words of the largest program, and words without loaded data are zero. Raises LazyError for
        loaded data outside a memory.
        """
        # Filled as integers, so that bits of 16-bit types are not changed by float operations.
        memory = np.zeros((self.height, self.width, self.words), np.uint32)
        for x, y, address, bits in self._data:
            size = self.words * WORD_BYTES // bits.itemsize
            count = bits.shape[-1] if bits.ndim else 1
            if address < 0 or address + count > size:
                what = f"data is loaded to elements {address} to {address + count - 1} of a memory of {size}"
                raise LazyError(what, hint="Load fewer elements, or use another address.")
            memory.view(bits.dtype)[y, x, address : address + count] = bits
        return memory.view(np.float32)

    @staticmethod
    def _first(table: np.ndarray, wrong: np.ndarray, x: CellIndex, y: CellIndex) -> str:
        here = np.zeros(table.shape, bool)
        here[y, x] = True
        return core_name(*np.argwhere(wrong & here)[0][::-1])


def core_name(x: Any, y: Any) -> str:
    """Return the name of a core in errors and drawings, "core (x, y)"."""
    return f"core ({x}, {y})"


def check(mesh: Mesh) -> None:
    """Raise LazyError for the first invalid route or program of a mesh.

    Routes must not leave the mesh, fork back to their source, or meet a router that takes the colour from another side.
    A core that receives a colour needs a program that reads it, and a program needs routes for the colours that it
    uses. A program's memory has to fit the machine.
    """
    for colour in mesh.colours:
        for position in mesh.positions(colour):
            _check_fork(mesh, colour, position)
            for direction in DIRECTION_OFFSETS:
                _check_links(mesh, colour, position, direction)
        _check_cores_read(mesh, colour)
    for i, program in enumerate(mesh.programs):
        _check_program(mesh, program, mesh.program_at == i)


def _require_nowhere(wrong: np.ndarray, what: str, hint: str) -> None:
    """Raise LazyError at the first core where the mask `wrong` is true."""
    if wrong.any():
        y, x = np.argwhere(wrong)[0]
        raise LazyError(what, where=core_name(x, y), hint=hint)


def _colour_label(colour: int, position: int) -> str:
    return f"colour {colour}" + (f" at switch position {position}" if position else "")


def _check_links(mesh: Mesh, colour: int, position: int, direction: int) -> None:
    """Check that wavelets sent in `direction` stay on the mesh, and that the neighbour accepts them at some position.

    Raises LazyError, with the sending core, if they leave the mesh or the neighbour has no route from this side.
    """
    # All checks are array operations: a loop over the 750,000 routers of a wafer would take longer than a short run.
    goes = mesh.outputs(colour, position) >> direction & 1 == 1
    if not goes.any():
        return
    side, named = DIRECTIONS[direction], _colour_label(colour, position)
    # The neighbour's switch may be at any position when the wavelet arrives. One that accepts it is enough, since the
    # order of switch changes is known only at run time.
    there = [neighbour_values(mesh.sources(colour, p), direction, -2) for p in mesh.positions(colour)]
    _require_nowhere(
        goes & (there[0] == -2), f"{named} leaves the mesh to the {side}", "End the route one core earlier."
    )
    _require_nowhere(
        goes & np.all([takes == -1 for takes in there], axis=0),
        f"{named} goes {side} to a router without a route for it",
        "Add a route at that router, or end the route here.",
    )
    _require_nowhere(
        goes & np.all([takes != (direction + 2) % 4 for takes in there], axis=0),
        f"{named} goes {side} to a router that receives this colour from another side",
        "Use another colour or switch position for one of the routes.",
    )


def neighbour_values(table: np.ndarray, direction: int, outside: int) -> np.ndarray:
    """Return an array [height, width] with the value that `table` has for the neighbour in `direction` of each router.

    The value is `outside` if there is no neighbour.
    """
    # With a border of `outside` around the table the result is a shifted view, without special cases at the edges.
    dx, dy = DIRECTION_OFFSETS[direction]
    h, w = table.shape
    return np.pad(table, 1, constant_values=outside)[1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]


def _check_fork(mesh: Mesh, colour: int, position: int) -> None:
    sources = mesh.sources(colour, position)
    back = (sources >= 0) & (mesh.outputs(colour, position) >> np.maximum(sources, 0) & 1 == 1)
    hint = "Remove the source of the route from its targets."
    _require_nowhere(back, f"the route of {_colour_label(colour, position)} leads back to its source", hint)


def _receiver_mask(mesh: Mesh, colour: int) -> np.ndarray:
    """Return a mask [height, width] of the cores that receive a colour at some switch position."""
    cores: np.ndarray = np.any(
        [mesh.outputs(colour, p) >> RAMP & 1 == 1 for p in (0, *_switch_positions(mesh, colour))], axis=0
    )
    return cores


def sender_mask(mesh: Mesh, colour: int) -> np.ndarray:
    """Return a mask [height, width] of the cores that may send on a colour at some switch position."""
    cores: np.ndarray = np.any([mesh.sources(colour, p) == RAMP for p in (0, *_switch_positions(mesh, colour))], axis=0)
    return cores


def _switch_positions(mesh: Mesh, colour: int) -> list[int]:
    return mesh.positions(colour) if colour in mesh.colours else []


def _check_cores_read(mesh: Mesh, colour: int) -> None:
    """Check that every core that receives a colour has a program that reads it.

    If control wavelets of this colour activate tasks, check instead that each such core has these tasks. Raises
    LazyError otherwise, with the core.
    """
    to_core = _receiver_mask(mesh, colour)
    called = {
        i.task
        for p in mesh.programs
        for _, i in p.numbered_instructions()
        if isinstance(i, ControlWavelet) and i.colour == colour
    }
    called -= {""}
    for task in sorted(called):
        # A control wavelet activates a task by name, so every core that receives it needs a task of that name.
        able = [i for i, p in enumerate(mesh.programs) if task in dict(p.tasks)]
        _require_nowhere(
            to_core & ~np.isin(mesh.program_at, able),
            f"control wavelets on colour {colour} activate {task!r} at a core that has no such task",
            "Add the task to the program of the core, or use another colour.",
        )
    # A colour that is not read would fill its queue and block every route behind it.
    readers = [i for i, p in enumerate(mesh.programs) if called or colour in _received_colours(p)]
    _require_nowhere(
        to_core & ~np.isin(mesh.program_at, readers),
        f"colour {colour} goes to a core whose program never receives it",
        "Receive the colour in the program, or do not route it to the core.",
    )


def _check_program(mesh: Mesh, program: CoreProgram, here: np.ndarray) -> None:
    """Check that a program fits the memory of its cores, given by the mask `here`, and that its colours have routes.

    Raises LazyError, with the first core that fails.
    """
    needed, usable = program.words * WORD_BYTES, mesh.machine.usable_bytes_per_pe
    what = f"{program.name!r} needs {needed} bytes of memory, but a PE has {usable}"
    _require_nowhere(here & (needed > usable), what, "Use less memory in the program.")
    for place, instruction in program.numbered_instructions():
        for wrong, colour, lack in _missing_routes(mesh, instruction):
            _require_nowhere(
                here & wrong,
                f"{program.name}, {place}, `{instruction}`: colour {colour} has no {lack} the core",
                "Add a route for this colour at the core.",
            )


def _missing_routes(mesh: Mesh, instruction: Instruction) -> Iterator[tuple[np.ndarray, int, str]]:
    """Yield (mask of cores that could not run `instruction`, colour, missing route) for each colour that it uses."""
    match instruction:
        case Vector():
            for operand in instruction.operands:
                if isinstance(operand, Received):
                    yield ~_receiver_mask(mesh, operand.colour), operand.colour, "route to"
                elif isinstance(operand, Sent):
                    yield ~sender_mask(mesh, operand.colour), operand.colour, "route from"
        case ControlWavelet(colour):
            yield ~sender_mask(mesh, colour), colour, "route from"
        case ConfigureSwitch(colour, position):
            yield mesh.sources(colour, position) < 0, colour, f"route at switch position {position} at"


def _received_colours(program: CoreProgram) -> set[int]:
    vectors = (i for _, i in program.numbered_instructions() if isinstance(i, Vector))
    return {o.colour for v in vectors for o in v.operands if isinstance(o, Received)}
