"""The record of a routine: how an operation runs on the host as parts that threads share."""

from dataclasses import dataclass

import numpy as np

from lazytensor.errors import ShapeError

DOTS = 3
"""How many taps of a gradient of weights a register tile sums at a time."""


@dataclass(frozen=True)
class Routine:
    """One operation as `module`, one of `lazytensor.runtime.compiled_kernels` that defines its `kernel`.

    The kernel is called with (phase, part, geometry, shared, own, *ins, *outs) for each part of each phase; the parts
    of a phase are independent, and how many there are depends on shapes alone, so that the bits of a result do not
    depend on the number of threads. `shared` and `own` are elements of float32 that all parts, and each thread, need.
    A kernel that gives True has refused its operands: `refusal` says why, in an `error`. It `is_special` where loops
    are so short that the numbers of the geometry have to stand in its text.
    """

    module: str
    geometry: np.ndarray
    parts: tuple[int, ...]
    shared: int = 0
    own: int = 0
    refusal: str = ""
    error: type[Exception] = ShapeError
    is_special: bool = False
