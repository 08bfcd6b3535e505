"""Elementwise functions: arithmetic, comparison, selection, conversion and elementary functions.

Operands may be tensors or Python numbers. They broadcast to one shape and are promoted to one dtype (`type_promotion`).
All functions raise ShapeError if shapes do not broadcast or tensors are on different devices.
"""

import builtins
import math
from collections.abc import Callable
from typing import Any

from lazytensor.autograd.function import observe_gradient
from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import DType, float16
from lazytensor.core.storage import clone_if_tracked, is_unknown_in_plan, thread_state, value_of
from lazytensor.core.tensor import CPU, Tensor, operand_node, wrap
from lazytensor.core.tensor_members import method
from lazytensor.docstrings import documented
from lazytensor.errors import AutogradError, ShapeError, TypeUnsupported
from lazytensor.functional.half_precision import apply_to_number, half_power, round_once, scaled_sum, uses_host_kernels
from lazytensor.functional.type_promotion import (
    Operand,
    common_shape,
    default_dtype,
    device_of,
    prepare_branch,
    prepare_operand,
    prepare_operands,
    prepare_stored,
    result_type,
    widest_dtype,
)
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast
from lazytensor.ops.op import refuse_elements


def tensor_of(n: Any, *inputs: Any) -> Tensor:
    """Return a tensor with the value of node `n`, on the device of the tensors among `inputs`.

    Raises ShapeError if these are on different devices.
    """
    # Every call passes here, so the device is computed only if a tensor is not on the CPU.
    for v in inputs:
        if isinstance(v, Tensor) and v.device is not CPU:
            return wrap(n, device_of(*inputs))
    return wrap(n)


def _binary(name: str, a: Operand, b: Operand, dtype: DType | None = None) -> Tensor:
    """Return the operation `name` of two operands, broadcast and in their promoted dtype, or in `dtype`.

    The result of a half tensor on the CPU and a number may be computed in float32, as `apply_to_number` does. Raises
    ShapeError if the shapes do not broadcast.
    """
    if dtype is None and half_type() is float16:
        dtype = widest_dtype(name, a, b)
    nodes = prepare_operands(a, b, dtype=dtype)
    # One comparison excludes all but the half types and int16.
    if nodes[0].type.dtype.itemsize == 2 and (out := apply_to_number(name, a, b)) is not None:
        return out
    return tensor_of(call(name, *nodes), a, b)


def _default_float_if_integers(*values: Operand) -> DType | None:
    """Return the default floating-point dtype if the promoted dtype is not floating-point, else None."""
    return None if result_type(*values).kind == "f" else default_dtype()


def is_number(value: Operand, number: float) -> bool:
    """Return whether `value` is a Python number equal to `number`.

    For a tensor it is false, since comparing reads it.
    """
    # `True == 1` is intended: PyTorch accepts alpha=True for 1.
    return not isinstance(value, Tensor) and value == number


@method(in_place=True, operator="add")
def add(a: Operand, b: Operand, scaled: Operand | None = None, *, alpha: Operand = 1) -> Tensor:
    """Return a + alpha * b. Shapes broadcast and dtypes are promoted.

    `add(a, alpha, b)` is PyTorch's deprecated form. Raises ShapeError if `alpha` is a float and the result an integer,
    or a bool and the result no bool.

    >>> import lazytensor as lt
    >>> lt.add(lt.tensor([1.0, 2.0]), lt.tensor([10.0, 20.0]), alpha=2)
    tensor([21., 42.])
    """
    if scaled is not None:
        b, alpha = scaled, b
    return _binary("add", a, b) if alpha.__class__ is int and alpha == 1 else _scaled_sum("add", a, b, alpha)


@method(names="sub subtract", in_place=True, operator="sub")
def sub(a: Operand, b: Operand, scaled: Operand | None = None, *, alpha: Operand = 1) -> Tensor:
    """Return a - alpha * b. Shapes broadcast and dtypes are promoted.

    `sub(a, alpha, b)` is PyTorch's deprecated form. Raises ShapeError for a bool operand, and for `alpha` as `add`
    does.

    >>> import lazytensor as lt
    >>> lt.sub(lt.tensor([10.0, 20.0]), lt.tensor([1.0, 2.0]), alpha=2)
    tensor([ 8., 16.])
    """
    if scaled is not None:
        b, alpha = scaled, b
    for v in (a, b):
        if isinstance(v, bool) or (isinstance(v, Tensor) and v.dtype.kind == "b"):
            _refuse_bool("Subtraction")
    return _binary("sub", a, b) if alpha.__class__ is int and alpha == 1 else _scaled_sum("sub", a, b, alpha)


