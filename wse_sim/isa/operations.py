"""The vector operations of a core, one row each: sources, unit, and what an element of the result is."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Values = np.ndarray
"""float32 of any shape."""


@dataclass(frozen=True)
class Operation:
    """`sources` operands on a `unit` of the machine, whose rate it has (see `Machine.per_cycle`).

    `value` makes float32 arrays of the result from those of the sources, before the rounding to the destination's type;
    it is missing where that is not one step: a move carries bits, a multiply-add rounds twice. What `is_plain` has a
    short way through the engine for float32; what `is_integer` is of uint16 alone, whose values float32 holds.
    """

    sources: int
    unit: str = "add"
    value: Callable[..., Values] | None = None
    is_plain: bool = False
    is_integer: bool = False


def _routine(of_float64: Callable[[Values], Values]) -> Operation:
    """A library routine: taken in float64 and rounded once, at the price of the machine's `special`."""
    return Operation(1, "special", lambda a: of_float64(a.astype(np.float64)).astype(np.float32))


def _bitwise(of_integers: np.ufunc) -> Operation:
    """On the bits of 16-bit numbers, as CSL's @and16, @xor16, @sll16 and @slr16."""

    def value(a: Values, b: Values) -> Values:
        bits = of_integers(a.astype(np.int64), b.astype(np.int64)) & 0xFFFF
        return np.asarray(bits, np.float32)

    return Operation(2, value=value, is_integer=True)


# In the order of the codes in `record`, which the engine compares by ranges: from ADD to FMAC there are two sources.
OPERATIONS = {
    "move": Operation(1, "move", is_plain=True),
    "convert": Operation(1, "move", lambda a: a),
    "add": Operation(2, value=np.add, is_plain=True),
    "sub": Operation(2, value=np.subtract, is_plain=True),
    "mul": Operation(2, value=np.multiply, is_plain=True),
    "max": Operation(2, value=np.maximum, is_plain=True),
    "greater": Operation(2, value=lambda a, b: (a > b).astype(np.float32)),
    "bit_and": _bitwise(np.bitwise_and),
    "bit_xor": _bitwise(np.bitwise_xor),
    "shift_left": _bitwise(np.left_shift),
    "shift_right": _bitwise(np.right_shift),
    "fmac": Operation(3, "fma", is_plain=True),
    "exp": _routine(np.exp),
    "log": _routine(np.log),
    "reciprocal": _routine(np.reciprocal),
    "sqrt": _routine(np.sqrt),
    "tanh": _routine(np.tanh),
}
"""Name -> what it does to each element."""
SPECIAL_OPS = tuple(name for name, row in OPERATIONS.items() if row.unit == "special")
