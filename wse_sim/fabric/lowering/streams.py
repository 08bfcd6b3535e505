"""Lower streams to routes and steps: a core at the end of each line sends or receives the blocks of all its PEs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from lazytensor.errors import LazyError
from wse_sim.fabric.lowering.lines import PELines, colour_paths, route_paths
from wse_sim.fabric.lowering.moves import make_forward, make_receive, make_send
from wse_sim.fabric.lowering.sheet import MeshWriter
from wse_sim.fabric.mesh import RAMP
from wse_sim.isa.core_program import Memory, Received, Sent, Vector
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import Stream


@dataclass(frozen=True)
class StreamFeed:
    """The lines of a stream with the feeder, the core at their end that sends or receives the blocks.

    - `lines`: lines of PEs including the feeder
    - `feeder`: position of the feeder in a line
    - `near`: positions of the PEs, in order of distance from the feeder
    - `shares`: words of each of these PEs
    - `offsets`: offset of each PE's block among the words of its line
    """

    lines: PELines
    feeder: int
    near: tuple[int, ...]
    shares: tuple[int, ...]
    offsets: tuple[int, ...]


def make_stream_feed(phase: Stream, width: int, height: int) -> StreamFeed:
    """Return the feeder of a stream on a mesh of `width` x `height` cores, and the block of each PE.

    Lines run along the shorter side of the rectangle. The feeder is to the left of the rectangle or above it if there
    is a core, else on the other side. Blocks are equal, except that the last PEs of a line may have less or nothing.
    Raises LazyError if there is no core on either side.
    """
    rect = phase.rect
    # Feeders are along the longer side, so that lines are short and as many links as possible are used.
    axis = "x" if rect.height >= rect.width else "y"
    start, length, count, end = (
        (rect.x, rect.width, rect.height, width) if axis == "x" else (rect.y, rect.height, rect.width, height)
    )
    if start == 0 and start + length >= end:
        what = f"the stream of {rect} needs a core next to the rectangle, but the mesh of {width} x {height} has none"
        raise LazyError(what, hint="Use a larger mesh or a smaller rectangle.")
    words = ceil_div(ceil_div(phase.bytes, 4), count)
    share = ceil_div(words, length)
    blocks = [max(0, min(share, words - i * share)) for i in range(length)]
    # Before the rectangle if there is a core, else after it.
    begins = start > 0
    whole = (start - 1 if begins else start, length + 1)
    area = (
        Rect(whole[0], rect.y, whole[1], rect.height) if axis == "x" else Rect(rect.x, whole[0], rect.width, whole[1])
    )
    # Blocks belong to PEs by position; only the order in which words travel depends on the side of the feeder.
    order = list(range(length)) if begins else list(range(length))[::-1]
    return StreamFeed(
        PELines(area, axis),
        0 if begins else length,
        tuple(i + begins for i in order),
        tuple(blocks[i] for i in order),
        tuple(i * share for i in order),
    )


def lower_stream(sheet: MeshWriter, phase: Stream) -> None:
    """Lower a stream that has at least one byte.

    Into a rectangle, cores forward the words of the cores behind them, the farthest block first. Out of it, each
    router's switch lets the blocks from farther out pass after its own block, so the nearest block comes first.
    """
    feed = make_stream_feed(phase, sheet.mesh.width, sheet.mesh.height)
    # With few bytes only the first PEs of a line have a block; the others get no routes.
    last = max(i for i, share in enumerate(feed.shares) if share)
    near = feed.near[: last + 1]
    if phase.direction == "out":
        _lower_stream_out(sheet, phase, feed, near)
        return
    links = list(pairwise((feed.feeder, *near)))
    ways = colour_paths(links)
    first = sheet.colours(max(ways) + 1)
    colours = [first + c for c in ways]
    route_paths(sheet.mesh, feed.lines, links, colours)
    _lower_stream_in(sheet, phase, feed, colours)


def _lower_stream_in(sheet: MeshWriter, phase: Stream, feed: StreamFeed, colours: Sequence[int]) -> None:
    """Append the steps of a stream into a rectangle: the feeder sends, and PEs forward words and then receive their
    block.

    `colours[i]` is that of the link to the PE number i from the feeder.
    """
    cells = feed.lines.cells
    # The farthest block first: a PE forwards the words of PEs behind it before it stores its own, so it never delays
    # them.
    for block, length in reversed(_feeder_vectors(phase, feed)):
        sheet.do(Vector("move", operands=(Sent(colours[0]), block), length=length), *cells([feed.feeder]))
    for i, (position, share) in enumerate(zip(feed.near, feed.shares, strict=True)):
        beyond = sum(feed.shares[i + 1 :])
        if beyond:
            sheet.do(make_forward(colours[i], colours[i + 1], beyond), *cells([position]))
        if share:
            sheet.do(make_receive(colours[i], phase.at, share), *cells([position]))


def _lower_stream_out(sheet: MeshWriter, phase: Stream, feed: StreamFeed, near: Sequence[int]) -> None:
    """Append the routes, switch positions and steps of a stream out of a rectangle, on one colour.

    `near` are the positions that have a block or forward one.
    """
    mesh, cells, colour = sheet.mesh, feed.lines.cells, sheet.colours(1)
    back, on = feed.lines.inward, feed.lines.outward
    if feed.feeder:
        back, on = on, back
    mesh.route(colour, *cells([feed.feeder]), on, [RAMP])
    for position, share in zip(near, feed.shares, strict=False):
        if share:
            mesh.route(colour, *cells([position]), RAMP, [back])
        if position != near[-1]:
            # A PE without a block forwards from the start.
            mesh.route(colour, *cells([position]), on, [back], position=int(share > 0))
    for block, length in _feeder_vectors(phase, feed):
        sheet.do(Vector("move", operands=(block, Received(colour)), length=length), *cells([feed.feeder]))
    for position, share in zip(near, feed.shares, strict=False):
        if share:
            sheet.do(replace(make_send(colour, phase.at, share), advance=position != near[-1]), *cells([position]))


def _feeder_vectors(phase: Stream, feed: StreamFeed) -> list[tuple[Memory, int]]:
    """Return the words of the feeder as (operand, length), as few vectors as possible, the nearest block first.

    Empty blocks are left out. With the direction "in" each vector runs from its last block to its first, since the
    farthest block is sent first.
    """
    vectors = []
    # All blocks except the last one or two have the same size, and equal ones form one vector with an outer dimension.
    for share, blocks in groupby(zip(feed.shares, feed.offsets, strict=True), key=lambda pair: pair[0]):
        offsets = [offset for _, offset in blocks]
        if not share:
            continue
        if phase.direction == "in":
            offsets = offsets[::-1]
        step = offsets[1] - offsets[0] if len(offsets) > 1 else 0
        outer = ((len(offsets), step),) if len(offsets) > 1 else ()
        vectors.append((Memory(phase.at + offsets[0], outer=outer), share * len(offsets)))
    return vectors
