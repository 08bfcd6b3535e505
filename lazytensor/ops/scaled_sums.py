"""Scaled sums, such as x + alpha y, rounded as PyTorch's kernels for a CPU round them.

A kernel multiplies and adds in one instruction, so that float32 and float64 are rounded once. Half types are computed
in float32 and rounded once. The kernels take 64 bytes of a tensor at a time. The elements behind the last whole vector
are computed by another loop: there, the product of half types is rounded too, and so are most products with a number.

`half` is the half type that a kernel rounds to; None stands for float32 and float64.
"""

from collections.abc import Callable

from lazytensor.dtype import DType, float32, float64
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import decomposed
from lazytensor.ir.types import Type
from lazytensor.ops.elementwise import cast, where
from lazytensor.ops.formula import composite
from lazytensor.ops.half_types import narrowed, rounded, scaled_by, widened
from lazytensor.ops.op import call, full, full_like
from lazytensor.ops.shape import reshape, slice_

VECTOR_BYTES, SMALL_VECTOR_BYTES = 64, 16
SPLIT_FACTOR = 2.0**27 + 1
"""Splits a float64 into two parts of 26 bits, whose products are exact (T. J. Dekker, 1971)."""

Sum = Callable[[Node, Node], Node]


def _multiply_add(a: Node, b: Node, c: Node) -> Node:
    """Return a * b + c, rounded once, of float32 or float64."""
    if a.type.dtype is float32:
        a, b, c = (full(n.attrs["value"], _wide(n)) if n.op == "full" else cast(n, float64) for n in (a, b, c))
        return cast(a * b + c, float32)
    product = a * b
    total = product + c
    added = total - product
    lost_by_sum = (product - (total - added)) + (c - added)
    corrected = total + (_lost_by_product(a, b, product) + lost_by_sum)
    # The parts of very large numbers overflow.
    return where(call("isfinite", corrected), corrected, total)


def _wide(n: Node) -> Type:
    return Type(n.type.shape, float64)


def _lost_by_product(a: Node, b: Node, product: Node) -> Node:
    """Return what rounding took from a product of float64."""
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(x: Node) -> tuple[Node, Node]:
    scaled = x * SPLIT_FACTOR
    high = scaled - (scaled - x)
    return high, x - high


def _in_parts(x: Node, y: Node, *parts: tuple[Sum, int]) -> Node:
    """Return the results of functions that compute the elements up to a place each, one part after the other."""
    stops = [0, *(stop for _, stop in parts)]
    filled = [(part, start, stop) for (part, stop), start in zip(parts, stops, strict=False) if start < stop]
    if len(filled) < 2:
        return filled[0][0](x, y) if filled else parts[0][0](x, y)
    flat = [reshape(n, (x.type.size,)) for n in (x, y)]
    results = [part(*(slice_(n, (start,), (stop,)) for n in flat)) for part, start, stop in filled]
    return reshape(call("concat", *results, dim=0), x.type.shape)


def _scaled_sum(x: Node, y: Node, *, alpha: float, is_number: bool, half: DType | None) -> Node:
    factor = rounded(alpha, half)

    def fused(x: Node, y: Node) -> Node:
        return _multiply_add(y, full_like(factor, y), x)

    def once(x: Node, y: Node) -> Node:
        return cast(widened(x, half) + widened(y, half) * factor, x.type.dtype)

    def twice(x: Node, y: Node) -> Node:
        return cast(widened(x, half) + narrowed(widened(y, half) * factor, half), x.type.dtype)

    size, itemsize = x.type.size, x.type.dtype.itemsize if half is None else half.itemsize
    whole = size - size % (VECTOR_BYTES // itemsize)
    if half is not None:
        return _in_parts(x, y, (once, whole), (twice, size))
    if not is_number or whole == size:
        return fused(x, y)
    # The compiler computes the product with a number before the loop, but for the first and the last elements.
    group = SMALL_VECTOR_BYTES // itemsize
    grouped = whole + 1 + (size - whole - 1) // group * group
    return _in_parts(x, y, (fused, whole + 1), (twice, grouped), (fused, size))


def _scaled_sum_vjp(
    g: Node, y: Node, a: Node, b: Node, *, alpha: float, is_number: bool, half: DType | None
) -> tuple[Node, Node]:
    return g, scaled_by(g, alpha, half)


def _addcmul(x: Node, a: Node, b: Node, *, value: float, half: DType | None) -> Node:
    if half is None:
        return _multiply_add(a if value == 1 else a * value, b, x)
    product = widened(a, half) * value * widened(b, half)
    return cast(widened(x, half) + product, x.type.dtype)


def _addcmul_vjp(g: Node, y: Node, x: Node, a: Node, b: Node, *, value: float, half: DType | None) -> tuple[Node, ...]:
    return g, g * scaled_by(b, value, half), g * scaled_by(a, value, half)


def _addcdiv(x: Node, a: Node, b: Node, *, value: float, half: DType | None) -> Node:
    quotient = (widened(a, half) * value if value != 1 else widened(a, half)) / widened(b, half)
    return cast(widened(x, half) + quotient, x.type.dtype)


def _addcdiv_vjp(g: Node, y: Node, x: Node, a: Node, b: Node, *, value: float, half: DType | None) -> tuple[Node, ...]:
    return g, g * (rounded(value, half) / b), -g * (scaled_by(a, value, half) / (b * b))


composite(
    "multiply_add",
    _multiply_add,
    flops=2,
    vjp=lambda g, y, a, b, c: (g * b, g * a, g),
    cirh=decomposed(lambda a, b, c: a * b + c),
    elements="f",
)
composite("scaled_sum", _scaled_sum, flops=2, vjp=_scaled_sum_vjp, gradient_name="Add", saves=False, elements="f")
composite("add_scaled_product", _addcmul, flops=3, vjp=_addcmul_vjp, gradient_name="Addcmul", elements="f")
composite(
    "add_scaled_quotient",
    _addcdiv,
    flops=6,
    vjp=_addcdiv_vjp,
    also_keeps="last operand",
    gradient_name="Addcdiv",
    elements="f",
)
