"""Streams as routes and steps: a core beside each line holds or takes the blocks of all its PEs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lazytensor.errors import LazyError
from wse_sim.fabric.lowering.lines import Lines, colour_ways, route_ways
from wse_sim.fabric.lowering.moves import forward, send, store
from wse_sim.fabric.lowering.sheet import Sheet
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import Stream


@dataclass(frozen=True)
class Feed:
    """The lines of a stream and the line of cores at their end that holds or takes the blocks.

    `lines` include the feeder. `near` lists the positions of the PEs in it from the feeder on, `shares` the words of
    each and `offsets` where they lie among those of the line.
    """

    lines: Lines
    feeder: int
    near: tuple[int, ...]
    shares: tuple[int, ...]
    offsets: tuple[int, ...]


def feed_of(phase: Stream, width: int, height: int) -> Feed:
    """Where the feeder of a stream stands on a mesh of width x height, and what each PE of a line gets."""
    rect = phase.rect
    axis = "x" if rect.height >= rect.width else "y"
    start, length, count, end = (
        (rect.x, rect.width, rect.height, width) if axis == "x" else (rect.y, rect.height, rect.width, height)
    )
    if start == 0 and start + length >= end:
        raise LazyError(f"no core beside {rect} can feed it", todo="Use a larger mesh, or a smaller rectangle.")
    words = ceil_div(ceil_div(phase.bytes, 4), count)
    share = ceil_div(words, length)
    blocks = [max(0, min(share, words - i * share)) for i in range(length)]
    begins = start > 0
    whole = (start - 1 if begins else start, length + 1)
    area = (
        Rect(whole[0], rect.y, whole[1], rect.height) if axis == "x" else Rect(rect.x, whole[0], rect.width, whole[1])
    )
    order = list(range(length)) if begins else list(range(length))[::-1]
    return Feed(
        Lines(area, axis),
        0 if begins else length,
        tuple(i + begins for i in order),
        tuple(blocks[i] for i in order),
        tuple(i * share for i in order),
    )


def lower_stream(sheet: Sheet, phase: Stream) -> None:
    """Cores relay what is not for them: into a rectangle the farthest block comes first, out of it the nearest."""
    feed = feed_of(phase, sheet.mesh.width, sheet.mesh.height)
    last = max(i for i, share in enumerate(feed.shares) if share)
    stations = [feed.feeder, *feed.near[: last + 1]]
    links = list(pairwise(stations))
    if phase.direction == "out":
        links = [(b, a) for a, b in links]
    ways = colour_ways(links)
    first = sheet.colours(max(ways) + 1)
    colours = [first + c for c in ways]
    route_ways(sheet.mesh, feed.lines, links, colours)
    if phase.direction == "in":
        _feed_in(sheet, phase, feed, colours)
    else:
        _feed_out(sheet, phase, feed, colours)


def _feed_in(sheet: Sheet, phase: Stream, feed: Feed, colours: Sequence[int]) -> None:
    cells = feed.lines.cells
    for share, offset in reversed(list(zip(feed.shares, feed.offsets, strict=True))):
        if share:
            sheet.do(send(colours[0], phase.at + offset, share), *cells([feed.feeder]))
    for i, (position, share) in enumerate(zip(feed.near, feed.shares, strict=True)):
        beyond = sum(feed.shares[i + 1 :])
        if beyond:
            sheet.do(forward(colours[i], colours[i + 1], beyond), *cells([position]))
        if share:
            sheet.do(store(colours[i], phase.at, share), *cells([position]))


def _feed_out(sheet: Sheet, phase: Stream, feed: Feed, colours: Sequence[int]) -> None:
    cells = feed.lines.cells
    for share, offset in zip(feed.shares, feed.offsets, strict=True):
        if share:
            sheet.do(store(colours[0], phase.at + offset, share), *cells([feed.feeder]))
    for i, (position, share) in enumerate(zip(feed.near, feed.shares, strict=True)):
        beyond = sum(feed.shares[i + 1 :])
        if share:
            sheet.do(send(colours[i], phase.at, share), *cells([position]))
        if beyond:
            sheet.do(forward(colours[i + 1], colours[i], beyond), *cells([position]))
