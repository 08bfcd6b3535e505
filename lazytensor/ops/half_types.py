"""Operations of half tensors on the host: PyTorch's kernels compute them in float32 and take numbers in other forms.

`half` is the type that a kernel rounds to; None leaves every step in the type of the operands.
"""

import math

import numpy as np

from lazytensor.dtype import DType, bfloat16, float32, round_to
from lazytensor.ir.graph import Node
from lazytensor.ops.elementwise import cast
from lazytensor.ops.formula import composite
from lazytensor.ops.op import call, full_like


def rounded(number: float, half: DType | None) -> float:
    """Return a number rounded to the half type."""
    return number if half is None else float(round_to(np.asarray(number, np.float32), half))


def narrowed(x: Node, half: DType | None) -> Node:
    """Return x rounded to the half type, in its own type."""
    return x if half is None else cast(cast(x, half), x.type.dtype)


def widened(x: Node, half: DType | None) -> Node:
    """Return x in float32 if it is of the half type."""
    return x if half is None else cast(x, float32)


def scaled_by(g: Node, number: float, half: DType | None) -> Node:
    """Return g times an unrounded number."""
    return cast(widened(g, half) * number, g.type.dtype)


def _number_power(x: Node, *, exponent: float, half: DType | None) -> Node:
    power = rounded(exponent, half)
    # Vectors of bfloat16 round the square.
    if half is bfloat16 and power in (3, -2):
        square = narrowed(x * x, half)
        return x * square if power == 3 else 1 / square
    return x**power


def _number_power_vjp(g: Node, y: Node, x: Node, *, exponent: float, half: DType | None) -> tuple[Node]:
    if exponent == 0:
        return (full_like(0, x),)
    slope = call("pow_number", x, exponent=exponent - 1, half=half)
    return (g * scaled_by(slope, exponent, half),)


def _power_of_number(x: Node, *, base: float, half: DType | None) -> Node:
    return full_like(rounded(base, half), x) ** x


def _power_of_number_vjp(g: Node, y: Node, x: Node, *, base: float, half: DType | None) -> tuple[Node]:
    return (g * scaled_by(y, math.log(base), half),)


composite("pow_number", _number_power, flops=20, vjp=_number_power_vjp, gradient_name="Pow", elements="f")
composite("power_of_number", _power_of_number, flops=20, vjp=_power_of_number_vjp, gradient_name="Pow", elements="f")
