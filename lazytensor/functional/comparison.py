"""Comparisons of whole tensors and within a tolerance; those of each element, `eq` to `le`, are in `pointwise`."""

from lazytensor.core import source
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.pointwise_special import to_floating
from lazytensor.functional.type_promotion import mixed_dtypes_error


@method
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether elements differ by at most atol + rtol * |other|: bool, broadcast.

    Raises ShapeError for unlike types and negative tolerances.

    >>> import lazytensor as lt
    >>> lt.isclose(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    if input.dtype is not other.dtype:
        raise mixed_dtypes_error(input.dtype, other.dtype, f"{input.dtype.name} did not match {other.dtype.name}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise ShapeError(f"{name} must be greater than or equal to zero, but got {value}", where=source.where())
    close = input == other
    # Integers have no NaN to compare.
    if equal_nan and input.dtype.kind == "f":
        close = pw.logical_or(close, pw.logical_and(pw.isnan(input), pw.isnan(other)))
    if rtol == atol == 0:
        return close
    a, b = to_floating(input), to_floating(other)
    gap = pw.abs(a - b)
    within = gap <= pw.abs(b * rtol) + atol
    # Infinities are close to themselves alone; atol + rtol * inf would let in everything.
    return pw.logical_or(close, pw.logical_and(pw.isfinite(gap), within))


@method
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether `isclose` holds everywhere; operands broadcast. Raises ShapeError as it does.

    >>> import lazytensor as lt
    >>> lt.allclose(lt.tensor([1.0]), lt.tensor([1.0 + 1e-7]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).array("torch.allclose()").all())


@method
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and values; NaN equals nothing.

    >>> import lazytensor as lt
    >>> lt.equal(lt.tensor([1, 2]), lt.tensor([1, 2]))
    True
    """
    # Without looking at values, which inside of a step do not exist.
    if operand_node(input).type.shape != operand_node(other).type.shape:
        return False
    return bool((input == other).array("torch.equal()").all())
