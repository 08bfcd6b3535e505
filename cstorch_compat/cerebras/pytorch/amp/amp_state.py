"""Mixed-precision settings of a run, the `autocast` context, and an optimizer step with loss scaling and clipping."""

import contextlib
from collections.abc import Iterator
from typing import Any

from cstorch_compat.cerebras.pytorch.amp import skipped_steps
from cstorch_compat.cerebras.pytorch.amp.grad_scaler import GradScaler
from cstorch_compat.run import process
from lazytensor.core import autocast as precision
from lazytensor.core.dtype import DType, bfloat16, cbfloat16, float16, float32
from lazytensor.core.tensor import Tensor
from lazytensor.nn.utils import clip_grad_norm_, clip_grad_value_

_HALF_TYPES = {"float16": float16, "bfloat16": bfloat16, "cbfloat16": cbfloat16}
_mixed_setting = process.RunLocal[bool | None](lambda: None)
"""The value last given to `enable_mixed_precision`, or None if it was not called in this run."""


def init(enabled: bool = True, enable_caching: bool = True, verbose: bool = False, allow_banned: bool = False) -> None:
    """Record whether the script initializes mixed precision, for error checks of `skipped_steps`.

    Operands on CSX are cast to the half type with or without this call. The other parameters have no effect.
    """
    skipped_steps.is_prepared.value = enabled


def set_half_dtype(value: "str | DType") -> DType:
    """Set the half type of matrix products on CSX: "float16", "bfloat16", "cbfloat16", or such a dtype.

    Returns the result of `get_half_dtype`. Raises ValueError for other types.
    """
    name = value.name if isinstance(value, DType) else str(value)
    if name not in _HALF_TYPES:
        names = ", ".join(f'"{name}"' for name in _HALF_TYPES)
        raise ValueError(
            f"Invalid half dtype: {value}. Accepted values are: {names}, torch.float16, torch.bfloat16."
            "\n  Pass one of these values."
        )
    process.RUN.options.half = _HALF_TYPES[name]
    return get_half_dtype()


def get_half_dtype() -> DType:
    """Return the half type of the run. Returns float16 for cbfloat16, because PyTorch has no such dtype.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.amp.get_half_dtype()
    torch.float16
    """
    half = process.RUN.options.half
    return float16 if half is cbfloat16 else half


def get_half_dtype_str() -> str:
    """Return the name of the half type of the run: "float16", "bfloat16" or "cbfloat16".

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.amp.get_half_dtype_str()
    'float16'
    """
    return process.RUN.options.half.name


def is_cbfloat16_tensor(tensor: Tensor) -> bool:
    """Return whether `tensor` holds cbfloat16 values.

    This is the case if its dtype is cbfloat16, or if its dtype is float16 and the half type of the run is cbfloat16.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.amp.is_cbfloat16_tensor(torch.ones(2))
    False
    """
    return tensor.dtype is cbfloat16 or (process.RUN.options.half is cbfloat16 and tensor.dtype is float16)


def enable_mixed_precision(enable: bool = True) -> bool:
    """Set the value that `mixed_precision` returns, and return it.

    It changes only what `mixed_precision` and `get_floating_point_dtype` return. CSX casts operands in either case, as
    the original front end does.
    """
    _mixed_setting.value = bool(enable)
    return mixed_precision()


def mixed_precision() -> bool:
    """Return the value set by `enable_mixed_precision`. If it was never set, return whether the backend is CSX."""
    return process.use_cs() if _mixed_setting.value is None else _mixed_setting.value


def get_floating_point_dtype(default: DType = float32) -> DType:
    """Return the dtype of activations: the half type if `mixed_precision()` is True, else `default`.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.amp.get_floating_point_dtype()
    torch.float32
    """
    return get_half_dtype() if mixed_precision() else default


def get_floating_point_dtype_str(default: str = "float32") -> str:
    """Return the name of the dtype of activations.

    This is the name of the half type if `mixed_precision()` is True, else `default`.
    """
    return get_half_dtype_str() if mixed_precision() else default


def autocast(dtype: DType | None = None) -> contextlib.AbstractContextManager[None]:
    """Return a context manager in which operations cast their operands automatically to `dtype`.

    The default is the half type of the run. On CSX the casts follow the wafer's rules, on the CPU those of
    `torch.autocast`. The CPU backend supports only bfloat16 and raises ValueError for other types.
    """
    half = process.RUN.options.half if dtype is None else dtype
    if not process.use_cs() and half is not bfloat16:
        raise ValueError(
            "Mixed precision on CPU is only supported with bfloat16. Please call "
            "cstorch.amp.set_half_dtype(torch.bfloat16) or pass the dtype to "
            "cstorch.amp.autocast(dtype=torch.bfloat16)"
            "\n  Call cstorch.amp.set_half_dtype(torch.bfloat16) before."
        )
    return precision.autocast(half) if process.use_cs() else precision.host_autocast(half)


@contextlib.contextmanager
def disable_casts() -> Iterator[None]:
    """Return a context manager in which operations do not cast their operands."""
    with precision.autocast(None):
        yield


def optimizer_step(
    loss: Tensor,
    optimizer: Any,
    grad_scaler: GradScaler,
    max_gradient_norm: float | None = None,
    max_gradient_value: float | None = None,
) -> None:
    """Run one optimizer step: zero the gradients, run backward on the scaled loss, unscale, clip, update.

    The gradients are zeroed again at the end.

    - `loss`: the loss tensor; anything else raises ValueError.
    - `grad_scaler`: a `cstorch.amp.GradScaler`; anything else raises TypeError.
    - `max_gradient_norm`: the maximum of the global norm over all parameter groups, or None for no limit. A negative
      norm raises ValueError.
    - `max_gradient_value`: the maximum absolute value of an element, or None for no limit. Both limits together raise
      ValueError.
    """
    if not isinstance(grad_scaler, GradScaler):
        raise TypeError(
            f"Expected grad_scaler to be a `cstorch.amp.GradScaler`. Got: `{type(grad_scaler)}`"
            "\n  Pass a cstorch.amp.GradScaler."
        )
    if not isinstance(loss, Tensor):
        raise ValueError(
            f"Expected the wrapped function to return a single loss tensor. Got: {type(loss)}"
            "\n  Return the loss tensor from the function."
        )
    if max_gradient_norm and max_gradient_value:
        raise ValueError(
            "Gradients can be clipped by norm or by value, but not both: give one limit\n  Omit one of the two limits."
        )
    if max_gradient_norm is not None and max_gradient_norm < 0:
        raise ValueError(f"max_gradient_norm has to be positive. Got {max_gradient_norm}\n  Pass a positive number.")
    # The norm is that of all parameter groups together.
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    optimizer.zero_grad()
    grad_scaler.scale(loss).backward()
    # The limits apply to unscaled gradients.
    grad_scaler.unscale_(optimizer)
    if max_gradient_norm is not None:
        clip_grad_norm_(parameters, max_gradient_norm)
    elif max_gradient_value is not None:
        clip_grad_value_(parameters, max_gradient_value)
    grad_scaler.step(optimizer)
    grad_scaler.update()
    optimizer.zero_grad()
