"""The table of a core's vector operations: number of sources, unit, and the value of an element."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Float32Array = np.ndarray
"""A float32 array of any shape."""


@dataclass(frozen=True)
class CoreOperation:
    """A vector operation.

    - `sources`: number of source operands
    - `unit`: unit of the machine, which determines the rate (see `Machine.per_cycle`)
    - `value`: function from the float32 arrays of the sources to that of the result, before it is rounded to the
      destination's type; None for `move`, which copies bits, and for `fmac`, which rounds twice
    - `is_plain`: True if the engine has a fast path for it in float32
    - `is_integer`: True if it is defined for uint16 only, whose values float32 represents exactly
    """

    sources: int
    unit: str = "add"
    value: Callable[..., Float32Array] | None = None
    is_plain: bool = False
    is_integer: bool = False


def _library_routine(of_float64: Callable[[Float32Array], Float32Array]) -> CoreOperation:
    """Return a library routine of the unit "special" that computes in float64 and rounds to float32 once."""
    return CoreOperation(1, "special", lambda a: of_float64(a.astype(np.float64)).astype(np.float32))


def _bitwise_operation(of_integers: np.ufunc) -> CoreOperation:
    """Return an operation on the bits of 16-bit numbers, like CSL's @and16, @xor16, @sll16 and @slr16.

    It converts the float32 values of both sources to integers, and keeps the lowest 16 bits of the result, as float32.
    """

    def value(a: Float32Array, b: Float32Array) -> Float32Array:
        bits = of_integers(a.astype(np.int64), b.astype(np.int64)) & 0xFFFF
        return np.asarray(bits, np.float32)

    return CoreOperation(2, value=value, is_integer=True)


# In the order of the codes in `record`, since the engine compares codes by ranges: ADD to FMAC have at least two
# sources.
OPERATIONS = {
    "move": CoreOperation(1, "move", is_plain=True),
    "convert": CoreOperation(1, "move", lambda a: a),
    "add": CoreOperation(2, value=np.add, is_plain=True),
    "sub": CoreOperation(2, value=np.subtract, is_plain=True),
    "mul": CoreOperation(2, value=np.multiply, is_plain=True),
    "max": CoreOperation(2, value=np.maximum, is_plain=True),
    "greater": CoreOperation(2, value=lambda a, b: (a > b).astype(np.float32)),
    "bit_and": _bitwise_operation(np.bitwise_and),
    "bit_xor": _bitwise_operation(np.bitwise_xor),
    "shift_left": _bitwise_operation(np.left_shift),
    "shift_right": _bitwise_operation(np.right_shift),
    "fmac": CoreOperation(3, "fma", is_plain=True),
    "exp": _library_routine(np.exp),
    "log": _library_routine(np.log),
    "reciprocal": _library_routine(np.reciprocal),
    "sqrt": _library_routine(np.sqrt),
    "tanh": _library_routine(np.tanh),
}
"""Name -> operation."""
SPECIAL_OPS = tuple(name for name, row in OPERATIONS.items() if row.unit == "special")
"""Names of the library routines."""
