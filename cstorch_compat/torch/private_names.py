"""Private names of PyTorch that libraries use, with the behaviour of a CPU build."""

from types import SimpleNamespace
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


def _assert(condition: Any, message: str) -> None:
    """Raise AssertionError with `message` if `condition` is false."""
    if not condition:
        raise AssertionError(message)


def _assert_async(input: Any, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise RuntimeError with the message if the element of a tensor is zero."""
    if not bool(input):
        raise RuntimeError(assert_msg)


def return_false(*args: Any, **kwargs: Any) -> bool:
    """Return False: there is no such compiler, wrapper or device."""
    return False


def return_none(*args: Any, **kwargs: Any) -> None:
    """Return None: no transform is active."""


def return_minus_one(*args: Any, **kwargs: Any) -> int:
    """Return -1: the tensor belongs to no transform."""
    return -1


def unwrapped(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a tensor unchanged: it is not wrapped."""
    return x


def _get_privateuse1_backend_name() -> str:
    """Return the name of the device type that other packages can define."""
    return "privateuseone"


dynamo_config = SimpleNamespace(
    accumulated_cache_size_limit=256,
    allow_unspec_int_on_nn_module=False,
    assume_static_by_default=True,
    automatic_dynamic_shapes=True,
    cache_size_limit=8,
    capture_dynamic_output_shape_ops=False,
    capture_scalar_outputs=False,
    compiled_autograd=False,
    disable=False,
    error_on_recompile=False,
    fail_on_recompile_limit_hit=False,
    guard_nn_modules=True,
    inline_inbuilt_nn_modules=True,
    optimize_ddp=True,
    recompile_limit=8,
    skip_fwd_side_effects_in_bwd_under_checkpoint=False,
    specialize_int=False,
    suppress_errors=False,
    verbose=False,
)
"""The settings of `torch._dynamo.config` with PyTorch's values, which have no effect."""
