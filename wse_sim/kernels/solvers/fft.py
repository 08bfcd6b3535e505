"""Three-dimensional Fourier transform: one pencil of complex float32 on every PE (arXiv:2209.15040)."""

from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Compute, Phase, Repeat, Seq, Shift

BUTTERFLY_OPERATIONS = 10  # four multiplications, six additions of real numbers


def transform(rect: Rect, points: int, machine: Machine) -> Phase:
    """Transform, turn along x, transform, turn along y, transform, and turn back twice.

    A stage of a radix-2 transform is ten vector operations over half the points; strides that are powers of two meet
    bank conflicts. To turn the pencils every PE of a line sends two words to every other; each half of the line sends
    a quarter of all pairs over the link in its middle, each way.
    """
    stages = points.bit_length() - 1
    stage = Compute(
        rect, op="add", vectors=BUTTERFLY_OPERATIONS, length=points // 2, itemsize=4, slowdown=machine.conflict_slowdown
    )
    local = Repeat(stages, stage)
    turns = [_all_to_all(rect, axis, 2) for axis in ("x", "y", "x", "y")]
    return Seq((local, turns[0], local, turns[1], local, *turns[2:]))


def _all_to_all(rect: Rect, axis: str, count: int) -> Phase:
    """Every PE of a line sends `count` words to every other: as many as cross the middle, to half the line away."""
    # The bisection: half the line sends to the other half over one link, and that link is what takes the time.
    half = (rect.width if axis == "x" else rect.height) // 2
    return Shift(rect, axis=axis, words=count * half, hops=half, put=count * half)
