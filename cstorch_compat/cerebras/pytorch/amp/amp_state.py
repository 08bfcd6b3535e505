"""The half type, casts, and steps with clipping: `cerebras.pytorch.amp`."""

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


def init(enabled: bool = True, enable_caching: bool = True, verbose: bool = False, allow_banned: bool = False) -> None:
    """Note that a script prepares casts itself; they are made by the backend all the same."""
    skipped_steps.is_prepared.value = enabled


def set_half_dtype(value: "str | DType") -> DType:
    """Choose "float16", "bfloat16" or "cbfloat16" for matrix products on CSX. Raises ValueError for others."""
    name = value.name if isinstance(value, DType) else str(value)
    if name not in _HALF_TYPES:
        names = ", ".join(f'"{name}"' for name in _HALF_TYPES)
        raise ValueError(f"Invalid half dtype: {value}. Accepted values are: {names}, torch.float16, torch.bfloat16.")
    process.RUN.options.half = _HALF_TYPES[name]
    return get_half_dtype()


def get_half_dtype() -> DType:
    """The half type; PyTorch has no cbfloat16, so that one is reported as float16.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.amp.get_half_dtype()
    torch.float16
    """
    half = process.RUN.options.half
    return float16 if half is cbfloat16 else half


def get_half_dtype_str() -> str:
    """The name of the half type.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.amp.get_half_dtype_str()
    'float16'
    """
    return process.RUN.options.half.name


def is_cbfloat16_tensor(tensor: Tensor) -> bool:
    """Whether a tensor stands for cbfloat16: float16, if that is the half type that was chosen.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.amp.is_cbfloat16_tensor(torch.ones(2))
    False
    """
    return tensor.dtype is cbfloat16 or (process.RUN.options.half is cbfloat16 and tensor.dtype is float16)


def enable_mixed_precision(enable: bool = True) -> bool:
    """Say whether mixed precision is wanted. CSX makes its casts either way, as the original's front end does."""
    _mixed_setting.value = bool(enable)
    return mixed_precision()


def mixed_precision() -> bool:
    """What was said last; if nothing was, whether the run is on CSX."""
    return process.use_cs() if _mixed_setting.value is None else _mixed_setting.value


def get_floating_point_dtype(default: DType = float32) -> DType:
    """The type of activations: the half type if precision is mixed.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.amp.get_floating_point_dtype()
    torch.float32
    """
    return get_half_dtype() if mixed_precision() else default


def get_floating_point_dtype_str(default: str = "float32") -> str:
    """The name of the type of activations."""
    return get_half_dtype_str() if mixed_precision() else default


def autocast(dtype: DType | None = None) -> contextlib.AbstractContextManager[None]:
    """Make casts in a block: the wafer's on CSX, on a CPU PyTorch's.

    The CPU backend knows bfloat16 only: ValueError for others.
    """
    half = process.RUN.options.half if dtype is None else dtype
    if not process.use_cs() and half is not bfloat16:
        raise ValueError(
            "Mixed precision on CPU is only supported with bfloat16. Please call "
            "cstorch.amp.set_half_dtype(torch.bfloat16) or pass the dtype to "
            "cstorch.amp.autocast(dtype=torch.bfloat16)"
        )
    return precision.autocast(half) if process.use_cs() else precision.host_autocast(half)


@contextlib.contextmanager
def disable_casts() -> Iterator[None]:
    """Make no casts in a block."""
    with precision.autocast(None):
        yield


def optimizer_step(
    loss: Tensor,
    optimizer: Any,
    grad_scaler: GradScaler,
    max_gradient_norm: float | None = None,
    max_gradient_value: float | None = None,
) -> None:
    """One step: gradients from zero, backward through the scaled loss, unscale, clip, update.

    Raises ValueError if `loss` is no tensor or both limits are given, TypeError without a scaler. None is no limit.
    """
    if not isinstance(grad_scaler, GradScaler):
        raise TypeError(f"Expected grad_scaler to be a `cstorch.amp.GradScaler`. Got: `{type(grad_scaler)}`")
    if not isinstance(loss, Tensor):
        raise ValueError(f"Expected the wrapped function to return a single loss tensor. Got: {type(loss)}")
    if max_gradient_norm and max_gradient_value:
        raise ValueError("Gradients can be clipped by norm or by value, but not both: give one limit")
    if max_gradient_norm is not None and max_gradient_norm < 0:
        raise ValueError(f"max_gradient_norm has to be positive. Got {max_gradient_norm}")
    # All groups count as one vector: the limit is on the norm of everything.
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    optimizer.zero_grad()
    grad_scaler.scale(loss).backward()
    # Before clipping, whose limits are meant for the gradients and not for scaled ones.
    grad_scaler.unscale_(optimizer)
    if max_gradient_norm is not None:
        clip_grad_norm_(parameters, max_gradient_norm)
    elif max_gradient_value is not None:
        clip_grad_value_(parameters, max_gradient_value)
    grad_scaler.step(optimizer)
    grad_scaler.update()
    optimizer.zero_grad()
