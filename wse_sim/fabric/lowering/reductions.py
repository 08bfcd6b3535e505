"""Lower reductions and all-reductions to routes and steps.

Received words are combined with the core's words, which are the first operand. A core that forwards its sum does so in
one operation, element by element, without storing it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wse_sim.cost_model.collectives import shift_pairs
from wse_sim.cost_model.reduction_tree import generate_tree
from wse_sim.fabric.lowering.lines import PELines, colour_paths, route_paths
from wse_sim.fabric.lowering.moves import make_receive, make_send
from wse_sim.fabric.lowering.sheet import MeshWriter
from wse_sim.fabric.mesh import EAST, NORTH, RAMP, SOUTH, WEST
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES, Memory, Received, Sent, Vector
from wse_sim.layout import Rect
from wse_sim.phase import AllReduce, Reduce


@dataclass(frozen=True)
class WordBlock:
    """The words that a reduction combines: `words` words at address `at`, their `dtype`, and `combine` ("add" or
    "max").
    """

    at: int
    words: int
    dtype: str = "float32"
    combine: str = "add"

    @classmethod
    def of(cls, phase: Reduce | AllReduce) -> "WordBlock":
        """Return the block of words that a phase combines."""
        return cls(phase.at, phase.words, phase.dtype, phase.combine)

    def part(self, start: int, words: int) -> "WordBlock":
        """Return the block of `words` of these words, from word `start` on."""
        return WordBlock(self.at + start, words, self.dtype, self.combine)

    def send(self, colour: int, advance: bool = False) -> Vector:
        """Return an operation that sends the words; with `advance` the switch advances after the last one."""
        return replace(make_send(colour, self.at, self.words), advance=advance)

    def store(self, colour: int) -> Vector:
        """Return an operation that overwrites the words with received ones."""
        return make_receive(colour, self.at, self.words)

    def gather(self, colour: int, blocks: int = 1) -> Vector:
        """Return an operation that combines received words with the words in memory, and stores the result there.

        `blocks` blocks of this size arrive one after another, and each is combined with the same words.
        """
        # A stride of 0 over the blocks: each is added to the same words, in the order of arrival.
        outer = ((blocks, 0),) if blocks > 1 else ()
        own = Memory(self.at * self._per_word, dtype=self.dtype, outer=outer)
        return self._combine_vector(own, own, colour, blocks)

    def relay(self, source: int, target: int) -> Vector:
        """Return an operation that combines words received from `source` with those in memory and sends the result to
        `target`.

        The result is not stored.
        """
        return self._combine_vector(
            Sent(target, self.dtype), Memory(self.at * self._per_word, dtype=self.dtype), source
        )

    @property
    def _per_word(self) -> int:
        return WORD_BYTES // ITEM_BYTES[self.dtype]

    def _combine_vector(self, target: Memory | Sent, own: Memory, colour: int, blocks: int = 1) -> Vector:
        length = self.words * self._per_word * blocks
        return Vector(self.combine, operands=(target, own, Received(colour, self.dtype)), length=length)


def _route_pairs(sheet: MeshWriter, lines: PELines, pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Route the path of each pair (sender, receiver) on new colours, as few as possible. Return sender -> colour."""
    ways = colour_paths(pairs)
    first = sheet.colours(max(ways) + 1)
    colours = [first + c for c in ways]
    route_paths(sheet.mesh, lines, pairs, colours)
    return {i: c for (i, _), c in zip(pairs, colours, strict=True)}


def _emit_chain(
    sheet: MeshWriter, lines: PELines, block: WordBlock, stations: Sequence[int], colour: dict[int, int]
) -> None:
    """Append a chain over the positions `stations`, from the last one to the first, which gets the result.

    The paths are already routed on the colours `colour` (by sender). One station does nothing.
    """
    # Stations receive on one colour and send on the next. Even and odd ones use them the other way round, and all
    # stations of a kind run the same program.
    for odd in (0, 1):
        middle = stations[1 + odd : -1 : 2]
        if middle:
            sheet.do(block.relay(colour[stations[2 + odd]], colour[middle[0]]), *lines.cells(middle))
    if len(stations) > 1:
        sheet.do(block.gather(colour[stations[1]]), *lines.cells(stations[:1]))
        sheet.do(block.send(colour[stations[-1]]), *lines.cells(stations[-1:]))


