"""Price of a three-dimensional Fourier transform, with one pencil of complex float32 on every PE (arXiv:2209.15040)."""

from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Compute, Phase, Repeat, Seq, Shift

BUTTERFLY_OPERATIONS = 10  # four multiplications, six additions of real numbers


def transform(rect: Rect, points: int, machine: Machine) -> Phase:
    """Return the phase, for pricing only, of a transform of `points` points, a power of two, along each axis.

    It transforms pencils along the first axis, exchanges along x, transforms, exchanges along y, transforms, and
    exchanges back twice. A stage of a radix-2 transform is ten vector operations over half the points; strides that are
    powers of two let both sources of an operation start in one pair of banks. In an exchange every PE of a line sends
    two words to every other PE of the line. Each half of the line sends a quarter of all pairs over the link in its
    middle, in each direction.
    """
    stages = points.bit_length() - 1
    stage = Compute(rect, op="add", vectors=BUTTERFLY_OPERATIONS, length=points // 2, itemsize=4, apart=0)
    local = Repeat(stages, stage)
    turns = [_all_to_all(rect, axis, 2) for axis in ("x", "y", "x", "y")]
    return Seq((local, turns[0], local, turns[1], local, *turns[2:]))


def _all_to_all(rect: Rect, axis: str, count: int) -> Phase:
    """Return a phase with the cost of an all-to-all along each line, with `count` words for each pair of PEs.

    It is a shift by half the line in which each PE sends `count` words for each PE of the other half.
    """
    # The bisection bound: half the line sends to the other half over one link, which determines the time.
    half = (rect.width if axis == "x" else rect.height) // 2
    return Shift(rect, axis=axis, words=count * half, hops=half, put=count * half)
