"""Constants and queries of `torch` that lazytensor does not define: layouts, memory formats, and GPU availability."""

from lazytensor.core.tensor import Tensor


class layout(str):
    """The name of a memory layout. Only the strided layout has an effect."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class memory_format(layout):
    """The name of a memory format. It has no effect."""

    __slots__ = ()


strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = (
    layout(f"torch.{name}") for name in "strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc jagged".split()
)
contiguous_format, preserve_format, channels_last, channels_last_3d = (
    memory_format(f"torch.{name}")
    for name in "contiguous_format preserve_format channels_last channels_last_3d".split()
)


def is_tensor(obj: object) -> bool:
    """Return whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Return whether `input` has a floating-point dtype."""
    return input.dtype.is_floating_point


def numel(input: Tensor) -> int:
    """Return the number of elements of `input`."""
    return input.spec.size


def is_available() -> bool:
    """Return False: there is no GPU."""
    return False


def device_count() -> int:
    """Return 0, the number of GPUs."""
    return 0
