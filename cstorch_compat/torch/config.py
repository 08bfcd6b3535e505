"""What `torch.__config__` says of a build: that of this package, which no compiler made."""

import platform

import numpy as np

from cstorch_compat.torch.torch_version import __version__


def show() -> str:
    """Return a text for reports of an environment."""
    versions = f"  - Python {platform.python_version()}\n  - NumPy {np.__version__}\n"
    return f"lazywafer, in place of PyTorch {__version__}:\n{versions}"


def parallel_info() -> str:
    """Return how many threads compute."""
    from lazytensor.runtime.thread_pool import team  # noqa: PLC0415 - threads are counted when asked for

    return f"lazywafer threads: {team().threads}\n"
