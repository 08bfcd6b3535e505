"""Cuts a phase to the smallest mesh whose cores and routers do what they do on the whole.

Lines of a move share no link, so one of them stands for all; PEs that only compute do the same, so one is enough. Where
moves and work run beside each other they meet on every core, so a corner of the rectangle is kept.
"""

from dataclasses import replace

from wse_sim.cost_model.cost import wavelet_count
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Compute, Local, Par, Phase, Reduce, Repeat, Rounds, Seq, Shift, Stream
from wse_sim.validation.reading import UnsupportedPhaseError

CORNER_SIDE_PES = 8
"""PEs on a side of the corner that is kept of what runs beside each other."""
MAX_RELAY_HOPS = 16
"""The most PEs that words pass in one go: a shift by h takes h + 1 colours, of which there are 24."""
MAX_WHOLE_PES = 4096
"""The most PEs of a move over both axes, or of a stream, that is taken whole."""


LeafPhase = Compute | Local | Shift | Broadcast | Reduce | AllReduce | Stream


def cut_to_line(phase: LeafPhase) -> LeafPhase | Repeat:
    """One line of a move along an axis, laid along a row; one PE of what every PE does on its own.

    Raises NotRead for a large move over both axes and for a large stream, of which no line stands for the whole.
    """
    match phase:
        # Every PE does the same and meets nobody.
        case Compute() | Local():
            return replace(phase, rect=Rect(0, 0, 1, 1))
        case Shift():
            return _split_shift(replace(phase, rect=_line_rect(phase.rect, phase.axis), axis="x"))
        case Broadcast() | Reduce() | AllReduce() if phase.axis != "xy":
            return replace(phase, rect=_line_rect(phase.rect, phase.axis, phase.groups), axis="x", groups=1)
    if phase.rect.area > MAX_WHOLE_PES:
        hint = "Read it by the closed forms."
        raise UnsupportedPhaseError(f"no line stands for {type(phase).__name__} over {phase.rect.area} PEs", hint=hint)
    return phase


def _line_rect(rect: Rect, axis: str, groups: int = 1) -> Rect:
    return Rect(0, 0, (rect.width if axis == "x" else rect.height) // groups, 1)


def _split_shift(phase: Shift) -> Shift | Repeat:
    """A long shift as several shorter ones that load each link as much: words are stored on the way and sent on."""
    # All PEs shift at once, so h ways lie over each link whether words go h hops at once or in steps: the load is the
    # same.
    times = ceil_div(abs(phase.hops), MAX_RELAY_HOPS)
    if times < 2 or phase.wrap:
        return phase
    hops = ceil_div(abs(phase.hops), times)
    return Repeat(times, replace(phase, hops=hops if phase.hops > 0 else -hops))


def cut_to_corner(phase: Phase) -> Phase:
    """The first rows and columns of a phase: lines become as short, the words and hops of each PE stay."""
    match phase:
        case Seq(parts) | Par(parts):
            return replace(phase, parts=tuple(cut_to_corner(part) for part in parts))
        case Repeat(_, body):
            return replace(phase, body=cut_to_corner(body))
        case Rounds(parts=parts):
            return Seq(tuple(cut_to_corner(part) for part in parts))
        case Stream():
            raise UnsupportedPhaseError("a stream is not cut to a corner", hint="Read it by the closed forms.")
        case Broadcast() | Reduce() | AllReduce():
            return replace(phase, rect=_corner_rect(phase.rect, phase.axis, phase.groups), groups=1)
    return replace(phase, rect=_corner_rect(phase.rect))


def _corner_rect(rect: Rect, axis: str = "", groups: int = 1) -> Rect:
    """Of lines that are cut into groups, the first group."""
    width = rect.width // groups if axis == "x" else rect.width
    height = rect.height // groups if axis == "y" else rect.height
    # What a core issues and waits for is decided by its neighbours, so eight PEs a side show the sharing of slots.
    return Rect(0, 0, min(width, CORNER_SIDE_PES), min(height, CORNER_SIDE_PES))


def mesh_extents(phase: Phase) -> tuple[int, int]:
    """Columns and rows of the smallest mesh that holds a phase."""
    match phase:
        case Seq(parts) | Par(parts) | Rounds(parts=parts):
            each = [mesh_extents(part) for part in parts]
            return max((w for w, _ in each), default=1), max((h for _, h in each), default=1)
        case Repeat(_, body):
            return mesh_extents(body)
    beside = int(isinstance(phase, Stream))  # the cores that feed a stream
    return phase.rect.x + phase.rect.width + beside, phase.rect.y + phase.rect.height + beside


def memory_words(phase: Phase, machine: Machine) -> int:
    """Words of memory that a phase reaches on one PE; all of them for a `Local`."""
    match phase:
        case Seq(parts) | Par(parts) | Rounds(parts=parts):
            return max((memory_words(part, machine) for part in parts), default=0)
        case Repeat(_, body):
            return memory_words(body, machine)
        case Local():
            return machine.usable_bytes_per_pe * 8 // machine.link_bits
        case Shift() | Broadcast():
            return max(phase.take, phase.put) + phase.words
        case Reduce() | AllReduce():
            return phase.at + phase.words
        case Stream():
            return phase.at + wavelet_count(phase.bytes, 1, machine)
    return 0
