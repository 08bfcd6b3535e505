"""The API of `torch.amp` on a CPU: automatic casts to bfloat16 or float16, and the gradient scaler.

The rules of the casts match PyTorch's observed results: matrix products and convolutions run in the half type, losses
in float32, and other operations in the type of their operands. For "cuda" casts and scaler are disabled, with PyTorch's
warning.
"""

import copy
import functools
import warnings
from collections import defaultdict
from contextlib import ContextDecorator, ExitStack
from typing import Any

from lazytensor.core import autocast as precision
from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.errors import OperandInvalid, OptionInvalid, ShapeError
from lazytensor.functional import pointwise as pw

HALF_DTYPES = (dt.bfloat16, dt.float16)
"""The types to which operands can be cast on a CPU."""


class autocast(ContextDecorator):
    """A context manager and decorator in which operations cast their operands, as `torch.autocast`.

    Casts take place only for the device type "cpu", with the dtype bfloat16 (the default) or float16. For "cuda" and
    for other dtypes it issues a warning and is disabled. Raises RuntimeError for an unknown device type, and ValueError
    if it is not text.
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ):
        if not isinstance(device_type, str):
            raise OptionInvalid(
                f"Expected `device_type` of type `str`, got: `{type(device_type)}`",
                where=source.where(),
                hint='Pass device_type="cpu".',
            )
        if device_type not in ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "meta", "lazy"):
            raise ShapeError(
                f"User specified an unsupported autocast device_type '{device_type}'",
                where=source.where(),
                hint='Pass device_type="cpu".',
            )
        # Warn, because the script continues in float32.
        if device_type == "cuda" and enabled:
            warnings.warn(
                "User provided device_type of 'cuda', but CUDA is not available. Disabling", UserWarning, stacklevel=3
            )
        self.device, self.fast_dtype = device_type, dtype or (dt.bfloat16 if device_type == "cpu" else dt.float16)
        if device_type == "cpu" and enabled and self.fast_dtype not in HALF_DTYPES:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast only "
                "supports dtype of torch.bfloat16, torch.float16 currently.",
                UserWarning,
                stacklevel=3,
            )
            enabled = False
        self._enabled = enabled and device_type == "cpu"
        self._open = ExitStack()

    def _recreate_cm(self) -> "autocast":
        # A decorated function may be recursive, so each call needs a separate context.
        block = copy.copy(self)
        block._open = ExitStack()
        return block

    def __enter__(self) -> "autocast":
        # Casts for other devices do not affect the CPU.
        if self.device == "cpu":
            self._open.enter_context(precision.host_autocast(self.fast_dtype if self._enabled else None))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


class cpu_autocast(autocast):
    """The older name `torch.cpu.amp.autocast`."""

    def __init__(self, enabled: bool = True, dtype: DType = dt.bfloat16, cache_enabled: bool = True):
        super().__init__("cpu", dtype, enabled, cache_enabled)


class cuda_autocast(autocast):
    """The older name `torch.cuda.amp.autocast`, which is disabled."""

    def __init__(self, enabled: bool = True, dtype: DType = dt.float16, cache_enabled: bool = True):
        super().__init__("cuda", dtype, enabled, cache_enabled)


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return whether automatic casts are enabled for a device type."""
    return device_type == "cpu" and precision.host_half_type() is not None


def is_autocast_cpu_enabled() -> bool:
    """Return whether automatic casts are enabled for the CPU."""
    return is_autocast_enabled("cpu")


def is_autocast_available(device_type: str) -> bool:
    """Return whether PyTorch supports automatic casts for a device type."""
    return device_type in ("cpu", "cuda", "mps", "xpu", "hpu", "mtia")


def get_autocast_dtype(device_type: str) -> DType:
    """Return the dtype of automatic casts for a device type.

    For "cpu" it is that of the enclosing `autocast` block, or bfloat16 outside of one. For other types it is float16.
    """
    if device_type != "cpu":
        return dt.float16
    return precision.host_half_type() or dt.bfloat16