def _scaled_sum(name: str, a: Operand, b: Operand, alpha: Operand) -> Tensor:
    """Return a + alpha * b or a - alpha * b, for `name` "add" or "sub".

    Raises ShapeError if `alpha` is a bool and the result no bool, or a float and the result no floating-point tensor.
    """
    alpha = number_argument(alpha, f"{name}(alpha=...)")
    kind = result_type(a, b).kind
    if isinstance(alpha, bool) and kind != "b":
        raise ShapeError(
            "Boolean alpha only supported for Boolean results.", where=source.where(), hint="Pass a number as alpha."
        )
    if kind != "f" and isinstance(alpha, float):
        raise ShapeError(
            f"For integral input tensors, argument alpha must not be a floating point number. Got {alpha}.",
            where=source.where(),
            hint="Pass an integer alpha, or convert the tensors with .float().",
        )
    if alpha == 1:
        return _binary(name, a, b)
    if (isinstance(a, Tensor) and a.dtype.itemsize == 2) or (isinstance(b, Tensor) and b.dtype.itemsize == 2):
        out = scaled_sum(name, a, b, alpha)
        if out is not None:
            return out
    return _binary(name, a, _scale_operand(a, b, alpha))


def number_argument(value: Operand, what: str) -> int | float | bool:
    """Return `value`, or the number that a one-element tensor holds. `what` names the argument in errors."""
    return value.item(what) if isinstance(value, Tensor) else value


def _scale_operand(a: Operand, b: Operand, alpha: Operand) -> Operand:
    """Return alpha * b in the promoted dtype of `a` and `b`; a Python number if both are."""
    common = result_type(a, b)
    if common.kind == "b":
        alpha = bool(alpha)
    # The product of two numbers stays a number, so that it is not promoted like a tensor.
    if not isinstance(b, Tensor) and not isinstance(alpha, Tensor):
        return bool(b and alpha) if common.kind == "b" else b * alpha
    return mul(cast_to(b, common) if isinstance(b, Tensor) else b, alpha)


def _refuse_bool(what: str) -> None:
    raise ShapeError(
        f"{what}, the `-` operator, with a bool tensor is not supported.",
        where=source.where(),
        hint="If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
    )


@method
def rsub(a: Operand, b: Operand, *, alpha: Operand = 1) -> Tensor:
    """Return b - alpha * a. Shapes broadcast and dtypes are promoted. Raises ShapeError for a bool operand.

    >>> import lazytensor as lt
    >>> lt.rsub(lt.tensor([1, 2]), 10)
    tensor([9, 8])
    """
    return sub(b, a, alpha=alpha)


@method(names="mul multiply", in_place=True, operator="mul")
def mul(a: Operand, b: Operand) -> Tensor:
    """Return a * b. Shapes broadcast and dtypes are promoted; the product of bools is their logical and.

    >>> import lazytensor as lt
    >>> lt.mul(lt.tensor([[1.0], [2.0]]), lt.tensor([10.0, 20.0]))
    tensor([[10., 20.],
            [20., 40.]])
    """
    # The product of bools is a bool.
    if isinstance(a, Tensor) and a.dtype.kind == "b" and result_type(a, b).kind == "b":
        return logical_and(a, b)
    return _binary("mul", a, b)


