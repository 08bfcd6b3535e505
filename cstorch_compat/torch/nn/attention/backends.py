"""Which kernel computes attention: a choice that a build for CPUs takes and that changes no result."""

import contextlib
import enum
from collections.abc import Iterator

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """The kernels of PyTorch 2.13.0."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | list[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """A block whose attention would be computed by one of these kernels; here there is one way."""
    kinds = backends if isinstance(backends, list) else [backends]
    if not all(isinstance(b, SDPBackend) for b in kinds):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    yield


def list_flash_attention_impls() -> list[str]:
    """No implementation can be registered."""
    return []


def current_flash_attention_impl() -> str | None:
    """None is active."""
    return None
