"""Elementwise functions of three operands: a sum with a scaled product or quotient, and linear interpolation."""

from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.half_precision import round_once, scaled_term
from lazytensor.functional.type_promotion import Operand, mixed_dtypes_error, result_type
from lazytensor.ops.op import refuse_elements


@method(in_place=True)
def addcmul(x: Tensor, a: Operand, b: Tensor, last: Tensor | None = None, *, value: Operand = 1) -> Tensor:
    """Return x + value * a * b. Shapes broadcast and dtypes are promoted.

    `addcmul(x, value, a, b)` is PyTorch's deprecated form. Raises TypeUnsupported for bools.

    >>> import lazytensor as lt
    >>> lt.addcmul(lt.ones(2), lt.tensor([1.0, 2.0]), lt.tensor([4.0, 4.0]), value=2)
    tensor([ 9., 17.])
    """
    if last is not None:
        a, b, value = b, last, a
    value = pw.number_argument(value, "addcmul(value=...)")
    if result_type(x, a, b).kind == "b":
        refuse_elements("addcmul", x.spec)
    out = scaled_term("add_scaled_product", x, a, b, value)
    if out is not None:
        return out
    product = a * b
    return x + (product if pw.is_number(value, 1) else product * value)


@method(in_place=True)
def addcdiv(x: Tensor, a: Operand, b: Tensor, last: Tensor | None = None, *, value: Operand = 1) -> Tensor:
    """Return x + value * a / b. Shapes broadcast and dtypes are promoted.

    `addcdiv(x, value, a, b)` is PyTorch's deprecated form. Raises ShapeError if both `a` and `b` are integers.

    >>> import lazytensor as lt
    >>> lt.addcdiv(lt.ones(2), lt.tensor([1.0, 2.0]), lt.tensor([4.0, 4.0]), value=2)
    tensor([1.5000, 2.0000])
    """
    if last is not None:
        a, b, value = b, last, a
    if result_type(a, b).kind != "f":
        raise ShapeError(
            "Integer division with addcdiv is no longer supported: "
            f"the operands have the dtype {result_type(a, b).name}",
            where=source.where(),
            hint="Write input + value * torch.trunc(tensor1 / tensor2), or convert to float.",
        )
    value = pw.number_argument(value, "addcdiv(value=...)")
    out = scaled_term("add_scaled_quotient", x, a, b, value)
    if out is not None:
        return out
    # As in PyTorch, divided first and then scaled.
    quotient = a / b
    return x + (quotient if pw.is_number(value, 1) else quotient * value)


@method(in_place=True)
def lerp(a: Tensor, b: Tensor, weight: Operand) -> Tensor:
    """Return a + weight * (b - a), linear interpolation. Shapes broadcast.

    It is computed from the nearer end, so that weights 0 and 1 give exactly `a` and `b`. Raises ShapeError if the
    dtypes of `a`, `b` and a `weight` with dimensions differ.

    >>> import lazytensor as lt
    >>> lt.lerp(lt.tensor([0.0, 10.0]), lt.tensor([1.0, 20.0]), 0.25)
    tensor([ 0.2500, 12.5000])
    """
    if a.dtype is not b.dtype:
        text = f"expected dtype {a.dtype.name} for `end` but got dtype {b.dtype.name}"
        raise mixed_dtypes_error(a.dtype, b.dtype, text)
    if isinstance(weight, Tensor) and weight.ndim and weight.dtype is not a.dtype:
        text = f"expected dtype {a.dtype.name} for `weight` but got {weight.spec}"
        raise mixed_dtypes_error(a.dtype, weight.dtype, text)
    return _lerp(a, b, weight)


@round_once
def _lerp(a: Tensor, b: Tensor, weight: Operand) -> Tensor:
    # PyTorch's two formulas: the difference is taken from the nearer end.
    way = b - a
    if not isinstance(weight, Tensor):
        return a + way * weight if weight < 0.5 else b - way * (1 - weight)
    return pw.where(weight < 0.5, a + way * weight, b - way * (1 - weight))