@method(names="div divide true_divide", in_place=True, operator="truediv")
def div(a: Operand, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Return a / b. Shapes broadcast; integers are converted to the default floating-point dtype.

    `rounding_mode` "floor" rounds the quotient down and "trunc" towards zero; integers then stay integers. Raises
    ShapeError for another mode, and with a mode for integers divided by zero. Raises TypeUnsupported for bools with a
    mode.

    >>> import lazytensor as lt
    >>> lt.div(lt.tensor([7.0, -7.0]), 2, rounding_mode="floor")
    tensor([ 3., -4.])
    """
    if rounding_mode is None:
        return _binary("div", a, b, _default_float_if_integers(a, b))
    if rounding_mode not in ("floor", "trunc"):
        raise ShapeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}",
            where=source.where(),
            hint="Pass one of these values.",
        )
    if rounding_mode == "floor":
        return _divide_checked("floor_divide", a, b)
    if result_type(a, b).kind == "f":
        return trunc(_binary("div", a, b)) if isinstance(b, Tensor) else _truncated_quotient(a, b)
    # a minus its remainder is a multiple of b, so floor division is exact and rounds towards zero.
    rest = fmod(a, b)
    return floor_divide(sub(cast_to(a, rest.dtype) if isinstance(a, Tensor) else a, rest), b)


@round_once
def _truncated_quotient(a: Operand, b: Operand) -> Tensor:
    return trunc(_binary("div", a, b))


def _divide_checked(name: str, a: Operand, b: Operand) -> Tensor:
    """Return the integer-capable division `name` of `a` by `b`.

    Raises ShapeError if an integer divisor is known to contain zero, and TypeUnsupported for bools.
    """
    kind = result_type(a, b).kind
    if kind == "b":
        text = f"\"{name}_cpu\" not implemented for 'Bool'"
        raise TypeUnsupported(text, where=source.where(), hint="Convert to int.")
    # An empty quotient divides nothing.
    if kind == "i" and (_is_known_zero(b) if isinstance(b, Tensor) else b == 0) and 0 not in common_shape(a, b):
        raise ShapeError(
            "ZeroDivisionError",
            where=source.where(),
            hint="Remove zeros from the divisor, or convert an operand with .float().",
        )
    return _binary(name, a, b)


def _is_known_zero(x: Tensor) -> bool:
    """Return whether `x` contains a zero. Outside a step the value is computed for this.

    A value that a step has yet to compute counts as nonzero.
    """
    value = x.node.value
    # The value is computed now, since PyTorch raises at the division and not where the result is read.
    if value is None and thread_state.current is None and not is_unknown_in_plan(x.node):
        value = value_of(x.node)
    return value is not None and not value.all()


@method(in_place=True, operator="floordiv")
def floor_divide(a: Operand, b: Operand) -> Tensor:
    """Return a / b rounded down. Shapes broadcast and dtypes are promoted.

    Raises ShapeError if an integer is divided by zero, and TypeUnsupported for bools. On the host, backward() raises
    AutogradError if a gradient reaches the result.

    >>> import lazytensor as lt
    >>> lt.floor_divide(lt.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """
    out = _divide_checked("floor_divide", a, b)
    n = operand_node(out)
    return tensor_of(observe_gradient(n, _refuse_derivative), a, b) if n.tracks and uses_host_kernels(a, b) else out


def _refuse_derivative(g: Node) -> Node:
    raise AutogradError(
        "derivative for aten::floor_divide is not implemented",
        where=source.where(),
        hint='Use torch.div(a, b, rounding_mode="floor"), whose gradient is 0, or detach an operand.',
    )


@method(in_place=True, operator="mod")
def remainder(a: Operand, b: Operand) -> Tensor:
    """Return the remainder of floor division, a - b * floor(a / b), which has the sign of b. Shapes broadcast.

    Raises ShapeError for an integer modulo zero, and TypeUnsupported for bools.

    >>> import lazytensor as lt
    >>> lt.remainder(lt.tensor([7.0, -7.0]), 3)
    tensor([1., 2.])
    """
    return _divide_checked("remainder", a, b)


@method(in_place=True, operator="pow")
def pow(a: Operand, exponent: Operand) -> Tensor:
    """Return `a` to the power `exponent`. Shapes broadcast and dtypes are promoted; integers stay integers.

    Raises ShapeError for an integer to a negative integer number, and TypeUnsupported for bools.

    >>> import lazytensor as lt
    >>> lt.pow(lt.tensor([2.0, 3.0]), 2)
    tensor([4., 9.])
    """
    # The vendor's front end records a square, whose gradient has no power.
    if is_number(exponent, 2) and isinstance(a, Tensor):
        base = operand_node(cast_to(a, result_type(a, exponent)))
        return tensor_of(call("square", base), a)
    # Integer powers have a separate operation.
    common = result_type(a, exponent)
    if common.kind == "b" and isinstance(exponent, Tensor):
        refuse_elements("pow", exponent.spec)
    if common.kind == "f":
        out = half_power(a, exponent)
        return _binary("pow", a, exponent) if out is None else out
    if not isinstance(exponent, Tensor) and exponent < 0:
        raise ShapeError(
            f"Integers to negative integer powers are not allowed. Got the exponent {exponent}.",
            where=source.where(),
            hint="Use a float base.",
        )
    return _binary("integer_pow", a, exponent)


@method(in_place=True)
def square(x: Tensor) -> Tensor:
    """Return x * x for each element, in the shape of `x`.

    >>> import lazytensor as lt
    >>> lt.square(lt.tensor([2.0, -3.0]))
    tensor([4., 9.])
    """
    return pow(x, 2)


@method(in_place=True)
def fmod(a: Operand, b: Operand) -> Tensor:
    """Return the remainder of truncated division, which has the sign of a. Shapes broadcast.

    Raises ShapeError for an integer modulo zero, and TypeUnsupported for bools.

    >>> import lazytensor as lt
    >>> lt.fmod(lt.tensor([7.0, -7.0]), 3)
    tensor([ 1., -1.])
    """
    return _binary("fmod", a, b) if result_type(a, b).kind == "f" else _divide_checked("integer_fmod", a, b)


@method(names="atan2 arctan2", in_place=True)
def atan2(a: Tensor, b: Tensor) -> Tensor:
    """Return the angle of the point (x=b, y=a) in radians, from -pi to pi. Shapes broadcast.

    Integers are converted to the default floating-point dtype.

    >>> import lazytensor as lt
    >>> lt.atan2(lt.tensor([1.0, -1.0]), lt.tensor([1.0, 1.0]))
    tensor([ 0.7854, -0.7854])
    """
    return _binary("atan2", a, b, _default_float_if_integers(a, b))


@method
def maximum(a: Operand, b: Operand) -> Tensor:
    """Return the elementwise maximum. Shapes broadcast; NaN is propagated, and equal elements share the gradient.

    >>> import lazytensor as lt
    >>> lt.maximum(lt.tensor([1.0, 5.0]), lt.tensor([4.0, 2.0]))
    tensor([4., 5.])
    """
    return _binary("maximum", a, b)


@method
def minimum(a: Operand, b: Operand) -> Tensor:
    """Return the elementwise minimum. Shapes broadcast; NaN is propagated, and equal elements share the gradient.

    >>> import lazytensor as lt
    >>> lt.minimum(lt.tensor([1.0, 5.0]), lt.tensor([4.0, 2.0]))
    tensor([1., 2.])
    """
    return _binary("minimum", a, b)


@method(names="gt greater", in_place=True, is_comparison=True)
def gt(a: Operand, b: Operand) -> Tensor:
    """Return a bool tensor that is true where a > b. Shapes broadcast; ShapeError is raised if they do not.

    >>> import lazytensor as lt
    >>> lt.gt(lt.tensor([1, 2, 3]), 2)
    tensor([False, False,  True])
    """
    return _binary("gt", a, b)


@method(names="ge greater_equal", in_place=True, is_comparison=True)
def ge(a: Operand, b: Operand) -> Tensor:
    """Return a bool tensor that is true where a >= b. Shapes broadcast; ShapeError is raised if they do not.

    >>> import lazytensor as lt
    >>> lt.ge(lt.tensor([1, 2, 3]), 2)
    tensor([False,  True,  True])
    """
    return _binary("ge", a, b)


@method(names="lt less", in_place=True, is_comparison=True)
def lt(a: Operand, b: Operand) -> Tensor:
    """Return a bool tensor that is true where a < b. Shapes broadcast; ShapeError is raised if they do not.

    >>> import lazytensor as lt
    >>> lt.lt(lt.tensor([1, 2, 3]), 2)
    tensor([ True, False, False])
    """
    return _binary("lt", a, b)


@method(names="le less_equal", in_place=True, is_comparison=True)
def le(a: Operand, b: Operand) -> Tensor:
    """Return a bool tensor that is true where a <= b. Shapes broadcast; ShapeError is raised if they do not.

    >>> import lazytensor as lt
    >>> lt.le(lt.tensor([1, 2, 3]), 2)
    tensor([ True,  True, False])
    """
    return _binary("le", a, b)


@method(in_place=True, is_comparison=True)
def eq(a: Operand, b: Operand) -> Tensor:
    """Return a bool tensor that is true where a == b. Shapes broadcast; ShapeError is raised if they do not.

    >>> import lazytensor as lt
    >>> lt.eq(lt.tensor([1, 2]), lt.tensor([1, 3]))
    tensor([ True, False])
    """
    return _binary("eq", a, b)


@method(names="ne not_equal", in_place=True, is_comparison=True)
def ne(a: Operand, b: Operand) -> Tensor:
    """Return a bool tensor that is true where a != b. Shapes broadcast; ShapeError is raised if they do not.

    >>> import lazytensor as lt
    >>> lt.ne(lt.tensor([1, 2]), lt.tensor([1, 3]))
    tensor([False,  True])
    """
    return _binary("ne", a, b)


@method(in_place=True)
def logical_and(a: Operand, b: Operand) -> Tensor:
    """Return a bool tensor that is true where both operands are nonzero. Shapes broadcast.

    >>> import lazytensor as lt
    >>> lt.logical_and(lt.tensor([True, True]), lt.tensor([True, False]))
    tensor([ True, False])
    """
    return _binary("logical_and", _cast_to_bool_on_csx(a), _cast_to_bool_on_csx(b))


@method(in_place=True)
def logical_or(a: Operand, b: Operand) -> Tensor:
    """Return a bool tensor that is true where at least one operand is nonzero. Shapes broadcast.

    >>> import lazytensor as lt
    >>> lt.logical_or(lt.tensor([False, True]), lt.tensor([False, False]))
    tensor([False,  True])
    """
    return _binary("logical_or", _cast_to_bool_on_csx(a), _cast_to_bool_on_csx(b))


@method(in_place=True)
def logical_xor(a: Operand, b: Operand) -> Tensor:
    """Return a bool tensor that is true where exactly one operand is nonzero. Shapes broadcast.

    In a step for the wafer it is recorded as a comparison of the two bools.

    >>> import lazytensor as lt
    >>> lt.logical_xor(lt.tensor([True, True]), lt.tensor([True, False]))
    tensor([False,  True])
    """
    return _binary("logical_xor" if half_type() is None else "ne", _cast_to_bool_on_csx(a), _cast_to_bool_on_csx(b))


def _cast_to_bool_on_csx(value: Operand) -> Operand:
    """Return a tensor operand as bool in a step for the wafer, as the vendor does; any other operand unchanged."""
    return value if half_type() is None or not isinstance(value, Tensor) else cast_to(value, dt.bool_)


def where(condition: Tensor, a: Operand, b: Operand) -> Tensor:
    """Return `a` where `condition` is true, else `b`. All three broadcast; the dtypes of `a` and `b` are promoted.

    `condition` is bool or uint8. Raises ShapeError for another dtype.
    """
    if condition.dtype is not dt.bool_ and condition.dtype is not dt.uint8:
        raise ShapeError(
            f"where expected condition to be a boolean tensor, but got {condition.spec}",
            where=source.where(),
            hint="Convert the condition first: condition.bool().",
        )
    # The condition affects the shape, but not the dtype.
    dtype, shape = result_type(a, b), common_shape(condition, a, b)
    chosen = call(
        "where", prepare_operand(condition, dt.bool_, shape), *(prepare_branch(v, dtype, shape) for v in (a, b))
    )
    return tensor_of(chosen, condition, a, b)


@method(names="where")
def where_method(x: Tensor, condition: Tensor, other: Operand) -> Tensor:
    """Return `x` where `condition` is true, else `other`.

    All three broadcast; the dtypes of `x` and `other` are promoted.
    """
    return where(condition, x, other)


@method(in_place=True)
def masked_fill(x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """Return `x` with `value` where `mask` is true. `x` and `mask` broadcast; the dtype is that of `x`.

    Raises ShapeError if `mask` is not bool, or if `value` is a tensor with dimensions.

    >>> import lazytensor as lt
    >>> lt.masked_fill(lt.arange(4), lt.arange(4) > 1, -1)
    tensor([ 0,  1, -1, -1])
    """
    if mask.dtype is not dt.bool_:
        raise ShapeError(
            f"masked_fill only supports boolean masks, but got {mask.spec}",
            where=source.where(),
            hint="Convert the mask first: mask.bool().",
        )
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(
            f"masked_fill only supports a 0-dimensional value, but got {value.spec}",
            where=source.where(),
            hint="Pass a number, or use torch.where for several values.",
        )
    shape = common_shape(x, mask)
    chosen = call(
        "where",
        prepare_operand(mask, dt.bool_, shape),
        prepare_stored(value, x.dtype, shape),
        prepare_operand(x, x.dtype, shape),
    )
    return tensor_of(chosen, x, mask)


@method(names="clamp clip", in_place=True)
def clamp(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Return `x` limited to the range from `min` to `max`.

    Bounds are numbers or tensors that broadcast; None is no bound. If `min` > `max`, the result is `max`. A
    floating-point bound promotes an integer `x`. Raises ShapeError if both bounds are None.

    >>> import lazytensor as lt
    >>> lt.clamp(lt.tensor([-2.0, 0.5, 2.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise ShapeError(
            "torch.clamp: At least one of 'min' or 'max' must not be None",
            where=source.where(),
            hint="Pass min, max or both.",
        )
    # Two numbers, the usual case: one node, with an infinity for a missing bound.
    if x.dtype.kind == "f" and not isinstance(min, Tensor) and not isinstance(max, Tensor):
        n = operand_node(x)
        low, high = -math.inf if min is None else min, math.inf if max is None else max
        return tensor_of(call("clamp", n, *(prepare_stored(v, x.dtype, n.type.shape) for v in (low, high))), x)
    dtype = result_type(x, *(v for v in (min, max) if v is not None))
    # Integers have no infinity for a missing bound.
    if dtype.kind != "f" and (min is None or max is None):
        bound = max if min is None else min
        if bound is not None and not isinstance(bound, Tensor):
            # Raises an error if the dtype cannot hold the bound; a comparison would wrap it.
            prepare_operand(bound, dtype, ())
        return minimum(x, max) if max is not None else maximum(x, min)  # type: ignore[arg-type]
    # Not `maximum`, which shares the gradient where x equals the bound.
    min, max = -math.inf if min is None else min, math.inf if max is None else max
    dtype, shape = result_type(x, min, max), common_shape(x, min, max)
    return tensor_of(call("clamp", *(prepare_operand(v, dtype, shape) for v in (x, min, max))), x)


def _make_unary(name: str, doc: str, example: str = "", *, to_float: bool = True) -> Callable[[Tensor], Tensor]:
    """Return a function of one tensor that records the operation `name` on each element.

    If `to_float` is true, it converts integers to the default floating-point dtype. `doc` and `example` become its
    docstring.
    """

    def function(x: Tensor) -> Tensor:
        n = operand_node(x)
        if to_float and n.type.dtype.kind != "f":
            n = cast(n, default_dtype())
        return tensor_of(call(name, n), x)

    note = " Integers and bools are converted to the default floating-point dtype." if to_float else ""
    return documented(function, name, f"{doc}\n\nThe result has the shape of `x`.{note}", example)


exp = method(
    _make_unary(
        "exp",
        "Return e to the power of each element of `x`.",
        ">>> lt.exp(lt.tensor([0.0, 1.0]))\ntensor([1.0000, 2.7183])",
    ),
    in_place=True,
)
expm1 = method(
    _make_unary(
        "expm1",
        "Return exp(x) - 1 for each element, accurate also near 0.",
        ">>> lt.expm1(lt.tensor([0.0, 1.0]))\ntensor([0.0000, 1.7183])",
    ),
    in_place=True,
)
log = method(
    _make_unary(
        "log",
        "Return the natural logarithm of each element of `x`: -inf for 0, and NaN for negative elements.",
        ">>> lt.log(lt.tensor([1.0, 10.0]))\ntensor([0.0000, 2.3026])",
    ),
    in_place=True,
)
log1p = method(
    _make_unary(
        "log1p",
        "Return log(1 + x) for each element, accurate also near 0: -inf for -1, and NaN below -1.",
        ">>> lt.log1p(lt.tensor([0.0, 9.0]))\ntensor([0.0000, 2.3026])",
    ),
    in_place=True,
)
log2 = method(
    _make_unary(
        "log2",
        "Return the logarithm to base 2 of each element of `x`: -inf for 0, and NaN for negative elements.",
        ">>> lt.log2(lt.tensor([1.0, 8.0]))\ntensor([0., 3.])",
    ),
    in_place=True,
)
sqrt = method(
    _make_unary(
        "sqrt",
        "Return the square root of each element of `x`: NaN for negative elements.",
        ">>> lt.sqrt(lt.tensor([4.0, 9.0]))\ntensor([2., 3.])",
    ),
    in_place=True,
)
rsqrt = method(
    _make_unary(
        "rsqrt",
        "Return 1 / sqrt(x) for each element: inf for 0, and NaN for negative elements.",
        ">>> lt.rsqrt(lt.tensor([1.0, 4.0]))\ntensor([1.0000, 0.5000])",
    ),
    in_place=True,
)
sin = method(
    _make_unary(
        "sin",
        "Return the sine of each element of `x`, an angle in radians.",
        ">>> lt.sin(lt.tensor([0.0, 1.0]))\ntensor([0.0000, 0.8415])",
    ),
    in_place=True,
)
cos = method(
    _make_unary(
        "cos",
        "Return the cosine of each element of `x`, an angle in radians.",
        ">>> lt.cos(lt.tensor([0.0, 1.0]))\ntensor([1.0000, 0.5403])",
    ),
    in_place=True,
)
tan = method(
    _make_unary(
        "tan",
        "Return the tangent of each element of `x`, an angle in radians.",
        ">>> lt.tan(lt.tensor([0.0, 1.0]))\ntensor([0.0000, 1.5574])",
    ),
    in_place=True,
)
tanh = method(
    _make_unary(
        "tanh",
        "Return the hyperbolic tangent of each element of `x`.",
        ">>> lt.tanh(lt.tensor([0.0, 1.0]))\ntensor([0.0000, 0.7616])",
    ),
    in_place=True,
)
sigmoid = method(
    _make_unary(
        "sigmoid",
        "Return the logistic function 1 / (1 + exp(-x)) of each element of `x`.",
        ">>> lt.sigmoid(lt.tensor([0.0, 2.0]))\ntensor([0.5000, 0.8808])",
    ),
    in_place=True,
)
erf = method(
    _make_unary(
        "erf",
        "Return the error function of each element: 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.",
        ">>> lt.erf(lt.tensor([0.0, 0.5]))\ntensor([0.0000, 0.5205])",
    ),
    in_place=True,
)
reciprocal = method(
    _make_unary(
        "reciprocal",
        "Return 1 / x for each element: inf for 0, and -inf for -0.0.",
        ">>> lt.reciprocal(lt.tensor([2.0, 4.0]))\ntensor([0.5000, 0.2500])",
    ),
    in_place=True,
)


def over(number: Operand, x: Tensor) -> Tensor:
    """Return number / x as PyTorch computes it: the reciprocal of `x` times `number`, which rounds twice."""
    return reciprocal(x) if is_number(number, 1) else reciprocal(x) * number


silu = _make_unary(
    "silu", "Return x * sigmoid(x) for each element. Raises TypeUnsupported for integers and bools.", to_float=False
)
abs = method(
    _make_unary(
        "abs",
        "Return the absolute value of each element of `x`, in its dtype. Raises TypeUnsupported for bools.",
        ">>> lt.abs(lt.tensor([-1.5, 2.0]))\ntensor([1.5000, 2.0000])",
        to_float=False,
    ),
    names="abs absolute",
    in_place=True,
)
abs = method(abs, names="__abs__")
_negative = _make_unary("neg", "Return -x for each element, in the dtype of `x`.", to_float=False)
_sign = _make_unary("sign", "Return -1, 0 or 1 by the sign of each element, in the dtype of `x`.", to_float=False)
relu = method(
    _make_unary(
        "relu",
        "Return max(x, 0) for each element, in the dtype of `x`. NaN stays NaN, and bools raise TypeUnsupported.",
        ">>> lt.relu(lt.tensor([-1.0, 2.0]))\ntensor([0., 2.])",
        to_float=False,
    ),
    in_place=True,
)
isnan = method(
    _make_unary(
        "isnan",
        "Return a bool tensor that is true where `x` is NaN.",
        '>>> lt.isnan(lt.tensor([1.0, float("inf"), float("nan")]))\ntensor([False, False,  True])',
        to_float=False,
    )
)
isfinite = method(
    _make_unary(
        "isfinite",
        "Return a bool tensor that is true where `x` is neither infinite nor NaN.",
        '>>> lt.isfinite(lt.tensor([1.0, float("inf"), float("nan")]))\ntensor([ True, False, False])',
        to_float=False,
    )
)
logical_not = method(
    _make_unary(
        "logical_not",
        "Return a bool tensor that is true where `x` is 0 or False.",
        ">>> lt.logical_not(lt.tensor([0, 3]))\ntensor([ True, False])",
        to_float=False,
    ),
    in_place=True,
)


def _make_rounding(name: str, doc: str, example: str = "") -> Callable[[Tensor], Tensor]:
    """Return a function that rounds each element by the operation `name`, and copies integer tensors."""
    float_only = _make_unary(name, doc, to_float=False)

    def function(x: Tensor) -> Tensor:
        return clone(x) if x.dtype.kind == "i" else float_only(x)

    note = "The result has the shape and dtype of `x`. Integers are copied. Raises TypeUnsupported for bools."
    return documented(function, name, f"{doc}\n\n{note}", example)


floor = method(
    _make_rounding(
        "floor",
        "Return the largest integer that is not above each element of `x`.",
        ">>> lt.floor(lt.tensor([-0.5, 1.2]))\ntensor([-1.,  1.])",
    ),
    in_place=True,
)
ceil = method(
    _make_rounding(
        "ceil",
        "Return the smallest integer that is not below each element of `x`.",
        ">>> lt.ceil(lt.tensor([-0.5, 1.2]))\ntensor([-0., 2.])",
    ),
    in_place=True,
)
_round = _make_rounding("round", "Return the integer nearest to each element of `x`, with ties to even.")
trunc = method(
    _make_rounding(
        "trunc",
        "Return each element of `x` without its fractional part, that is, rounded towards 0.",
        ">>> lt.trunc(lt.tensor([-1.7, 1.7]))\ntensor([-1.,  1.])",
    ),
    names="trunc fix",
    in_place=True,
)


@method(names="__neg__")
@method(names="neg negative", in_place=True)
def neg(x: Tensor) -> Tensor:
    """Return -x for each element, in the shape of `x`. Raises ShapeError for bools.

    >>> import lazytensor as lt
    >>> lt.neg(lt.tensor([1, -2]))
    tensor([-1,  2])
    """
    if x.dtype.kind == "b":
        _refuse_bool("Negation")
    return _negative(x)


@method
def isinf(x: Tensor) -> Tensor:
    """Return a bool tensor that is true where `x` is inf or -inf, in the shape of `x`.

    >>> import lazytensor as lt
    >>> lt.isinf(lt.tensor([1.0, float("inf"), float("nan")]))
    tensor([False,  True, False])
    """
    if x.dtype.kind != "f":
        return tensor_of(call("full", value=False, type=isnan(x).spec), x)
    return logical_or(x == math.inf, x == -math.inf)


@method(in_place=True)
def sign(x: Tensor) -> Tensor:
    """Return -1, 0 or 1 by the sign of each element, in the shape and dtype of `x`. Bools are returned unchanged.

    >>> import lazytensor as lt
    >>> lt.sign(lt.tensor([-3.0, 0.0, 2.0]))
    tensor([-1.,  0.,  1.])
    """
    return clone(x) if x.dtype.kind == "b" else _sign(x)


@method(in_place=True)
def round(x: Tensor, *, decimals: int | None = None) -> Tensor:
    """Return each element rounded to the nearest integer, or to `decimals` decimals, with ties to even.

    Negative `decimals` round to tens, hundreds and so on. Raises ShapeError if `decimals` is given for integers.

    >>> import lazytensor as lt
    >>> lt.round(lt.tensor([0.5, 1.5, 2.5]))
    tensor([0., 2., 2.])
    """
    if not decimals:
        return _round(x)
    if x.dtype.kind != "f":
        raise ShapeError(
            f"round does not support decimals for {x.dtype.name}",
            where=source.where(),
            hint="Convert the tensor first, for example with .float().",
        )
    # 10 to a positive power is exact (up to 1e22); a power of 0.1 would already be rounded.
    scale = 10.0 ** builtins.abs(decimals)
    return _round(x * scale) / scale if decimals > 0 else _round(x / scale) * scale


@method
def clone(x: Tensor, *, memory_format: Any = None) -> Tensor:
    """Return a copy of `x` with a separate storage. Gradients pass to `x`. `memory_format` is ignored.

    >>> import lazytensor as lt
    >>> lt.clone(lt.tensor([1, 2]))
    tensor([1, 2])
    """
    return tensor_of(clone_if_tracked(operand_node(x)), x)


def cast_to(x: Tensor, dtype: DType) -> Tensor:
    """Return `x` converted to `dtype`; `x` itself if it has that dtype. Conversion to integers truncates fractions."""
    return x if x.dtype is dtype else tensor_of(cast(operand_node(x), dtype), x)
