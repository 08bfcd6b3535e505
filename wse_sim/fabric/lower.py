"""Phases as routes and programs: the third reading of `Broadcast` and `Reduce` along one axis, as wavelets.

A line runs from position 0, where a reduction ends and a broadcast begins, to the PE that is furthest away. All lines
of a phase are laid out at once, by indexing with arrays of positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazytensor.errors import LazyError
from wse_sim import collectives
from wse_sim.fabric.mesh import EAST, NORTH, RAMP, SOUTH, WEST, Mesh
from wse_sim.fabric.program import Builder, Memory, Received, Sent
from wse_sim.fabric.run import Result, simulate
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Reduce


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


Steps = dict[int, list[Callable[[Builder], None]]]
"""Position -> what its program does, in order."""


def simulate_phase(
    phase: Broadcast | Reduce, machine: Machine, data: Any, algorithm: str = "", group: int = 0, **how: Any
) -> Result:
    """Run one phase on a mesh of the size of its rectangle, with `data` [height, width, words] in the memories.

    `algorithm` is "chain", "tree" or "two_phase", with groups of `group` PEs; by default what the closed forms find
    fastest of them. `how` goes to `simulate`. Words 0 to `phase.words - 1` hold the answer where the phase leaves one.
    """
    mesh = mesh_of(phase, machine, algorithm, group)
    mesh.load(data, slice(phase.rect.x, None), slice(phase.rect.y, None))
    return simulate(mesh, **how)


def mesh_of(phase: Broadcast | Reduce, machine: Machine, algorithm: str = "", group: int = 0) -> Mesh:
    """The mesh that runs a phase, without data."""
    rect = phase.rect
    if phase.axis == "xy" or not phase.words:
        raise LazyError(f"{phase} does not lower to wavelets", todo='Give words, and run "x" and "y" one by one.')
    mesh = Mesh(machine, rect.x + rect.width, rect.y + rect.height)
    lines = Lines(rect, phase.axis, phase.groups)
    steps: Steps = {i: [] for i in range(lines.length)}
    if isinstance(phase, Broadcast):
        _broadcast(mesh, lines, steps, phase.words)
    else:
        name = algorithm or _fastest(lines.length, phase.words, machine)
        if name not in ALGORITHMS:
            raise LazyError(f"{name!r} does not lower to wavelets", todo=f"Use one of {', '.join(ALGORITHMS)}.")
        ALGORITHMS[name](mesh, lines, steps, phase.words, group)
    _install(mesh, lines, steps, phase.words)
    return mesh


def _fastest(pes: int, words: int, machine: Machine) -> str:
    return min(ALGORITHMS, key=lambda name: collectives.REDUCE_ALGORITHMS[name](pes, words).cycles(machine))


def _install(mesh: Mesh, lines: Lines, steps: Steps, words: int) -> None:
    """Give every position its program; equal programs are one."""
    alike: dict[tuple, list[int]] = {}
    for position, actions in steps.items():
        builder = Builder("", words)
        for action in actions:
            action(builder)
        alike.setdefault(builder.build().tasks, []).append(position)
    for i, positions in enumerate(alike.values()):
        builder = Builder(f"{lines.axis}{i}", words)
        for action in steps[positions[0]]:
            action(builder)
        mesh.run(builder.build(), *lines.cells(positions))


def _route(mesh: Mesh, lines: Lines, colour: int, senders: Sequence[int], receivers: Sequence[int]) -> None:
    """Have each sender reach the receiver beside it in the list, inward, over the routers between."""
    mesh.route(colour, *lines.cells(senders), RAMP, [lines.inward])
    mesh.route(colour, *lines.cells(receivers), lines.outward, [RAMP])
    between = [i for s, r in zip(senders, receivers, strict=True) for i in range(r + 1, s)]
    if between:
        mesh.route(colour, *lines.cells(between), lines.outward, [lines.inward])


def _send(words: int, colour: int) -> Callable[[Builder], None]:
    return lambda b: b.move(Sent(colour), Memory(0), words)


def _gather(words: int, colour: int) -> Callable[[Builder], None]:
    return lambda b: b.add(Memory(0), Memory(0), Received(colour), words)


def _relay(words: int, source: int, target: int) -> Callable[[Builder], None]:
    return lambda b: b.add(Sent(target), Memory(0), Received(source), words)


def _chain_over(mesh: Mesh, lines: Lines, steps: Steps, words: int, stations: Sequence[int], pair: int) -> None:
    """A chain over some positions. Neighbours need two colours, since a router takes a colour from one side only."""
    for j in range(1, len(stations)):
        _route(mesh, lines, pair + j % 2, [stations[j]], [stations[j - 1]])
    last = len(stations) - 1
    for j, position in enumerate(stations):
        mine, theirs = pair + j % 2, pair + (j + 1) % 2
        if j == last:
            steps[position] += [_send(words, mine)] if j else []
        else:
            steps[position].append(_relay(words, theirs, mine) if j else _gather(words, theirs))


def _chain(mesh: Mesh, lines: Lines, steps: Steps, words: int, group: int) -> None:
    _chain_over(mesh, lines, steps, words, range(lines.length), 0)


def _two_phase(mesh: Mesh, lines: Lines, steps: Steps, words: int, group: int) -> None:
    """Chains in groups, then a chain over their leaders on two more colours."""
    size = group or max(1, round(lines.length**0.5))
    leaders = range(0, lines.length, size)
    for leader in leaders:
        _chain_over(mesh, lines, steps, words, range(leader, min(leader + size, lines.length)), 0)
    _chain_over(mesh, lines, steps, words, leaders, 2)


def _tree(mesh: Mesh, lines: Lines, steps: Steps, words: int, group: int) -> None:
    """Pairs, then pairs of pairs: one colour for each round, since its routes do not meet."""
    colour, step = 0, 1
    while step < lines.length:
        senders = range(step, lines.length, 2 * step)
        receivers = [s - step for s in senders]
        _route(mesh, lines, colour, senders, receivers)
        for s, r in zip(senders, receivers, strict=True):
            steps[s].append(_send(words, colour))
            steps[r].append(_gather(words, colour))
        colour, step = colour + 1, 2 * step


ALGORITHMS = {"chain": _chain, "tree": _tree, "two_phase": _two_phase}


def _broadcast(mesh: Mesh, lines: Lines, steps: Steps, words: int) -> None:
    """One colour; every router on the way gives it to its core too."""
    last = lines.length - 1
    if not last:
        return
    mesh.route(0, *lines.cells([0]), RAMP, [lines.outward])
    mesh.route(0, *lines.cells([last]), lines.inward, [RAMP])
    if last > 1:
        mesh.route(0, *lines.cells(range(1, last)), lines.inward, [RAMP, lines.outward])
    steps[0].append(_send(words, 0))
    for i in range(1, lines.length):
        steps[i].append(lambda b: b.move(Memory(0), Received(0), words))
