"""Cut a phase to the smallest mesh whose cores and routers behave as on the whole mesh.

The lines of a move share no link, so one line represents all. PEs that only compute all do the same, so one PE is
enough. Moves and work that overlap meet on every core, so a corner of the rectangle is kept for them.
"""

from dataclasses import replace

from wse_sim.cost_model.cost import wavelet_count
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Compute, Local, Par, Phase, Reduce, Repeat, Rounds, Seq, Shift, Stream
from wse_sim.validation.reading import UnsupportedPhaseError

CORNER_SIDE_PES = 8
"""Side in PEs of the corner that is kept of overlapping phases."""
MAX_RELAY_HOPS = 16
"""Maximum number of hops of a shift without relaying. A shift by h hops needs h + 1 of the 24 colours."""
MAX_WHOLE_PES = 4096
"""Maximum number of PEs for a move over both axes, or for a stream, that is simulated whole."""


LeafPhase = Compute | Local | Shift | Broadcast | Reduce | AllReduce | Stream


def cut_to_line(phase: LeafPhase) -> LeafPhase | Repeat:
    """Return one line of a move along an axis, laid along a row, or one PE of local work.

    The result is at (0, 0). A collective has one group, as long as one group of the line. A long shift becomes a
    repeated shorter one. A move over both axes or a stream is returned unchanged; raise UnsupportedPhaseError if it has
    more than MAX_WHOLE_PES PEs.
    """
    match phase:
        # Every PE does the same work without communication.
        case Compute() | Local():
            return replace(phase, rect=Rect(0, 0, 1, 1))
        case Shift():
            return _split_shift(replace(phase, rect=_line_rect(phase.rect, phase.axis), axis="x"))
        case Broadcast() | Reduce() | AllReduce() if phase.axis != "xy":
            return replace(phase, rect=_line_rect(phase.rect, phase.axis, phase.groups), axis="x", groups=1)
    if phase.rect.area > MAX_WHOLE_PES:
        hint = "Use the closed forms."
        raise UnsupportedPhaseError(
            f"no single line represents {type(phase).__name__} over {phase.rect.area} PEs", hint=hint
        )
    return phase


def _line_rect(rect: Rect, axis: str, groups: int = 1) -> Rect:
    """Return a row as long as one group of a line along `axis`."""
    return Rect(0, 0, (rect.width if axis == "x" else rect.height) // groups, 1)


def _split_shift(phase: Shift) -> Shift | Repeat:
    """Return a long shift as several shorter ones with the same load on each link. Words are stored in between.

    Each has at most MAX_RELAY_HOPS hops; together they may have a few more than `phase`. A shorter shift, and one that
    wraps around, is returned unchanged.
    """
    # All PEs shift at once, so h words cross each link whether they move h hops at once or in steps.
    times = ceil_div(abs(phase.hops), MAX_RELAY_HOPS)
    if times < 2 or phase.wrap:
        return phase
    hops = ceil_div(abs(phase.hops), times)
    return Repeat(times, replace(phase, hops=hops if phase.hops > 0 else -hops))


def cut_to_corner(phase: Phase) -> Phase:
    """Return the phase on the first rows and columns of its rectangles, at most CORNER_SIDE_PES of each, at (0, 0).

    Words and hops of each PE are kept. A collective has one group, and Rounds become one sequence of their parts. Raise
    UnsupportedPhaseError for a stream.
    """
    match phase:
        case Seq(parts) | Par(parts):
            return replace(phase, parts=tuple(cut_to_corner(part) for part in parts))
        case Repeat(_, body):
            return replace(phase, body=cut_to_corner(body))
        case Rounds(parts=parts):
            return Seq(tuple(cut_to_corner(part) for part in parts))
        case Stream():
            raise UnsupportedPhaseError("a stream cannot be cut to a corner", hint="Use the closed forms.")
        case Broadcast() | Reduce() | AllReduce():
            return replace(phase, rect=_corner_rect(phase.rect, phase.axis, phase.groups), groups=1)
    return replace(phase, rect=_corner_rect(phase.rect))


def _corner_rect(rect: Rect, axis: str = "", groups: int = 1) -> Rect:
    """Return the corner of a rectangle, or of its first group of lines along `axis`, at (0, 0).

    Its sides are at most CORNER_SIDE_PES. `groups` divides the extent along `axis`.
    """
    width = rect.width // groups if axis == "x" else rect.width
    height = rect.height // groups if axis == "y" else rect.height
    # A core interacts only with its neighbours, so eight PEs per side show how issue slots are shared.
    return Rect(0, 0, min(width, CORNER_SIDE_PES), min(height, CORNER_SIDE_PES))


def mesh_extents(phase: Phase) -> tuple[int, int]:
    """Return columns and rows of the smallest mesh that contains a phase; (1, 1) for a phase without parts.

    A stream needs one more of each, for the cores that send it.
    """
    match phase:
        case Seq(parts) | Par(parts) | Rounds(parts=parts):
            each = [mesh_extents(part) for part in parts]
            return max((w for w, _ in each), default=1), max((h for _, h in each), default=1)
        case Repeat(_, body):
            return mesh_extents(body)
    beside = int(isinstance(phase, Stream))  # The cores that send a stream.
    return phase.rect.x + phase.rect.width + beside, phase.rect.y + phase.rect.height + beside


def memory_words(phase: Phase, machine: Machine) -> int:
    """Return the words of memory that a phase uses on one PE; all usable words for a `Local`.

    Parts share memory, so the largest counts. `Compute` uses none.
    """
    match phase:
        case Seq(parts) | Par(parts) | Rounds(parts=parts):
            return max((memory_words(part, machine) for part in parts), default=0)
        case Repeat(_, body):
            return memory_words(body, machine)
        case Local():
            return machine.usable_bytes_per_pe * 8 // machine.link_bits
        case Shift():
            return max(phase.sent.stop, phase.received.stop)
        case Broadcast():
            return max(phase.take, phase.put) + phase.words
        case Reduce() | AllReduce():
            return phase.at + phase.words
        case Stream():
            return phase.at + wavelet_count(phase.bytes, 1, machine)
    return 0
