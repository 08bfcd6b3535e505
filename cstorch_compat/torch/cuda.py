"""Classes and functions of `torch.cuda` as in a build without CUDA."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cstorch_compat.torch.global_settings import no_op_context
from lazytensor.core import source
from lazytensor.errors import OperandInvalid, ShapeError

NO_CUDA_MESSAGE = "Torch not compiled with CUDA enabled"
_initialized = False
"""Whether a device is in use."""


class OutOfMemoryError(RuntimeError):
    """The error for a device that is out of memory."""


def _make_dummy_class(name: str) -> Any:
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        raise ShapeError(
            f"Tried to instantiate dummy base class {name}",
            where=source.where(),
            hint="Remove the call; there is no GPU.",
        )

    doc = "A class whose constructor raises RuntimeError, because there is no CUDA device."
    return type(name, (), {"__new__": __new__, "__doc__": doc, "__module__": "torch.cuda"})


Stream, Event, ExternalStream, CUDAGraph = map(_make_dummy_class, ("Stream", "Event", "ExternalStream", "CUDAGraph"))


class device(no_op_context):
    """A context manager without effect, because there is no GPU."""


class device_of(no_op_context):
    """A context manager without effect: the device of every tensor is the CPU."""


class StreamContext(no_op_context):
    """A context manager without effect."""


class graph(no_op_context):
    """A class whose constructor raises AssertionError, because there is no CUDA."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise OperandInvalid(
            NO_CUDA_MESSAGE, where=source.where(), hint="Use the CPU: check torch.cuda.is_available() first."
        )


def stream(stream: Any) -> StreamContext:
    """Return a context manager without effect."""
    return StreamContext(stream)


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return an empty dict."""
    return {}


@contextmanager
def use_mem_pool(pool: Any, device: Any = None) -> Iterator[None]:
    """Return a context manager without effect."""
    yield