def _lower_chain(sheet: MeshWriter, lines: PELines, block: WordBlock, size: int) -> None:
    stations = range(lines.length)
    _emit_chain(sheet, lines, block, stations, _route_pairs(sheet, lines, [(i, i - 1) for i in stations[1:]]))


def _lower_two_phase(sheet: MeshWriter, lines: PELines, block: WordBlock, size: int) -> None:
    """Lower chains in groups of `size` PEs, followed by a chain over the group leaders on other colours.

    With `size` 0 it is the rounded square root of the line's length. The last group may be shorter.
    """
    size = size or max(1, round(lines.length**0.5))
    leaders = range(0, lines.length, size)
    inside = [(i, i - 1) for i in range(lines.length) if i % size]
    colour = _route_pairs(sheet, lines, inside) if inside else {}
    for leader in leaders:
        _emit_chain(sheet, lines, block, range(leader, min(leader + size, lines.length)), colour)
    if len(leaders) > 1:
        colour = _route_pairs(sheet, lines, [(i, i - size) for i in leaders[1:]])
        _emit_chain(sheet, lines, block, leaders, colour)


def _lower_binary_tree(sheet: MeshWriter, lines: PELines, block: WordBlock, size: int) -> None:
    """Lower a binary tree: pairs, then pairs of pairs, with one colour for each round, since its paths do not meet.

    Position 0 gets the result. `size` is unused.
    """
    step = 1
    while step < lines.length:
        # The root of each pair is at the lower position, so position 0 gets the total.
        senders = range(step, lines.length, 2 * step)
        colour = _route_pairs(sheet, lines, [(i, i - step) for i in senders])
        sheet.do(block.send(colour[step]), *lines.cells(senders))
        sheet.do(block.gather(colour[step]), *lines.cells([i - step for i in senders]))
        step *= 2


def _lower_auto_gen(sheet: MeshWriter, lines: PELines, block: WordBlock, size: int) -> None:
    """Lower the fastest reduction tree of the cost model (`generate_tree`); see `lower_tree`. `size` is unused."""
    parents = generate_tree(lines.length, block.words, sheet.mesh.machine)
    lower_tree(sheet, lines, block, parents)


def lower_tree(sheet: MeshWriter, lines: PELines, block: WordBlock, parents: Sequence[int]) -> None:
    """Lower any reduction tree: `parents[i]` is the position that PE i sends to, or -1 for the root.

    Every PE combines the sums of its senders in the order of their positions. Only the root stores its sum.
    """
    colour = _route_pairs(sheet, lines, [(i, p) for i, p in enumerate(parents) if p >= 0])
    for position, parent in enumerate(parents):
        here = lines.cells([position])
        sources = [colour[i] for i, p in enumerate(parents) if p == position]
        # The last child's sum is not stored: it is added to the core's own on its way to the parent, which saves a
        # start.
        for source in sources[: len(sources) - (parent >= 0)]:
            sheet.do(block.gather(source), *here)
        if parent >= 0:
            target = colour[position]
            sheet.do(block.relay(sources[-1], target) if sources else block.send(target), *here)


def _lower_star(sheet: MeshWriter, lines: PELines, block: WordBlock, size: int) -> None:
    """Lower a reduction in which all PEs send to position 0 on one colour. `size` is unused.

    After the core's words a router's switch forwards those from farther out. So they arrive in the order of their
    positions, and the root receives all of them in one operation.
    """
    mesh, last, colour = sheet.mesh, lines.length - 1, sheet.colours(1)
    mesh.route(colour, *lines.cells([0]), lines.outward, [RAMP])
    mesh.route(colour, *lines.cells(range(1, last + 1)), RAMP, [lines.inward])
    if last > 1:
        # Switch position 0 sends the core's words; the advance with the last of them lets the words from farther out
        # pass.
        mesh.route(colour, *lines.cells(range(1, last)), lines.outward, [lines.inward], position=1)
        sheet.do(block.send(colour, advance=True), *lines.cells(range(1, last)))
    sheet.do(block.send(colour), *lines.cells([last]))
    sheet.do(block.gather(colour, last), *lines.cells([0]))


