"""Process-wide settings of `torch`. The getters return what was set; most settings have no effect."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from cstorch_compat.run.process import RunLocal
from lazytensor.core import source, storage
from lazytensor.core.device import CPU, Device, default_device, set_thread_default_device
from lazytensor.core.tensor import wrap
from lazytensor.errors import AutogradError, OptionInvalid, ShapeError
from lazytensor.ir.buffer_slices import materialize_slice
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import gradient_name
from lazytensor.ops.formula import inspect_gradients
from lazytensor.runtime import thread_pool

_settings: RunLocal[dict[str, Any]] = RunLocal(dict)
"""The settings of the run by name."""
MATMUL_PRECISIONS = ("highest", "high", "medium")
DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}
"""The numbers of the modes for non-deterministic operations."""


def get_num_threads() -> int:
    """Return the number of threads that share the work of a kernel."""
    return thread_pool.team().threads


def set_num_threads(num: int) -> None:
    """Set the number of threads for code that is compiled from now on. Raises RuntimeError if it is below 1."""
    if num <= 0:
        raise ShapeError(
            f"set_num_threads expects a positive integer, but got {num}",
            where=source.where(),
            hint="Pass a positive integer.",
        )
    thread_pool.limit(int(num))


def get_num_interop_threads() -> int:
    """Return the number that was set, or else the number of CPUs."""
    return int(_settings.value.get("interop", os.cpu_count() or 1))


def set_num_interop_threads(num: int) -> None:
    """Store a number. It has no effect, because operations run one after another.

    Raises RuntimeError if it is below 1.
    """
    if num <= 0:
        raise ShapeError(
            f"Expected positive number of threads, but got {num}", where=source.where(), hint="Pass a positive integer."
        )
    _settings.value["interop"] = int(num)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Store the setting. It has no effect, because all operations are deterministic."""
    _settings.value["deterministic"] = DEBUG_MODES["warn" if warn_only else "error"] if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Return whether deterministic algorithms were requested."""
    return bool(get_deterministic_debug_mode())


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether deterministic algorithms were requested with warnings instead of errors."""
    return get_deterministic_debug_mode() == DEBUG_MODES["warn"]


def get_deterministic_debug_mode() -> int:
    """Return 0 (off), 1 (warnings) or 2 (errors)."""
    return int(_settings.value.get("deterministic", 0))


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Store the mode, a number or "default", "warn" or "error". Raises RuntimeError for other values."""
    number = DEBUG_MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if number not in DEBUG_MODES.values():
        raise ShapeError(
            f"invalid value of debug_mode, expected one of {list(DEBUG_MODES)}, got {debug_mode}",
            where=source.where(),
            hint="Pass one of these values.",
        )
    _settings.value["deterministic"] = number


def get_float32_matmul_precision() -> str:
    """Return the precision that was set; "highest" by default."""
    return str(_settings.value.get("matmul", MATMUL_PRECISIONS[0]))


def set_float32_matmul_precision(precision: str) -> None:
    """Store "highest", "high" or "medium". It has no effect on a CPU. Raises RuntimeError for other values."""
    if precision not in MATMUL_PRECISIONS:
        raise ShapeError(
            f"{precision} is not one of 'highest', 'high', or 'medium'.",
            where=source.where(),
            hint="Pass one of these values.",
        )
    _settings.value["matmul"] = precision


def set_flush_denormal(mode: bool) -> bool:
    """Return False: denormal numbers are kept, as on a processor without this mode."""
    return False


def set_warn_always(b: bool) -> None:
    """Store the setting. It has no effect."""
    _settings.value["warn"] = bool(b)


def is_warn_always_enabled() -> bool:
    """Return the value that was set; False by default."""
    return bool(_settings.value.get("warn", False))


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Enable or disable anomaly detection for the backward pass.

    If it is enabled with `check_nan`, each gradient is computed at once, and a NaN raises AutogradError.
    """
    _settings.value["anomaly"], _settings.value["check_nan"] = bool(mode), bool(check_nan)
    inspect_gradients(_refuse_nan if mode and check_nan else None)


def _refuse_nan(n: Node, at: int, gradient: Any) -> None:
    """Raise AutogradError, with the line of the forward operation, if `gradient` has a NaN outside of a traced step."""
    if storage.thread_state.current is None and bool(
        np.isnan(wrap(materialize_slice(gradient)).array("detect_anomaly")).any()
    ):
        text = f"Function '{gradient_name(n)}' returned nan values in its {at}th output."
        raise AutogradError(
            text,
            where=n.where or source.where(),
            hint="Remove the NaN from the inputs, or from the formula of this function.",
        )


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is enabled."""
    return bool(_settings.value.get("anomaly", False))


class _AnomalySetting:
    """A context manager that sets anomaly detection when it is created, and restores it at the end of the block."""

    def __init__(self, mode: bool = True, check_nan: bool = True):
        self._before = is_anomaly_enabled(), _settings.value.get("check_nan", True)
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        """Do nothing. The constructor has applied the setting."""

    def __exit__(self, *_: object) -> None:
        set_anomaly_enabled(*self._before)


class set_detect_anomaly(_AnomalySetting):
    """Set anomaly detection at once, and restore the previous setting at the end of a block, if used in one."""


class detect_anomaly(_AnomalySetting):
    """Enable anomaly detection in a block."""


def set_default_device(device: Any) -> None:
    """Set the device of new tensors to "cpu" or "meta"; None means the CPU. Raises OptionInvalid for others.

    A block `with torch.device(...)` takes precedence.
    """
    target = CPU if device is None else device if isinstance(device, Device) else Device(device)
    if target.type not in ("cpu", "meta"):
        raise OptionInvalid(f"device {target} is not available", hint='Use "cpu", or "meta" for shapes without values.')
    set_thread_default_device(CPU if target.type == "cpu" else target)


def get_default_device() -> Device:
    """Return the device of new tensors for which no device is given."""
    return default_device()


class no_op_context:
    """A context manager without effect, and a decorator that returns the function unchanged."""

    def __init__(self, *args: Any, **kwargs: Any):
        """Accept and ignore all arguments."""

    def __enter__(self) -> "no_op_context":
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function` unchanged."""
        return function


def do_nothing(*args: Any, **kwargs: Any) -> None:
    """Accept a setting that has no effect."""
