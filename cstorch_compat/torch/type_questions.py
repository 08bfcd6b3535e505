"""What scripts ask of `torch` that lazytensor has no use for: constants, questions, and a GPU that is not there."""

from lazytensor.core.tensor import Tensor


class layout(str):
    """How values lie in memory. There is one way; the others can be named."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class memory_format(layout):
    """In which order dimensions lie in memory; taken and without effect."""

    __slots__ = ()


strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = (
    layout(f"torch.{name}") for name in "strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc jagged".split()
)
contiguous_format, preserve_format, channels_last, channels_last_3d = (
    memory_format(f"torch.{name}")
    for name in "contiguous_format preserve_format channels_last channels_last_3d".split()
)


def is_tensor(obj: object) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether a tensor of any shape holds floating-point numbers."""
    return input.dtype.is_floating_point


def numel(input: Tensor) -> int:
    """The number of elements of a tensor of any shape."""
    return input.spec.size


def is_available() -> bool:
    """False: there is no GPU."""
    return False


def device_count() -> int:
    """0, the number of GPUs."""
    return 0