def get_autocast_cpu_dtype() -> DType:
    """Return the dtype of automatic casts for the CPU."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """Return float16, the dtype of automatic casts for a GPU."""
    return dt.float16


def is_autocast_cache_enabled() -> bool:
    """Return True, as in PyTorch. Casting a tensor twice gives the same node."""
    return True


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: DType | None = None) -> Any:
    """Decorate the `forward` of a custom autograd function. Without `fwd`, return a decorator with these options.

    With `device_type="cpu"` and `cast_inputs`, and while casts are enabled at the call, positional floating-point
    tensors are cast to that dtype and the function runs without automatic casts. Otherwise nothing changes.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    if device_type != "cpu" or cast_inputs is None:
        return fwd

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        if precision.host_half_type() is None:
            return fwd(*args, **kwargs)
        with autocast("cpu", enabled=False):
            cast = [pw.cast_to(a, cast_inputs) if isinstance(a, Tensor) and a.dtype.kind == "f" else a for a in args]
            return fwd(*cast, **kwargs)

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """Return the function unchanged, or a decorator that does so if it is called without a function."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd


class GradScaler:
    """A gradient scaler as `torch.amp.GradScaler`.

    It multiplies losses by the scale, divides gradients by it, and skips a step if a gradient is not finite. For
    "cuda", the default, it is disabled with PyTorch's warning. The parameters are those of PyTorch.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ):
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda":
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                UserWarning,
                stacklevel=2,
            )
            self._enabled = False
        assert not self._enabled or growth_factor > 1.0, "The growth factor must be > 1.0."
        assert not self._enabled or backoff_factor < 1.0, "The backoff factor must be < 1.0."
        self._scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        # The checks of each optimizer since the last update: "finite" (whether all gradients are) and "stepped".
        self._seen: dict[int, dict[str, bool]] = defaultdict(dict)

    def scale(self, outputs: Any) -> Any:
        """Return a tensor multiplied by the scale, or a list or tuple with each tensor multiplied.

        If disabled, return `outputs` itself. Raises ValueError for other objects.
        """
        # If disabled, do not multiply by 1, because the loss may have any type.
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, list | tuple):
            return type(outputs)([self.scale(o) for o in outputs])
        raise OptionInvalid(
            "outputs must be a Tensor or an iterable of Tensors",
            where=source.where(),
            hint="Pass a tensor, or a list of tensors.",
        )

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of `optimizer` by the scale in place, and record whether all are finite.

        If disabled, do nothing. Raises RuntimeError at a second call before `update` or after `step`, and ValueError
        for float16 gradients.
        """
        if not self._enabled:
            return
        seen = self._seen[id(optimizer)]
        if "finite" in seen:
            raise ShapeError(
                "unscale_() has already been called on this optimizer since the last update().",
                where=source.where(),
                hint="Call unscale_() once for each update().",
            )
        if "stepped" in seen:
            raise ShapeError(
                "unscale_() is being called after step().", where=source.where(), hint="Call unscale_() before step()."
            )
        if any(p.grad is not None and p.grad.dtype is dt.float16 for g in optimizer.param_groups for p in g["params"]):
            raise OptionInvalid(
                "Attempting to unscale FP16 gradients.",
                where=source.where(),
                hint="Keep the parameters in float32, and use autocast.",
            )
        seen["finite"] = True
        with grad_mode(False):
            for p in (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None):
                p.grad.mul_(1.0 / self._scale)
                seen["finite"] = seen["finite"] and bool(pw.isfinite(p.grad).all().item())

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients if needed, and run `optimizer.step` if they are finite. Return its result, else None.

        If disabled, only run `optimizer.step`. Raises RuntimeError at a second call before `update`, and if a closure
        is given by keyword.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise ShapeError(
                "Closure use is not currently supported if GradScaler is enabled.",
                where=source.where(),
                hint="Call step() without a closure.",
            )
        seen = self._seen[id(optimizer)]
        if "stepped" in seen:
            raise ShapeError(
                "step() has already been called since the last update().",
                where=source.where(),
                hint="Call update() after each step().",
            )
        if "finite" not in seen:
            self.unscale_(optimizer)
        seen["stepped"] = True
        return optimizer.step(*args, **kwargs) if seen["finite"] else None

    def update(self, new_scale: Any = None) -> None:
        """Adapt the scale to the checks since the last update, and forget these checks.

        Multiply it by `backoff_factor` after an overflow with any optimizer, or by `growth_factor` after
        `growth_interval` finite updates in a row. `new_scale` sets the scale instead. If disabled, do nothing. Raises
        AssertionError if no gradients were checked since the last update and `new_scale` is None.
        """
        if not self._enabled:
            return
        # All optimizers share the scale, so one overflow suffices.
        verdicts = [seen["finite"] for seen in self._seen.values() if "finite" in seen]
        if new_scale is not None:
            self._scale = float(new_scale.item() if isinstance(new_scale, Tensor) else new_scale)
        elif not verdicts:
            raise OperandInvalid(
                "No inf checks were recorded prior to update.",
                where=source.where(),
                hint="Call step() or unscale_() before update().",
            )
        elif not all(verdicts):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale, self._growth_tracker = self._scale * self._growth_factor, 0
        self._seen.clear()

    def get_scale(self) -> float:
        """Return the scale, or 1.0 if the scaler is disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Return the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor by which the scale is reduced after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale is reduced after an overflow."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of finite steps after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of finite steps after which the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Return whether the scaler is enabled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the scale, the settings and the count of finite steps, or an empty dict if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state returned by `state_dict`. If disabled, do nothing.

        Raises RuntimeError for an empty state, and KeyError for a missing entry.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise ShapeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.",
                where=source.where(),
                hint="Load the state of an enabled GradScaler.",
            )
        self._scale, self._growth_factor = state_dict["scale"], state_dict["growth_factor"]
        self._backoff_factor, self._growth_interval = state_dict["backoff_factor"], state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]


class CudaGradScaler(GradScaler):
    """The older name `torch.cuda.amp.GradScaler`, which is disabled."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("cuda", *args, **kwargs)


class CpuGradScaler(GradScaler):
    """The older name `torch.cpu.amp.GradScaler`."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("cpu", *args, **kwargs)
