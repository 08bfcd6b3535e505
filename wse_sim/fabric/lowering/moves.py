"""Lower shifts and broadcasts to routes and steps. Words are moved as bits, whatever their type."""

from collections.abc import Collection

from wse_sim.cost_model.collectives import shift_pairs
from wse_sim.fabric.lowering.lines import PELines, colour_paths, route_paths
from wse_sim.fabric.lowering.sheet import MeshWriter, make_copy
from wse_sim.fabric.mesh import NORTH, RAMP, SOUTH
from wse_sim.isa.core_program import Memory, Received, Sent, Vector
from wse_sim.layout import Rect
from wse_sim.phase import Broadcast, Shift


def make_send(colour: int, at: int, words: int, stride: int = 1) -> Vector:
    """Return an operation that sends `words` words at address `at`, `stride` apart, on a colour."""
    return Vector("move", operands=(Sent(colour), Memory(at, stride)), length=words)


def make_receive(colour: int, at: int, words: int, stride: int = 1) -> Vector:
    """Return an operation that receives `words` words from a colour and stores them at address `at`, `stride` apart."""
    return Vector("move", operands=(Memory(at, stride), Received(colour)), length=words)


def make_forward(source: int, target: int, words: int) -> Vector:
    """Return an operation that forwards `words` words from the colour `source` to the colour `target`, without storing
    them.
    """
    return Vector("move", operands=(Sent(target), Received(source)), length=words)


def lower_shift(sheet: MeshWriter, phase: Shift) -> None:
    """Lower a shift: a path for every pair of sender and receiver; all PEs send and receive at the same time.

    Words that would be overwritten before they are sent are copied first. A ring of one PE is a copy; an open line
    without pairs does nothing.
    """
    lines = PELines(phase.rect, phase.axis)
    pairs = shift_pairs(lines.length, phase.hops, phase.wrap)
    # On a line of one PE only a ring has something to do, which is a copy.
    if not pairs:
        if phase.wrap and phase.sent != phase.received:
            _lower_copy(sheet, phase, lines)
        return
    ways = colour_paths(pairs)
    first = sheet.colours(max(ways) + 1)
    colours = [first + c for c in ways]
    route_paths(sheet.mesh, lines, pairs, colours)
    sends = {i: c for (i, _), c in zip(pairs, colours, strict=True)}
    receives = {j: c for (_, j), c in zip(pairs, colours, strict=True)}
    # Words can be overwritten before they are sent only if some core both sends and receives.
    sent = _save_overlapping_words(sheet, phase, lines, sends if sends.keys() & receives.keys() else ())
    # Cores that use the same two colours run the same program, so steps are written for each pair of colours.
    alike: dict[tuple[int | None, int | None], list[int]] = {}
    for position in range(lines.length):
        alike.setdefault((sends.get(position), receives.get(position)), []).append(position)
    for (to, source), positions in alike.items():
        step = [make_send(to, sent.start, phase.words, sent.step)] if to is not None else []
        step += [make_receive(source, phase.put, phase.words, phase.put_stride)] if source is not None else []
        if step:
            sheet.do(step, *lines.cells(positions))


def _lower_copy(sheet: MeshWriter, phase: Shift, lines: PELines) -> None:
    """Lower a ring of one PE: a copy, by way of a scratch buffer if the words overlap and have two strides."""
    every, sent = range(lines.length), phase.sent
    # With two strides neither direction of a copy reads every word before it is overwritten.
    if phase.take_stride != phase.put_stride:
        sent = _save_overlapping_words(sheet, phase, lines, every)
    copy = make_copy(sent.start, phase.put, phase.words, sent.step, phase.put_stride)
    sheet.do(copy, *lines.cells(every))


def _save_overlapping_words(sheet: MeshWriter, phase: Shift, lines: PELines, positions: Collection[int]) -> range:
    """Return the addresses of the words to send, after all senders have copied them if received words would overwrite
    them.

    `positions` are the senders, or empty if no PE both sends and receives; then, and if the words do not overlap, they
    are `phase.sent`. All senders copy, so that none sends earlier than the others: its words would compete with their
    sending.
    """
    if not positions or not phase.overlaps:
        return phase.sent
    saved = sheet.allocate_words(phase.words)
    sheet.do(make_copy(phase.take, saved, phase.words, phase.take_stride), *lines.cells(positions))
    return range(saved, saved + phase.words)


