"""Phases as routes and programs: the third reading of `Broadcast`, `Reduce`, `AllReduce` and `Seq`, as wavelets.

A line runs from position 0, where a reduction ends and a broadcast begins, to the PE that is furthest away. All lines
of a phase are laid out at once, by indexing with arrays of positions. Phases of a sequence get colours of their own;
nothing but the order of its instructions keeps a core from going on to the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazytensor.errors import LazyError
from wse_sim import collectives
from wse_sim.fabric.mesh import EAST, NORTH, RAMP, SOUTH, WEST, Cells, Mesh
from wse_sim.fabric.program import Instruction, Memory, Program, Received, Sent, Vector, check_program
from wse_sim.fabric.run import Result, simulate
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Phase, Reduce, Seq


@dataclass(frozen=True)
class Lines:
    """Equal lines of `length` PEs on `rect`, each cut from a row ("x") or a column ("y")."""

    rect: Rect
    axis: str
    groups: int = 1

    @property
    def length(self) -> int:
        return (self.rect.width if self.axis == "x" else self.rect.height) // self.groups

    @property
    def inward(self) -> int:
        """The direction of position 0."""
        return WEST if self.axis == "x" else NORTH

    @property
    def outward(self) -> int:
        return EAST if self.axis == "x" else SOUTH

    def cells(self, positions: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Columns and rows of these positions on every line, to index with."""
        starts = np.arange(self.groups) * self.length
        along = (starts[:, None] + np.asarray(positions, np.int64)).reshape(-1)
        if self.axis == "x":
            return self.rect.x + along[None, :], self.rect.y + np.arange(self.rect.height)[:, None]
        return self.rect.x + np.arange(self.rect.width)[None, :], self.rect.y + along[:, None]


class Sheet:
    """A mesh whose programs are still being written: every core has the number of a list of instructions."""

    def __init__(self, mesh: Mesh):
        self.mesh = mesh
        self._lists: list[tuple[Instruction, ...]] = [()]
        self._numbers: dict[tuple[Instruction, ...], int] = {(): 0}
        self._at = np.zeros((mesh.height, mesh.width), np.int32)
        self._colours = 0

    def colours(self, count: int) -> int:
        """The first of `count` colours that no phase has used."""
        self._colours += count
        return self._colours - count

    def do(self, instruction: Instruction, x: Cells, y: Cells) -> None:
        """Append an instruction to the programs of these cores."""
        here = self._at[y, x]
        found, inverse = np.unique(here, return_inverse=True)
        longer = [(*self._lists[i], instruction) for i in found]
        for one in longer:
            if one not in self._numbers:
                self._numbers[one] = len(self._lists)
                self._lists.append(one)
        numbers = np.array([self._numbers[one] for one in longer], np.int32)
        self._at[y, x] = numbers[inverse].reshape(here.shape)

    def finish(self, words: int) -> Mesh:
        """The mesh with its programs."""
        for number in np.unique(self._at):
            program = Program(f"p{number}", words, (("main", self._lists[number]),))
            check_program(program)
            y, x = np.nonzero(self._at == number)
            self.mesh.run(program, x, y)
        return self.mesh


def simulate_phase(
    phase: Phase, machine: Machine, data: Any, algorithm: str = "", group: int = 0, **how: Any
) -> Result:
    """Run a phase on a mesh that just holds its rectangle, with `data` [height, width, words] in the memories.

    `algorithm` is "chain", "tree" or "two_phase", with groups of `group` PEs; by default what the closed forms find
    fastest of them. `how` goes to `simulate`. The words of a phase are the first ones of the memories, for its
    arguments as for its answer.
    """
    mesh = mesh_of(phase, machine, algorithm, group)
    x, y = (min(r.x for r in _rects(phase)), min(r.y for r in _rects(phase)))
    mesh.load(data, slice(x, None), slice(y, None))
    return simulate(mesh, **how)


def mesh_of(phase: Phase, machine: Machine, algorithm: str = "", group: int = 0) -> Mesh:
    """The mesh that runs a phase, without data."""
    if algorithm and algorithm not in ALGORITHMS:
        raise LazyError(f"{algorithm!r} does not lower to wavelets", todo=f"Use one of {', '.join(ALGORITHMS)}.")
    rects = _rects(phase)
    mesh = Mesh(machine, max(r.x + r.width for r in rects), max(r.y + r.height for r in rects))
    sheet = Sheet(mesh)
    words = max(_lower(sheet, leaf, algorithm, group) for leaf in _leaves(phase))
    return sheet.finish(words)


def _leaves(phase: Phase) -> list[Broadcast | Reduce]:
    """A phase as moves, one after another: an all-reduce is a reduction and a broadcast, a plane its two axes."""
    match phase:
        case Seq(parts) if parts:
            return [leaf for part in parts for leaf in _leaves(part)]
        case AllReduce(rect, axis, words, groups):
            return _leaves(Reduce(rect, axis, words, groups)) + _leaves(Broadcast(rect, axis, words, groups))
        case Reduce(rect, "xy", words):
            return [Reduce(rect, "x", words), Reduce(Rect(rect.x, rect.y, 1, rect.height), "y", words)]
        case Broadcast() | Reduce() if phase.words:
            return [phase]
    raise LazyError(f"{phase} does not lower to wavelets", todo="Use Seq, Broadcast, Reduce, AllReduce with words.")


def _rects(phase: Phase) -> list[Rect]:
    return [leaf.rect for leaf in _leaves(phase)]


