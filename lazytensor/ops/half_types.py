"""Operations on half tensors on the host, with the roundings of PyTorch's kernels, which compute in float32.

`half` is the dtype to which a kernel rounds; with None every step is in the dtype of the operands.
"""

import math

import numpy as np

from lazytensor.core.dtype import DType, bfloat16, float32, round_to
from lazytensor.ir.graph import Node
from lazytensor.ops.elementwise import cast
from lazytensor.ops.formula import composite
from lazytensor.ops.op import call, full_like


def _round_number(number: float, half: DType | None) -> float:
    return number if half is None else float(round_to(np.asarray(number, np.float32), half))


def _round_to_half(x: Node, half: DType | None) -> Node:
    """Return `x` rounded to the half type, in the dtype of `x`."""
    return x if half is None else cast(cast(x, half), x.type.dtype)


def _cast_to_float32(x: Node, half: DType | None) -> Node:
    return x if half is None else cast(x, float32)


def _scale_by(g: Node, number: float, half: DType | None) -> Node:
    """Return g times a number that is not rounded to the half type."""
    return cast(_cast_to_float32(g, half) * number, g.type.dtype)


def _scaled_sum(x: Node, y: Node, *, alpha: float, half: DType | None) -> Node:
    # PyTorch also rounds the product for the elements after the last whole vector, which depend on strides.
    return cast(_cast_to_float32(x, half) + _cast_to_float32(y, half) * _round_number(alpha, half), x.type.dtype)


def _scaled_sum_vjp(g: Node, y: Node, a: Node, b: Node, *, alpha: float, half: DType | None) -> tuple[Node, Node]:
    return g, _scale_by(g, alpha, half)


def _number_power(x: Node, *, exponent: float, half: DType | None) -> Node:
    """Return x ** exponent, rounded inside as in PyTorch's kernels for half types. The result itself is not rounded.

    The exponent is rounded to the type `half`, unless that is None. If `half` is bfloat16 and the exponent is 3 or -2,
    x * x is rounded before its use.
    """
    power = _round_number(exponent, half)
    # PyTorch's vectorised code for bfloat16 rounds the square.
    if half is bfloat16 and power in (3, -2):
        square = _round_to_half(x * x, half)
        return x * square if power == 3 else 1 / square
    return x**power


def _number_power_vjp(g: Node, y: Node, x: Node, *, exponent: float, half: DType | None) -> tuple[Node]:
    if exponent == 0:
        return (full_like(0, x),)
    slope = call("pow_number", x, exponent=exponent - 1, half=half)
    return (g * _scale_by(slope, exponent, half),)


def _power_of_number(x: Node, *, base: float, half: DType | None) -> Node:
    return full_like(_round_number(base, half), x) ** x


def _power_of_number_vjp(g: Node, y: Node, x: Node, *, base: float, half: DType | None) -> tuple[Node]:
    return (g * _scale_by(y, math.log(base), half),)


def _addcmul(x: Node, a: Node, b: Node, *, value: float, half: DType | None) -> Node:
    product = _cast_to_float32(a, half) * value * _cast_to_float32(b, half)
    return cast(_cast_to_float32(x, half) + product, x.type.dtype)


def _addcmul_vjp(g: Node, y: Node, x: Node, a: Node, b: Node, *, value: float, half: DType | None) -> tuple[Node, ...]:
    return g, g * _scale_by(b, value, half), g * _scale_by(a, value, half)


def _addcdiv(x: Node, a: Node, b: Node, *, value: float, half: DType | None) -> Node:
    quotient = _cast_to_float32(a, half) * value / _cast_to_float32(b, half)
    return cast(_cast_to_float32(x, half) + quotient, x.type.dtype)


def _addcdiv_vjp(g: Node, y: Node, x: Node, a: Node, b: Node, *, value: float, half: DType | None) -> tuple[Node, ...]:
    return g, g * (_round_number(value, half) / b), -g * (_scale_by(a, value, half) / (b * b))


composite("scaled_sum", _scaled_sum, flops=2, vjp=_scaled_sum_vjp, gradient_name="Add", saves=False, elements="f")
composite("pow_number", _number_power, flops=20, vjp=_number_power_vjp, gradient_name="Pow", elements="f")
composite("power_of_number", _power_of_number, flops=20, vjp=_power_of_number_vjp, gradient_name="Pow", elements="f")
composite("add_scaled_product", _addcmul, flops=3, vjp=_addcmul_vjp, gradient_name="Addcmul", elements="f")
composite("add_scaled_quotient", _addcdiv, flops=6, vjp=_addcdiv_vjp, gradient_name="Addcdiv", elements="f")
