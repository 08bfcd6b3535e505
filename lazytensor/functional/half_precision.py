"""Arithmetic of half types on the host: compute in float32 and round the result once, as PyTorch's CPU kernels do.

A number as second operand is not rounded: `x.bfloat16() * 0.1` multiplies by 0.1 in float32. The wafer rounds every
operand and every result, so these functions do not apply to tensors on the wafer or to steps for it.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar
from typing import cast as typed

from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import DType, float32
from lazytensor.core.tensor import CPU, Tensor, operand_node, wrap
from lazytensor.functional.type_promotion import Operand, common_shape, prepare_operand, result_type
from lazytensor.ops import call, full
from lazytensor.ops.elementwise import cast
from lazytensor.ops.shape import broadcast_to

F = TypeVar("F", bound=Callable[..., Tensor])


UNROUNDED_NUMBER_OPS = frozenset(("mul", "div", "floor_divide"))
"""Operations that use a number unrounded. Sums and comparisons round it to the half type first."""


def host_half_dtype(x: Any) -> DType | None:
    """Return the dtype of `x` if it is a half tensor on the CPU and automatic casts are off, else None."""
    if x.__class__ is float or not isinstance(x, Tensor):
        return None
    dtype = x.dtype
    # Most tensors return here: half types are the only two-byte floating-point types.
    if dtype.itemsize != 2 or dtype.kind != "f" or half_type() is not None or x.device is not CPU:
        return None
    return dtype


def apply_to_number(name: str, a: Operand, b: Operand) -> Tensor | None:
    """Return the operation `name` of a half tensor and an unrounded number, or None if the rule does not apply.

    The number is a Python number or a 0-d tensor of another dtype. It is `b`; for "mul" a Python number may also be
    `a`. The operation is computed in float32 and rounded once. None is returned for other operands and for operations
    outside UNROUNDED_NUMBER_OPS.
    """
    if name not in UNROUNDED_NUMBER_OPS:
        return None
    if name == "mul" and not isinstance(a, Tensor):
        a, b = b, a
    half = host_half_dtype(a)
    if half is None or not isinstance(a, Tensor) or not _is_unrounded_number(b, half) or result_type(a, b) is not half:
        return None
    x = cast(operand_node(a), float32)
    number = (
        broadcast_to(cast(operand_node(b), float32), x.type.shape) if isinstance(b, Tensor) else full(float(b), x.type)
    )
    return wrap(cast(call(name, x, number), half))


def _is_unrounded_number(value: Operand, half: DType) -> bool:
    """Return whether PyTorch does not round `value` to `half`: a number, or a 0-d tensor of another dtype."""
    return not isinstance(value, Tensor) or (not value.ndim and value.dtype is not half and value.device is CPU)


def half_power(a: Operand, exponent: Operand) -> Tensor | None:
    """Return `a` ** `exponent`, rounded once, for one half tensor on the CPU and one Python number; None otherwise.

    A number as `a` has to be positive.
    """
    half = host_half_dtype(exponent)
    if half is not None and not isinstance(a, Tensor) and a > 0 and result_type(a, exponent) is half:
        return wrap(call("power_of_number", operand_node(typed(Tensor, exponent)), base=float(a), half=half))
    half = host_half_dtype(a)
    if half is None or isinstance(exponent, Tensor) or result_type(a, exponent) is not half:
        return None
    return wrap(call("pow_number", operand_node(typed(Tensor, a)), exponent=float(exponent), half=half))


def uses_host_kernels(*values: Any) -> bool:
    """Return whether all tensors among `values` are on the CPU and automatic casts are off.

    An operation on them then follows PyTorch's CPU kernels.
    """
    return half_type() is None and all(v.device is CPU for v in values if isinstance(v, Tensor))


def scaled_sum(name: str, a: Operand, b: Operand, alpha: Operand) -> Tensor | None:
    """Return `a` + `alpha` * `b` ("add") or `a` - `alpha` * `b` ("sub"), rounded once; None unless the result is half.

    As in PyTorch, `alpha` and a number operand are rounded to the half type first.
    """
    half = host_half_dtype(a) or host_half_dtype(b)
    if half is None or result_type(a, b) is not half:
        return None
    shape = common_shape(a, b)
    first, second = (prepare_operand(v, half, shape) for v in (a, b))
    return wrap(call("scaled_sum", first, second, alpha=float(alpha) if name == "add" else -float(alpha), half=half))


def scaled_term(name: str, x: Tensor, a: Operand, b: Operand, value: Operand) -> Tensor | None:
    """Return x + value * a * b, or x + value * a / b, of three half tensors on the CPU, rounded once; None otherwise.

    `name` is the operation "add_scaled_product" or "add_scaled_quotient". None is also returned if `value` is a tensor.
    """
    half = host_half_dtype(x)
    terms = [v for v in (x, a, b) if isinstance(v, Tensor) and v.dtype is half]
    if half is None or len(terms) < 3 or isinstance(value, Tensor):
        return None
    shape = common_shape(*terms)
    return wrap(call(name, *(prepare_operand(v, half, shape) for v in terms), value=float(value), half=half))


def round_once(function: F) -> F:
    """Return `function` wrapped to compute half tensors on the CPU in float32 and to round the result once.

    The first argument selects the half type; other tensors of that dtype are converted too. A call that also has a
    tensor with dimensions of another floating-point dtype is not changed.
    """

    @functools.wraps(function)
    def converting(x: Any, *args: Any, **kwargs: Any) -> Any:
        half = host_half_dtype(x)
        if half is None or any(_is_other_float(v, half) for v in (*args, *kwargs.values())):
            return function(x, *args, **kwargs)

        def wide(value: Any) -> Any:
            is_half = isinstance(value, Tensor) and value.dtype is half
            return wrap(cast(operand_node(value), float32)) if is_half else value

        out = function(wide(x), *map(wide, args), **{k: wide(v) for k, v in kwargs.items()})
        return wrap(cast(operand_node(out), half)) if out.dtype is float32 else out

    return typed(F, converting)


def _is_other_float(value: Any, half: DType) -> bool:
    """Return whether `value` is a floating-point tensor with dimensions and another dtype than `half`."""
    return isinstance(value, Tensor) and value.dtype is not half and value.dtype.kind == "f" and value.ndim > 0