ReductionLowering = Callable[[MeshWriter, PELines, WordBlock, int], None]
"""A function (writer, lines, block, group size) that appends a reduction."""
ALGORITHMS: dict[str, ReductionLowering] = {
    "star": _lower_star,
    "chain": _lower_chain,
    "tree": _lower_binary_tree,
    "two_phase": _lower_two_phase,
    "auto_gen": _lower_auto_gen,
}
"""Name of a reduction -> its lowering."""


def lower_ring(sheet: MeshWriter, lines: PELines, block: WordBlock) -> None:
    """Lower a ring all-reduce: parts are combined on their way around the folded line and go around it once more.

    The words are cut into as many parts as PEs; empty parts are not sent. Every second PE of the ring sends before it
    receives, which prevents a deadlock.
    """
    pes = lines.length
    pairs = shift_pairs(pes, 1, "folded")
    colour = _route_pairs(sheet, lines, pairs)
    after = dict(pairs)
    ring = [0]
    while len(ring) < pes:
        ring.append(after[ring[-1]])
    # The first half of the rounds adds, the second half distributes the complete parts.
    for round_ in range(2 * (pes - 1)):
        for rank, position in enumerate(ring):
            out, into = _block_part(block, pes, rank - round_), _block_part(block, pes, rank - round_ - 1)
            source = colour[ring[rank - 1]]
            steps = [out.send(colour[position])] if out.words else []
            taking = into.gather(source) if round_ < pes - 1 else into.store(source)
            steps += [taking] if into.words else []
            # Sending and receiving are separate operations; if all sent first, a ring of full queues would deadlock.
            for step in steps if rank % 2 == 0 else reversed(steps):
                sheet.do(step, *lines.cells([position]))


def _block_part(block: WordBlock, parts: int, index: int) -> WordBlock:
    start, end = (block.words * k // parts for k in (index % parts, index % parts + 1))
    return block.part(start, end - start)


def lower_snake(sheet: MeshWriter, rect: Rect, block: WordBlock) -> None:
    """Lower a reduction as one chain through all PEs of a rectangle; the upper left PE gets the result.

    The chain runs along the longer axis and back, line after line, on two colours.
    """
    is_wide = rect.width >= rect.height
    along, across = (rect.width, rect.height) if is_wide else (rect.height, rect.width)
    back, on, up, down = (WEST, EAST, NORTH, SOUTH) if is_wide else (NORTH, SOUTH, WEST, EAST)
    # The path turns at the end of every line: odd lines run backwards, so that consecutive PEs are neighbours.
    line, place = np.divmod(np.arange(along * across), along)
    is_odd = line % 2 == 1
    place = np.where(is_odd, along - 1 - place, place)
    x, y = (rect.x + place, rect.y + line) if is_wide else (rect.x + line, rect.y + place)
    order = np.arange(along * across)
    to = np.where(order % along == 0, up, np.where(is_odd, on, back))
    source = np.where(order % along == along - 1, down, np.where(is_odd, back, on))
    # Two colours are enough for a chain: a PE receives on one and sends on the other, and the next PE does the reverse.
    first, last = sheet.colours(2), len(order) - 1
    for n in (0, 1):
        for way in (back, on, up, down):
            sends = (order % 2 == n) & (order > 0) & (to == way)
            takes = (order % 2 != n) & (order < last) & (source == way)
            if sends.any():
                sheet.mesh.route(first + n, x[sends], y[sends], RAMP, [way])
            if takes.any():
                sheet.mesh.route(first + n, x[takes], y[takes], way, [RAMP])
        middle = (order % 2 == n) & (order > 0) & (order < last)
        if middle.any():
            sheet.do(block.relay(first + 1 - n, first + n), x[middle], y[middle])
    sheet.do(block.gather(first + 1), x[:1], y[:1])
    sheet.do(block.send(first + last % 2), x[-1:], y[-1:])
