"""A finished run of a mesh as text: how full its links were, what its cores did, and who waited for what."""

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
    """What the router of core (x, y) sent in one direction: `wavelets`, and how many of them in a cycle."""

    x: int
    y: int
    direction: str
    wavelets: int
    per_cycle: float

    def __str__(self) -> str:
        return f"{core_name(self.x, self.y)} {self.direction}: {self.wavelets:,} wavelets, {self.per_cycle:.2f} a cycle"


def busiest_links(done: RunResult, count: int = 10, ports: Sequence[str] = LINK_NAMES) -> list[Link]:
    """The links that carried most, up to `count`; of equal ones those further north and then west come first.

    `ports` may name "ramp" too, the way from a router into its core.
    """
    links = [
        Link(int(x), int(y), port, int(carried[y, x]), float(carried[y, x] / max(1, done.cycles)))
        for port in ports
        for carried in [_counter_values(done, port, PORT_NAMES)]
        for y, x in _largest_counts(carried, count)
    ]
    return sorted(links, key=lambda link: (-link.wavelets, link.y, link.x))[:count]


def _largest_counts(counts: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Rows and columns of the largest counts that are not 0."""
    # Stable, so that of equal links those further north and west come first, on every platform.
    order = np.argsort(-counts.reshape(-1), kind="stable")[:count]
    return [divmod(int(i), counts.shape[1]) for i in order if counts.reshape(-1)[i]]


def link_counts(done: RunResult, port: str = "") -> np.ndarray:
    """Wavelets that each router sent to a port, or to the busiest of its four links: [height, width]."""
    counts: np.ndarray = np.max(
        [_counter_values(done, one, PORT_NAMES) for one in ([port] if port else LINK_NAMES)], axis=0
    )
    return counts


def heat_map(done: RunResult, port: str = "", columns: int = 72, count: int = 10) -> str:
    """How full the links of a run were: a digit for each router, in tenths of the fullest, and the `count` busiest.

    `port` is "north", "east", "south", "west" or "ramp" (into the core); without it a router shows the busiest of its
    links. A point stands for a router that sent nothing. On meshes wider than `columns` a character shows the fullest
    router of a block.
    """
    links = busiest_links(done, count, [port] if port else LINK_NAMES)
    what = f"the way {'into the core' if port == 'ramp' else port}" if port else "the busiest link"
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
    """What the cores of a run did: the shares of all cores together, and a sign for what each did longest.

    The signs are # busy, - waits for input, + for output, m for memory, and a point for idle. `state` is one of "busy",
    "on_input", "on_output", "on_memory", "idle"; with it a core has a digit, the tenths of its cycles in that state. On
    meshes wider than `columns` a character shows what a block of cores did longest, or the core with the largest share.
    """
    counts = np.stack([_counter_values(done, one, CORE_STATES) for one in CORE_STATES])
    total = max(1, int(counts.sum()))
    # Of all cores' cycles together, so that a share says how much of the mesh is used.
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
    if name not in known:
        raise LazyError(f"a run does not count {name!r}", hint=f"Use one of {', '.join(known)}.")
    return done.counters[name]


def reduce_blocks(values: np.ndarray, columns: int, of: np.ufunc = np.maximum) -> np.ndarray:
    """[height, width] in at most `columns` columns: the largest value of each block, or what else `of` makes of it.

    Characters are twice as high as wide, so blocks are too.
    """
    height, width = values.shape
    if width <= columns:
        return values
    # A character is about twice as high as wide; so are the blocks, or the map would be stretched.
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
    """A core that waited, from `first` to `last` cycle; `reason` is "on_input", "on_output" or "on_memory".

    `instructions` are those at which its threads stood, and `done` the elements that each of them had done.
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
        """How long the core waited."""
        return self.last - self.first + 1

    @property
    def colours(self) -> tuple[int, ...]:
        """Those that the instructions take from or, waiting on output, give to."""
        pattern = _OPERAND_PATTERNS.get(self.reason)
        bodies = [text.partition("`")[2] for text in self.instructions]
        return tuple(sorted({int(n) for body in bodies for n in pattern.findall(body)})) if pattern else ()

    def __str__(self) -> str:
        what = _WAIT_TEXTS[self.reason].format(" or ".join(map(str, self.colours)))
        waits = f"waited {self.cycles:,} cycles for {what} from cycle {self.first:,} on"
        where = " and ".join(f"{i} after {n} elements" for i, n in zip(self.instructions, self.done, strict=True))
        return f"{core_name(self.x, self.y)} {waits}: {where}"


def stalls(moments: Sequence[Moment], count: int = 10) -> list[Stall]:
    """The longest waits in a trace, up to `count`, the longest first."""
    by_core = sorted(moments, key=lambda m: (m.y, m.x, m.cycle))
    waits = [
        stall for (y, x), track in groupby(by_core, key=lambda m: (m.y, m.x)) for stall in _core_stalls(x, y, track)
    ]
    return sorted(waits, key=lambda s: (-s.cycles, s.first, s.y, s.x))[:count]


def _core_stalls(x: int, y: int, track: Iterator[Moment]) -> Iterator[Stall]:
    for (reason, places, done), run in groupby(track, key=lambda m: (m.did, m.stands_at, m.done)):
        # A run of equal moments: the same threads stood at the same instructions and none of them advanced.
        cycles = [m.cycle for m in run]
        if reason in _WAIT_TEXTS and places:
            yield Stall(x=x, y=y, first=cycles[0], last=cycles[-1], reason=reason, instructions=places, done=done)
