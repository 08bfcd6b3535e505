"""Private names of PyTorch that libraries use, with the behaviour of a CPU build."""

from typing import Any

from lazytensor.core.device import Device, resolve_device
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.errors import ArgumentInvalid


def _log_api_usage_once(event: str) -> None:
    """Do nothing."""


def _get_tracing_state() -> None:
    """Return None: no exporter is tracing."""
    return


def _is_tracing() -> bool:
    """Return False: no exporter is tracing."""
    return False


def is_dynamo_supported() -> bool:
    """Return False: steps are traced in another way."""
    return False


def mark_dynamic(t: Any, index: Any, **_: Any) -> None:
    """Do nothing. Shapes are static."""


mark_static = mark_static_address = maybe_mark_dynamic = mark_dynamic


def graph_break(msg: str = "") -> None:
    """Do nothing. There is no graph of Python code."""


cuda, hip, rocm, xpu, debug, git_version = None, None, None, None, False, "unknown"


def _parse_to(
    *args: Any,
    device: Any = None,
    dtype: DType | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> tuple[Device | None, DType | None, bool, Any]:
    """Return the device, the dtype, `non_blocking` and `memory_format` that the arguments of `Module.to` name.

    Raises ArgumentInvalid, a TypeError, for a positional argument of another type.
    """
    bools = [a for a in args if isinstance(a, bool)]
    for a in args:
        if isinstance(a, DType):
            dtype = a
        elif isinstance(a, Tensor):
            device, dtype = a.device, a.dtype
        elif isinstance(a, Device | str):
            device = a
        elif a is not None and not isinstance(a, bool):
            raise ArgumentInvalid(f"to() received an invalid combination of arguments - got ({type(a).__name__})")
    return resolve_device(device) if device is not None else None, dtype, any(bools[:1]) or non_blocking, memory_format
