"""The choice of an attention kernel, as in a CPU build. It does not change results."""

import contextlib
import enum
from collections.abc import Iterator

from lazytensor.core import source
from lazytensor.errors import OperandInvalid

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """An enumeration of the attention kernels of PyTorch 2.13.0."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | list[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Return a context manager without effect. Raises AssertionError if `backends` contains other objects."""
    kinds = backends if isinstance(backends, list) else [backends]
    if not all(isinstance(b, SDPBackend) for b in kinds):
        raise OperandInvalid(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances",
            where=source.where(),
            hint="Pass torch.nn.attention.SDPBackend.MATH, or a list of such members.",
        )
    yield


def list_flash_attention_impls() -> list[str]:
    """Return an empty list: no implementation can be registered."""
    return []


def current_flash_attention_impl() -> str | None:
    """Return None: no implementation is active."""
    return None
