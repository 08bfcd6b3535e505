"""What scripts ask of `torch` that lazytensor has no use for: constants, questions, and a GPU that is not there."""

from lazytensor.tensor import Tensor

strided, contiguous_format, preserve_format, channels_last = (
    "torch.strided",
    "torch.contiguous_format",
    "torch.preserve_format",
    "torch.channels_last",
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
