"""Describe a finished simulation of a mesh as text: loads of links, states of cores, and stalls."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.fabric.mesh import core_name
from wse_sim.fabric.run import RunResult
from wse_sim.fabric.tracing import STATE_SIGNS, Moment

LINK_NAMES = ("north", "east", "south", "west")
PORT_NAMES = (*LINK_NAMES, "ramp")
CORE_STATES = tuple(STATE_SIGNS)
_TENTH_DIGITS = "0123456789"
_EMPTY_SIGN = "."
_WAIT_TEXTS = {"on_input": "colour {}", "on_output": "room on colour {}", "on_memory": "memory"}
_OPERAND_PATTERNS = {"on_input": re.compile(r"\bin(\d+)"), "on_output": re.compile(r"\bout(\d+)")}


@dataclass(frozen=True)
class Link:
    """A link that leaves the router of core (`x`, `y`) in a direction, with its wavelets in total and per cycle."""

    x: int
    y: int
    direction: str
    wavelets: int
    per_cycle: float

    def __str__(self) -> str:
        return f"{core_name(self.x, self.y)} {self.direction}: {self.wavelets:,} wavelets, {self.per_cycle:.2f} a cycle"


def busiest_links(done: RunResult, count: int = 10, ports: Sequence[str] = LINK_NAMES) -> list[Link]:
    """Return at most `count` links with the most wavelets, largest first. Links without wavelets are left out.

    Equal links are ordered from north to south, then from west to east. `ports` are the directions to include; "ramp"
    is the link from a router to its core.
    """
    links = [
        Link(int(x), int(y), port, int(carried[y, x]), float(carried[y, x] / max(1, done.cycles)))
        for port in ports
        for carried in [_counter_values(done, port, PORT_NAMES)]
        for y, x in _largest_counts(carried, count)
    ]
    return sorted(links, key=lambda link: (-link.wavelets, link.y, link.x))[:count]


def _largest_counts(counts: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Return row and column of the `count` largest nonzero entries."""
    # A stable sort gives the same order of equal links on every platform.
    order = np.argsort(-counts.reshape(-1), kind="stable")[:count]
    return [divmod(int(i), counts.shape[1]) for i in order if counts.reshape(-1)[i]]


def link_counts(done: RunResult, port: str = "") -> np.ndarray:
    """Return the wavelets that each router sent to `port`, as [height, width].

    By default it is the maximum over its four links.
    """
    counts: np.ndarray = np.max(
        [_counter_values(done, one, PORT_NAMES) for one in ([port] if port else LINK_NAMES)], axis=0
    )
    return counts


def heat_map(done: RunResult, port: str = "", columns: int = 72, count: int = 10) -> str:
    """Return a map of link loads as text: a digit for each router, and the `count` busiest links below.

    Digits are tenths of the largest load, and "." is a router that sent nothing. `port` is "north", "east", "south",
    "west" or "ramp" (into the core). By default a router shows the busiest of its four links. On meshes wider than
    `columns`, a character shows the maximum of a block of routers.
    """
    links = busiest_links(done, count, [port] if port else LINK_NAMES)
    what = (
        f"load of the {'link into the core' if port == 'ramp' else f'{port} link'}"
        if port
        else "load of the busiest link"
    )
    grid = reduce_blocks(link_counts(done, port), columns)
    fullest = max(1, int(grid.max(initial=0)))
    unit = f"tenths of {fullest / max(1, done.cycles):.2f} wavelets a cycle, over {done.cycles:,} cycles"
    lines = [
        f"{what} of each router, in {unit}{_scale_text(done, grid)}",
        *_tenth_lines(grid, fullest),
        *map(str, links),
    ]
    return "\n".join(lines) + "\n"


def activity(done: RunResult, state: str = "", columns: int = 72) -> str:
    """Return a map of core states as text, with the share of each state over all cores.

    By default each core shows the state in which it spent most cycles: "#" busy, "-" waiting for input, "+" waiting for
    output, "m" waiting for memory, "." idle. With `state` ("busy", "on_input", "on_output", "on_memory" or "idle") it
    shows tenths of its cycles in that state. On meshes wider than `columns`, a character shows the state with most
    cycles in a block of cores, or the largest share in it. Raise LazyError for another `state`.
    """
    counts = np.stack([_counter_values(done, one, CORE_STATES) for one in CORE_STATES])
    total = max(1, int(counts.sum()))
    # Shares of the cycles of all cores, so that they show how much of the mesh is in use.
    shares = ", ".join(
        f"{100 * int(c.sum()) / total:.1f} % {name}" for name, c in zip(CORE_STATES, counts, strict=True)
    )
    if state:
        grid = reduce_blocks(_counter_values(done, state, CORE_STATES) / np.maximum(1, counts.sum(0)), columns)
        lines = _tenth_lines(grid, 1)
    else:
        grid = np.argmax([reduce_blocks(c, columns, np.add) for c in counts], axis=0)
        signs = [STATE_SIGNS[name].strip() or _EMPTY_SIGN for name in CORE_STATES]
        lines = ["".join(signs[i] for i in row) for row in grid]
    return "\n".join([f"{done.cycles:,} cycles: {shares}{_scale_text(done, grid)}", *lines]) + "\n"