def lower_broadcast(sheet: MeshWriter, phase: Broadcast) -> None:
    """Lower a broadcast: one colour; every router on the path also sends the words to its core.

    The sender copies its words to `put` if that differs from `take`, after it has sent them.
    """
    if phase.axis == "xy":
        _lower_plane_broadcast(sheet, phase)
        return
    lines, source = PELines(phase.rect, phase.axis, phase.groups), phase.source
    if lines.length > 1:
        colour = sheet.colours(1)
        _route_line_broadcast(sheet, lines, colour, source)
        sheet.do(make_send(colour, phase.take, phase.words), *lines.cells([source]))
        # Without the sender, since a router does not send a colour back to its source.
        others = [i for i in range(lines.length) if i != source]
        sheet.do(make_receive(colour, phase.put, phase.words), *lines.cells(others))
    if phase.take != phase.put:
        sheet.do(make_copy(phase.take, phase.put, phase.words), *lines.cells([source]))


def _route_line_broadcast(
    sheet: MeshWriter, lines: PELines, colour: int, source: int, ramp: int = RAMP, more: tuple[int, ...] = ()
) -> None:
    """Route a colour from position `source` to both ends of the lines.

    At the source it comes from direction `ramp`. Every router also sends it to the directions `more`, and to its core,
    except that of the source if `ramp` is RAMP.
    """
    mesh, last = sheet.mesh, lines.length - 1
    ways = [lines.outward] * (source < last) + [lines.inward] * (source > 0)
    mesh.route(colour, *lines.cells([source]), ramp, [*ways, *more, *([RAMP] if ramp != RAMP else [])])
    for end, on, back in ((last, lines.outward, lines.inward), (0, lines.inward, lines.outward)):
        between = range(source + 1, last) if end == last else range(1, source)
        if end != source:
            mesh.route(colour, *lines.cells([end]), back, [RAMP, *more])
        if len(between):
            mesh.route(colour, *lines.cells(between), back, [RAMP, on, *more])


def _lower_plane_broadcast(sheet: MeshWriter, phase: Broadcast) -> None:
    """Lower a broadcast over a rectangle on one colour: along the source's row, and from each of its routers both ways
    along the column.
    """
    rect = phase.rect
    row, column = divmod(phase.source, rect.width)
    line = PELines(Rect(rect.x, rect.y + row, rect.width, 1), "x")
    at_source = line.cells([column])
    if rect.area > 1:
        colour = sheet.colours(1)
        # Every router of the source's row copies the words into its column: one sender, one colour, no core in between.
        leaves = (NORTH,) * (row > 0) + (SOUTH,) * (row < rect.height - 1)
        _route_line_broadcast(sheet, line, colour, column, RAMP, leaves)
        if row > 0:
            _route_columns(sheet, Rect(rect.x, rect.y, rect.width, row), colour, NORTH)
        if row < rect.height - 1:
            _route_columns(sheet, Rect(rect.x, rect.y + row + 1, rect.width, rect.height - row - 1), colour, SOUTH)
        sheet.do(make_send(colour, phase.take, phase.words), *at_source)
        every = PELines(rect, "x")
        for rows, columns in _cells_except(rect, row, column):
            _, y = PELines(rect, "y").cells(rows)
            x, _ = every.cells(columns)
            sheet.do(make_receive(colour, phase.put, phase.words), x, y)
    if phase.take != phase.put:
        sheet.do(make_copy(phase.take, phase.put, phase.words), *at_source)


def _cells_except(rect: Rect, row: int, column: int) -> list[tuple[list[int], list[int]]]:
    """Return (rows, columns) pairs that cover all PEs of a rectangle except the one at `row`, `column`, each once."""
    rows = [r for r in range(rect.height) if r != row]
    columns = [c for c in range(rect.width) if c != column]
    parts = [(rows, list(range(rect.width))), ([row], columns)]
    return [(r, c) for r, c in parts if r and c]


def _route_columns(sheet: MeshWriter, rect: Rect, colour: int, on: int) -> None:
    """Route a colour that enters all columns of `rect` at one end and travels in direction `on`, NORTH or SOUTH.

    It goes to the other end, and from every router to its core.
    """
    lines = PELines(rect, "y")
    back, last = (NORTH, lines.length - 1) if on == SOUTH else (SOUTH, 0)
    sheet.mesh.route(colour, *lines.cells([last]), back, [RAMP])
    between = [i for i in range(lines.length) if i != last]
    if between:
        sheet.mesh.route(colour, *lines.cells(between), back, [RAMP, on])
