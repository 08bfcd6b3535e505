"""Classes of `torch.cuda` that scripts name: they can be asked about, and are made only where PyTorch makes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cstorch_compat.torch.global_settings import no_op_context

NO_CUDA_MESSAGE = "Torch not compiled with CUDA enabled"


class OutOfMemoryError(RuntimeError):
    """A device has no memory left."""


def _make_dummy_class(name: str) -> Any:
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Tried to instantiate dummy base class {name}")

    return type(
        name, (), {"__new__": __new__, "__doc__": "Not without a GPU: RuntimeError.", "__module__": "torch.cuda"}
    )


Stream, Event, ExternalStream, CUDAGraph = map(_make_dummy_class, ("Stream", "Event", "ExternalStream", "CUDAGraph"))


class device(no_op_context):
    """A block on a device of which there is none: it changes nothing."""


class device_of(no_op_context):
    """A block on the device of a tensor, which is the CPU."""


class StreamContext(no_op_context):
    """A block on a stream: it changes nothing."""


class graph(no_op_context):
    """Raises RuntimeError: there is nothing to record."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise AssertionError(NO_CUDA_MESSAGE)


def stream(stream: Any) -> StreamContext:
    """A block on a stream: it changes nothing."""
    return StreamContext(stream)


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Nothing."""
    return {}


@contextmanager
def use_mem_pool(pool: Any, device: Any = None) -> Iterator[None]:
    """A block that changes nothing."""
    yield