def _lower(sheet: Sheet, phase: Broadcast | Reduce, algorithm: str, group: int) -> int:
    """Lay out one move. Returns its words."""
    if isinstance(phase, Broadcast) and phase.axis == "xy":
        _flood(sheet, phase.rect, phase.words)
        return phase.words
    lines = Lines(phase.rect, phase.axis, phase.groups)
    if lines.length > 1:
        if isinstance(phase, Broadcast):
            _broadcast(sheet, lines, phase.words)
        else:
            name = algorithm or _fastest(lines.length, phase.words, sheet.mesh.machine)
            ALGORITHMS[name](sheet, lines, phase.words, group)
    return phase.words


def _fastest(pes: int, words: int, machine: Machine) -> str:
    return min(ALGORITHMS, key=lambda name: collectives.REDUCE_ALGORITHMS[name](pes, words).cycles(machine))


def _route(sheet: Sheet, lines: Lines, colour: int, senders: Sequence[int], receivers: Sequence[int]) -> None:
    """Have each sender reach the receiver beside it in the list, inward, over the routers between."""
    mesh = sheet.mesh
    mesh.route(colour, *lines.cells(senders), RAMP, [lines.inward])
    mesh.route(colour, *lines.cells(receivers), lines.outward, [RAMP])
    between = [i for s, r in zip(senders, receivers, strict=True) for i in range(r + 1, s)]
    if between:
        mesh.route(colour, *lines.cells(between), lines.outward, [lines.inward])


def _send(words: int, colour: int) -> Vector:
    return Vector("move", (Sent(colour), Memory(0)), words)


def _gather(words: int, colour: int) -> Vector:
    return Vector("add", (Memory(0), Memory(0), Received(colour)), words)


def _relay(words: int, source: int, target: int) -> Vector:
    return Vector("add", (Sent(target), Memory(0), Received(source)), words)


def _store(words: int, colour: int) -> Vector:
    return Vector("move", (Memory(0), Received(colour)), words)


def _chain_over(sheet: Sheet, lines: Lines, words: int, stations: Sequence[int], first: int) -> None:
    """A chain over some positions. Neighbours need two colours, since a router takes a colour from one side only."""
    if len(stations) < 2:
        return
    for odd in (0, 1):
        senders, receivers = stations[2 - odd :: 2], stations[1 - odd : -1 : 2]
        if senders:
            _route(sheet, lines, first + odd, senders, receivers)
        middle = stations[2 - odd : -1 : 2]
        if middle:
            sheet.do(_relay(words, first + 1 - odd, first + odd), *lines.cells(middle))
    sheet.do(_gather(words, first + 1), *lines.cells(stations[:1]))
    sheet.do(_send(words, first + (len(stations) - 1) % 2), *lines.cells(stations[-1:]))


def _chain(sheet: Sheet, lines: Lines, words: int, group: int) -> None:
    _chain_over(sheet, lines, words, range(lines.length), sheet.colours(2))


def _two_phase(sheet: Sheet, lines: Lines, words: int, group: int) -> None:
    """Chains in groups, then a chain over their leaders on two more colours."""
    size = group or max(1, round(lines.length**0.5))
    first = sheet.colours(4)
    leaders = range(0, lines.length, size)
    for leader in leaders:
        _chain_over(sheet, lines, words, range(leader, min(leader + size, lines.length)), first)
    _chain_over(sheet, lines, words, leaders, first + 2)


def _tree(sheet: Sheet, lines: Lines, words: int, group: int) -> None:
    """Pairs, then pairs of pairs: one colour for each round, since its routes do not meet."""
    step = 1
    while step < lines.length:
        colour = sheet.colours(1)
        senders = range(step, lines.length, 2 * step)
        receivers = [s - step for s in senders]
        _route(sheet, lines, colour, senders, receivers)
        sheet.do(_send(words, colour), *lines.cells(senders))
        sheet.do(_gather(words, colour), *lines.cells(receivers))
        step *= 2


ALGORITHMS = {"chain": _chain, "tree": _tree, "two_phase": _two_phase}


def _broadcast(sheet: Sheet, lines: Lines, words: int) -> None:
    """One colour; every router on the way gives it to its core too."""
    last, colour, mesh = lines.length - 1, sheet.colours(1), sheet.mesh
    mesh.route(colour, *lines.cells([0]), RAMP, [lines.outward])
    mesh.route(colour, *lines.cells([last]), lines.inward, [RAMP])
    if last > 1:
        mesh.route(colour, *lines.cells(range(1, last)), lines.inward, [RAMP, lines.outward])
    sheet.do(_send(words, colour), *lines.cells([0]))
    sheet.do(_store(words, colour), *lines.cells(range(1, lines.length)))


def _flood(sheet: Sheet, rect: Rect, words: int) -> None:
    """From the corner along the first row, and from each of its routers down the column, on one colour."""
    if rect.area == 1:
        return
    colour, mesh = sheet.colours(1), sheet.mesh
    row, columns = Lines(Rect(rect.x, rect.y, rect.width, 1), "x"), Lines(rect, "y")
    down = [SOUTH] if rect.height > 1 else []
    along = range(rect.width)
    mesh.route(colour, *row.cells(along[:1]), RAMP, down + [EAST] * (rect.width > 1))
    if rect.width > 1:
        mesh.route(colour, *row.cells(along[-1:]), WEST, [RAMP, *down])
        sheet.do(_store(words, colour), *row.cells(along[1:]))
    if rect.width > 2:
        mesh.route(colour, *row.cells(along[1:-1]), WEST, [RAMP, *down, EAST])
    if rect.height > 1:
        mesh.route(colour, *columns.cells([rect.height - 1]), NORTH, [RAMP])
        sheet.do(_store(words, colour), *columns.cells(range(1, rect.height)))
    if rect.height > 2:
        mesh.route(colour, *columns.cells(range(1, rect.height - 1)), NORTH, [RAMP, SOUTH])
    sheet.do(_send(words, colour), *row.cells(along[:1]))
