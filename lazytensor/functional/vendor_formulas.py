"""Formulas that the vendor's front end records in place of a function on CSX. The gradient is that of the formula."""

import math
from collections.abc import Callable, Mapping

from lazytensor.core.autocast import convert_operand
from lazytensor.core.dtype import float32
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops.elementwise import FRONT_END_LOG2_E, cast
from lazytensor.ops.op import full_like

FRONT_END_LOG10_E = 0.4343


def _arc_parts(x: Node) -> tuple[Node, Node, Node]:
    """Return the factors of arccos(|x|) by a polynomial (Abramowitz and Stegun 4.4.45), and a mask of x < 0.

    The factors are sqrt(1 - |x|) and the polynomial; the mask has the dtype of `x`.
    """
    size = call("abs", x)
    root = call("sqrt", 1 - size)
    polynomial = ((size * -0.0187293 + 0.0742610) * size - 0.2121144) * size + 1.5707288
    return root, polynomial, cast(x < 0, x.type.dtype)


def _asin(x: Node) -> Node:
    root, polynomial, is_negative = _arc_parts(x)
    angle = math.pi / 2 - root * polynomial
    return angle - (is_negative * 2) * angle


def _acos(x: Node) -> Node:
    root, polynomial, is_negative = _arc_parts(x)
    angle = polynomial * root
    return is_negative * math.pi + (angle - (is_negative * 2) * angle)


def _acosh(x: Node) -> Node:
    # The square and the sum each have a separate conversion.
    square = call("square", convert_operand(x, float32))
    return call("log", convert_operand(x, float32) + call("sqrt", square - 1))


def _exponentials(x: Node) -> tuple[Node, Node]:
    return call("exp", x), call("exp", -x)


def _sinh(x: Node) -> Node:
    up, down = _exponentials(x)
    return (up - down) / 2


def _cosh(x: Node) -> Node:
    up, down = _exponentials(x)
    return (up + down) / 2


FORMULAS: Mapping[str, Callable[[Node], Node]] = {
    "acos": _acos,
    "acosh": _acosh,
    "asin": _asin,
    "atan": lambda x: call("atan2", x, full_like(1, x)),
    "cosh": _cosh,
    "expm1": lambda x: call("exp", x) - 1,
    # The sum is computed in the half type, and only the logarithm in float32.
    "log1p": lambda x: call("log", convert_operand(x + 1, float32) if x.type.dtype.is_half else x + 1),
    "log2": lambda x: call("log", x) * FRONT_END_LOG2_E,
    "log10": lambda x: call("log", x) * FRONT_END_LOG10_E,
    "sinh": _sinh,
    "tan": lambda x: call("sin", x) / call("cos", x),
}
"""The formulas by name of a function of one tensor. Operands that the vendor converts to float32
are converted before.
"""
