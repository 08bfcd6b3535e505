"""Settings of the whole process that scripts make: what they set is what is answered, and most change nothing here."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from cstorch_compat.run.process import RunLocal
from lazytensor.autograd.saved_tensors import grad_fn_name
from lazytensor.core import source, storage
from lazytensor.core.device import CPU, Device, default_device, set_thread_default_device
from lazytensor.core.tensor import wrap
from lazytensor.errors import AutogradError, OptionInvalid
from lazytensor.ir.graph import Node
from lazytensor.ops.buffer_slices import materialize_slice
from lazytensor.ops.formula import inspect_gradients
from lazytensor.runtime import thread_pool

_settings: RunLocal[dict[str, Any]] = RunLocal(dict)
MATMUL_PRECISIONS = ("highest", "high", "medium")
DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}


def get_num_threads() -> int:
    """How many threads share the parts of a kernel."""
    return thread_pool.team().threads


def set_num_threads(num: int) -> None:
    """Let so many threads share what is compiled from now on. Raises RuntimeError below 1."""
    if num <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    thread_pool.limit(int(num))


def get_num_interop_threads() -> int:
    """The number that was set, or that of the CPUs."""
    return int(_settings.value.get("interop", os.cpu_count() or 1))


def set_num_interop_threads(num: int) -> None:
    """Keep a number, which changes nothing: operations run one after the other."""
    if num <= 0:
        raise RuntimeError("Expected positive number of threads")
    _settings.value["interop"] = int(num)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Keep the setting: everything here is deterministic."""
    _settings.value["deterministic"] = DEBUG_MODES["warn" if warn_only else "error"] if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Whether that was asked for."""
    return bool(get_deterministic_debug_mode())


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it was asked for with warnings in the place of errors."""
    return get_deterministic_debug_mode() == DEBUG_MODES["warn"]


def get_deterministic_debug_mode() -> int:
    """0, 1 for warnings, 2 for errors."""
    return int(_settings.value.get("deterministic", 0))


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """As `use_deterministic_algorithms`, by a number or by its word."""
    number = DEBUG_MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if number not in DEBUG_MODES.values():
        raise RuntimeError(f"invalid value of debug_mode, expected one of {list(DEBUG_MODES)}, got {debug_mode}")
    _settings.value["deterministic"] = number


def get_float32_matmul_precision() -> str:
    """The word that was set."""
    return str(_settings.value.get("matmul", MATMUL_PRECISIONS[0]))


def set_float32_matmul_precision(precision: str) -> None:
    """Keep a word, which changes nothing on a CPU. Raises RuntimeError for an unknown one."""
    if precision not in MATMUL_PRECISIONS:
        raise RuntimeError(f"{precision} is not one of 'highest', 'high', or 'medium'.")
    _settings.value["matmul"] = precision


def set_flush_denormal(mode: bool) -> bool:
    """False, as where the processor cannot: small numbers are kept."""
    return False


def set_warn_always(b: bool) -> None:
    """Keep the setting: each warning here decides for itself."""
    _settings.value["warn"] = bool(b)


def is_warn_always_enabled() -> bool:
    """What was set."""
    return bool(_settings.value.get("warn", False))


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Compute each gradient at once, and refuse one that is NaN unless `check_nan` is off."""
    _settings.value["anomaly"], _settings.value["check_nan"] = bool(mode), bool(check_nan)
    inspect_gradients(_refuse_nan if mode and check_nan else None)


def _refuse_nan(n: Node, at: int, gradient: Any) -> None:
    """Raise AutogradError, with the line of the forward pass, if a gradient has a NaN."""
    if storage.thread_state.current is None and bool(
        np.isnan(wrap(materialize_slice(gradient)).array("detect_anomaly")).any()
    ):
        text = f"Function '{grad_fn_name(n)}' returned nan values in its {at}th output."
        raise AutogradError(text, where=n.where or source.where())


def is_anomaly_enabled() -> bool:
    """What was set."""
    return bool(_settings.value.get("anomaly", False))


class _AnomalySetting:
    """`set_detect_anomaly(mode)`: at once, and undone at the end of a block."""

    def __init__(self, mode: bool = True, check_nan: bool = True):
        self._before = is_anomaly_enabled(), _settings.value.get("check_nan", True)
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        """It is set already."""

    def __exit__(self, *_: object) -> None:
        set_anomaly_enabled(*self._before)


class set_detect_anomaly(_AnomalySetting):
    """Keep the setting, at once and until the end of a block."""


class detect_anomaly(_AnomalySetting):
    """Keep the setting in a block."""


def set_default_device(device: Any) -> None:
    """Let factories put new tensors on a device; None is the CPU again. Raises OptionInvalid for one that is not there.

    A block `with torch.device(...)` decides before it does.
    """
    target = CPU if device is None else device if isinstance(device, Device) else Device(device)
    if target.type not in ("cpu", "meta"):
        raise OptionInvalid(f"there is no device {target}", hint='Use "cpu", or "meta" for shapes without values.')
    set_thread_default_device(CPU if target.type == "cpu" else target)


def get_default_device() -> Device:
    """Where new tensors live that name no device."""
    return default_device()


class no_op_context:
    """A block that changes nothing, and a decorator that gives the function back."""

    def __init__(self, *args: Any, **kwargs: Any):
        """Takes what the original takes."""

    def __enter__(self) -> "no_op_context":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to undo."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself."""
        return function


def do_nothing(*args: Any, **kwargs: Any) -> None:
    """Takes a setting that has no meaning here."""
