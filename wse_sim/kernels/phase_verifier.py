"""A verifier of phase programs: each phase has to stay on the PEs and in the memory of its kernel.

Errors name the phase by its path in the program, such as `phase.parts[1].body`, with its first wrong PE and the bytes.
"""

from collections.abc import Iterator

from lazytensor.errors import LazyError, PlacementError
from wse_sim.isa.core_program import WORD_BYTES, check_body
from wse_sim.layout import Rect
from wse_sim.phase import AllReduce, Broadcast, Compute, Local, Par, Phase, Reduce, Repeat, Rounds, Seq, Shift, Stream

LeafPhase = Compute | Local | Shift | Broadcast | Reduce | AllReduce | Stream


def verify_phase(phase: Phase, height: int, width: int, words: int) -> None:
    """Raise PlacementError or LazyError for the first invalid phase of a program on memories [height, width, words].

    PlacementError: the rectangle of a phase has a PE outside of the memories. LazyError: a phase uses words outside of
    the memory of a PE, a local phase has an invalid instruction, or a shift has no PE that receives anything. The
    addresses of streams are not verified.
    """
    for path, leaf in _leaves(phase, "phase"):
        _verify_rect(path, leaf, height, width)
        match leaf:
            case Local():
                _verify_body(path, leaf, words)
            case Shift():
                _verify_hops(path, leaf)
        for address, end in _reaches(leaf):
            if end > words:
                used = f"bytes {address * WORD_BYTES:,} to {end * WORD_BYTES - 1:,}"
                what = f"{path} uses {used} of {_first_pe(leaf.rect)}, but the kernel has {words * WORD_BYTES:,} bytes"
                raise LazyError(f"{what} on each PE: {leaf}", hint="Use addresses that the kernel has allocated.")


def _leaves(phase: Phase, path: str) -> Iterator[tuple[str, LeafPhase]]:
    """Yield (path, phase) for all phases without parts; a `Repeat` is visited once, and all rounds of `Rounds` are."""
    match phase:
        case Seq(parts) | Par(parts):
            for i, part in enumerate(parts):
                yield from _leaves(part, f"{path}.parts[{i}]")
        case Rounds(parts=parts):
            for i, part in enumerate(parts):
                yield from _leaves(part, f"{path}.body({i})")
        case Repeat(_, body):
            yield from _leaves(body, f"{path}.body")
        case _:
            yield path, phase


def _first_pe(rect: Rect) -> str:
    return f"PE ({rect.x}, {rect.y})"


def _verify_rect(path: str, leaf: LeafPhase, height: int, width: int) -> None:
    """Raise PlacementError if the rectangle of `leaf` has a PE outside of `height` x `width` memories."""
    rect = leaf.rect
    x = rect.x if rect.x < 0 else max(rect.x, width)
    y = rect.y if rect.y < 0 else max(rect.y, height)
    is_outside_x = rect.x < 0 or rect.x + rect.width > width
    is_outside_y = rect.y < 0 or rect.y + rect.height > height
    if is_outside_x or is_outside_y:
        first = (x if is_outside_x else rect.x, y if is_outside_y else rect.y)
        raise PlacementError(
            f"{path} uses PE {first}, but the kernel has the memories of {width} x {height} PEs: {leaf}",
            hint="Use a smaller rectangle, or give the MeshKernel a rect that contains it.",
        )


def _verify_body(path: str, leaf: Local, words: int) -> None:
    """Raise LazyError for an instruction that cores with `words` words of memory cannot run."""
    try:
        check_body(leaf.body, words, (), path)
    except LazyError as error:
        cores = f"the cores from {_first_pe(leaf.rect)} on have {words * WORD_BYTES:,} bytes for this Local"
        raise LazyError(f"{error.what}; {cores}", where=error.where, hint=error.hint) from None


def _verify_hops(path: str, leaf: Shift) -> None:
    """Raise LazyError if every PE of a line would send past its end.

    A line of one PE has no neighbours, so a shift on it is a valid special case.
    """
    length = leaf.rect.width if leaf.axis == "x" else leaf.rect.height
    if not leaf.wrap and 1 < length <= abs(leaf.hops):
        what = f"{path} leaves its lines of {length} PEs from every PE, such as {_first_pe(leaf.rect)}: {leaf}"
        raise LazyError(what, hint=f"Use at most {length - 1} hops, or a wrap.")


def _reaches(leaf: LeafPhase) -> Iterator[tuple[int, int]]:
    """Yield (first address, address after the last) of the words that a move uses."""
    match leaf:
        case Shift() if leaf.words:
            yield from ((used[0], used[-1] + 1) for used in (leaf.sent, leaf.received))
        case Broadcast() if leaf.words:
            yield from ((start, start + leaf.words) for start in (leaf.take, leaf.put))
        case Reduce() | AllReduce() if leaf.words:
            yield leaf.at, leaf.at + leaf.words
