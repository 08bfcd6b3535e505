"""The record of a routine: an operation that compiled code runs on the host, in parts that threads share."""

from dataclasses import dataclass

import numpy as np

from lazytensor.errors import ShapeError

DOTS = 3
"""The number of taps of a weight gradient that a register tile sums at a time."""


@dataclass(frozen=True)
class Routine:
    """An operation as a compiled module of `lazytensor.runtime.compiled_kernels`.

    The module's `kernel(phase, part, geometry, shared, own, *ins, *outs)` is called for each part of each phase. The
    parts of a phase are independent. Their number depends only on shapes, so that the bits of a result do not depend on
    the number of threads.

    - `module`: the name of the module.
    - `geometry`: int64 numbers that the kernel reads.
    - `parts`: the number of parts of each phase.
    - `shared`: float32 elements of scratch buffer that all parts share.
    - `own`: float32 elements of scratch buffer for each thread.
    - `refusal`: the error message if the kernel returns True, which means that it refuses its operands.
    - `error`: the type of that error.
    - `is_special`: whether the numbers of the geometry become constants of the text, because the loops are short.
    """

    module: str
    geometry: np.ndarray
    parts: tuple[int, ...]
    shared: int = 0
    own: int = 0
    refusal: str = ""
    error: type[Exception] = ShapeError
    is_special: bool = False
