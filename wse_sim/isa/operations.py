"""The vector operations of a core, one row each: sources, unit, and what an element of the result is."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Float32Array = np.ndarray
"""float32 of any shape."""


@dataclass(frozen=True)
class CoreOperation:
    """`sources` operands on a `unit` of the machine, whose rate it has (see `Machine.per_cycle`).

    `value` makes float32 arrays of the result from those of the sources, before the rounding to the destination's type;
    it is missing where that is not one step: a move carries bits, a multiply-add rounds twice. What `is_plain` has a
    short way through the engine for float32; what `is_integer` is of uint16 alone, whose values float32 holds.
    """

    sources: int
    unit: str = "add"
    value: Callable[..., Float32Array] | None = None
    is_plain: bool = False
    is_integer: bool = False


def _library_routine(of_float64: Callable[[Float32Array], Float32Array]) -> CoreOperation:
    """A library routine: taken in float64 and rounded once, at the price of the machine's `special`."""
    return CoreOperation(1, "special", lambda a: of_float64(a.astype(np.float64)).astype(np.float32))


def _bitwise_operation(of_integers: np.ufunc) -> CoreOperation:
    """On the bits of 16-bit numbers, as CSL's @and16, @xor16, @sll16 and @slr16."""

    def value(a: Float32Array, b: Float32Array) -> Float32Array:
        bits = of_integers(a.astype(np.int64), b.astype(np.int64)) & 0xFFFF
        return np.asarray(bits, np.float32)

    return CoreOperation(2, value=value, is_integer=True)


# In the order of the codes in `record`, which the engine compares by ranges: from ADD to FMAC there are two sources.
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
"""Name -> what it does to each element."""
SPECIAL_OPS = tuple(name for name, row in OPERATIONS.items() if row.unit == "special")
