"""Helpers of `torch.optim.optimizer` that other packages' optimizers import, with the behaviour of a CPU build."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from lazytensor.autograd.grad_modes import set_grad_enabled
from lazytensor.core.dtype import DType, float32, float64
from lazytensor.core.tensor import Tensor
from lazytensor.functional.type_promotion import default_dtype

ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
_params_t = ParamsT
_capturable_doc = _differentiable_doc = _foreach_doc = _fused_doc = _maximize_doc = _params_doc = ""
"""Texts about common arguments, for docstrings."""


class _RequiredParameter:
    """A marker for an option without a default value."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method `step` wrapped to record gradients only if the option `differentiable` is set."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(bool(self.defaults.get("differentiable", False))):
            return func(self, *args, **kwargs)

    return step


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Any], Any]:
    """Return a decorator that returns its function unchanged."""
    return lambda func: func


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Return whether to use fused and foreach kernels: (`use_fused`, False), as for parameters on the CPU."""
    return use_fused and not differentiable, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the device types whose steps PyTorch can capture. None of them is available here."""
    return ["cuda", "xpu", "hpu", "privateuseone", *["xla"] * supports_xla]


def _get_scalar_dtype(is_fused: bool | None = None) -> DType:
    """Return the dtype of a step counter: float32, or float64 if that is the default dtype and `is_fused` is false."""
    return float64 if default_dtype() is float64 and not is_fused else float32


def _get_value(x: Any) -> Any:
    """Return the number in a tensor with one element, or another value unchanged."""
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x: Any) -> Any:
    """Return a tensor with one element as a 0-d tensor, or another value unchanged."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _stack_if_compiling(x: Any) -> Any:
    """Return a list of tensors unchanged."""
    return x


def _view_as_real(params: Any, *state_and_grads: Any) -> None:
    """Do nothing. There are no complex parameters to replace by real ones."""