def _counter_values(done: RunResult, name: str, known: Sequence[str]) -> np.ndarray:
    """Return the counter `name` of a run, [height, width]. Raise LazyError if `name` is not in `known`."""
    if name not in known:
        raise LazyError(f"unknown counter {name!r}", hint=f"Use one of {', '.join(known)}.")
    return done.counters[name]


def reduce_blocks(values: np.ndarray, columns: int, of: np.ufunc = np.maximum) -> np.ndarray:
    """Return a map [height, width] with at most `columns` columns, by reducing blocks with `of`.

    Blocks are about twice as high as wide, like characters. A map that is narrow enough is returned unchanged.
    """
    height, width = values.shape
    if width <= columns:
        return values
    # Blocks with the aspect ratio of characters avoid a stretched map.
    high = max(1, min(height, round(height * columns / width / 2)))
    rows = [i * height // high for i in range(high)]
    return of.reduceat(of.reduceat(values, rows, axis=0), [i * width // columns for i in range(columns)], axis=1)


def _scale_text(done: RunResult, grid: np.ndarray) -> str:
    height, width = done.counters["busy"].shape
    if grid.shape == (height, width):
        return ""
    return f"; a character is {width / grid.shape[1]:.1f} x {height / grid.shape[0]:.1f} cores"


def _tenth_lines(grid: np.ndarray, whole: int) -> list[str]:
    return ["".join(_EMPTY_SIGN if v <= 0 else _TENTH_DIGITS[min(9, int(10 * v / whole))] for v in row) for row in grid]


@dataclass(frozen=True)
class Stall:
    """A period in which a core waited.

    - `x`, `y`: the core
    - `first`, `last`: first and last cycle
    - `reason`: "on_input", "on_output" or "on_memory"
    - `instructions`: the instructions at which its threads waited
    - `done`: the elements that each of these had completed
    """

    x: int
    y: int
    first: int
    last: int
    reason: str
    instructions: tuple[str, ...]
    done: tuple[int, ...]

    @property
    def cycles(self) -> int:
        """Return the duration of the stall in cycles, first and last included."""
        return self.last - self.first + 1

    @property
    def colours(self) -> tuple[int, ...]:
        """Return the colours that the instructions receive from or, for "on_output", send to; () for "on_memory"."""
        pattern = _OPERAND_PATTERNS.get(self.reason)
        bodies = [text.partition("`")[2] for text in self.instructions]
        return tuple(sorted({int(n) for body in bodies for n in pattern.findall(body)})) if pattern else ()

    def __str__(self) -> str:
        what = _WAIT_TEXTS[self.reason].format(" or ".join(map(str, self.colours)))
        waits = f"waited {self.cycles:,} cycles for {what} from cycle {self.first:,} on"
        where = " and ".join(f"{i} after {n} elements" for i, n in zip(self.instructions, self.done, strict=True))
        return f"{core_name(self.x, self.y)} {waits}: {where}"


def stalls(moments: Sequence[Moment], count: int = 10) -> list[Stall]:
    """Return at most `count` longest stalls of a trace, longest first; of equal ones the earliest first."""
    by_core = sorted(moments, key=lambda m: (m.y, m.x, m.cycle))
    waits = [
        stall for (y, x), track in groupby(by_core, key=lambda m: (m.y, m.x)) for stall in _core_stalls(x, y, track)
    ]
    return sorted(waits, key=lambda s: (-s.cycles, s.first, s.y, s.x))[:count]


def _core_stalls(x: int, y: int, track: Iterator[Moment]) -> Iterator[Stall]:
    """Yield the stalls of one core from its moments in order of time."""
    for (reason, places, done), run in groupby(track, key=lambda m: (m.did, m.stands_at, m.done)):
        # In a run of equal moments the same threads were at the same instructions without progress.
        cycles = [m.cycle for m in run]
        if reason in _WAIT_TEXTS and places:
            yield Stall(x=x, y=y, first=cycles[0], last=cycles[-1], reason=reason, instructions=places, done=done)
