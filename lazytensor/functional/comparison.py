"""Comparisons of whole tensors, and comparisons within a tolerance.

The elementwise comparisons `eq` to `le` are in `pointwise`.
"""

from lazytensor.core import source
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.pointwise_special import to_floating
from lazytensor.functional.type_promotion import mixed_dtypes_error


@method
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Return a bool tensor that is true where |input - other| <= `atol` + `rtol` * |other|.

    The shapes broadcast. Equal infinities are close; NaN is close to NaN only if `equal_nan` is true. Raises ShapeError
    if the dtypes differ or a tolerance is negative.

    >>> import lazytensor as lt
    >>> lt.isclose(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    if input.dtype is not other.dtype:
        raise mixed_dtypes_error(input.dtype, other.dtype, f"{input.dtype.name} did not match {other.dtype.name}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise ShapeError(
                f"{name} must be greater than or equal to zero, but got {value}",
                where=source.where(),
                hint="Pass a tolerance of at least 0.",
            )
    close = input == other
    # Integers have no NaN to compare.
    if equal_nan and input.dtype.kind == "f":
        close = pw.logical_or(close, pw.logical_and(pw.isnan(input), pw.isnan(other)))
    if rtol == atol == 0:
        return close
    a, b = to_floating(input), to_floating(other)
    gap = pw.abs(a - b)
    within = gap <= pw.abs(b * rtol) + atol
    # An infinity is close to an equal one only. Without this condition `rtol` * inf would accept every number.
    return pw.logical_or(close, pw.logical_and(pw.isfinite(gap), within))


@method
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether `isclose` is true for all elements, as a Python bool. The shapes broadcast.

    The function reads the values, so it raises TraceError inside a compiled step. Raises ShapeError if the dtypes
    differ or a tolerance is negative.

    >>> import lazytensor as lt
    >>> lt.allclose(lt.tensor([1.0]), lt.tensor([1.0 + 1e-7]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).array("torch.allclose()").all())


@method
def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether both tensors have the same shape and equal elements, as a Python bool. NaN equals nothing.

    Tensors of different dtypes are compared by value. Shapes are compared without reading values. Reading values raises
    TraceError inside a compiled step.

    >>> import lazytensor as lt
    >>> lt.equal(lt.tensor([1, 2]), lt.tensor([1, 2]))
    True
    """
    # Shapes need no values, which do not exist inside a step.
    if operand_node(input).type.shape != operand_node(other).type.shape:
        return False
    return bool((input == other).array("torch.equal()").all())
