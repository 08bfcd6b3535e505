"""The functions of `torch.__config__`, which describe this package instead of a build of PyTorch."""

import platform

import numpy as np

from cstorch_compat.torch.torch_version import __version__


def show() -> str:
    """Return text with the versions of the package, Python and NumPy, for environment reports."""
    versions = f"  - Python {platform.python_version()}\n  - NumPy {np.__version__}\n"
    return f"lazywafer, in place of PyTorch {__version__}:\n{versions}"


def parallel_info() -> str:
    """Return text with the number of threads."""
    from lazytensor.runtime.thread_pool import team  # noqa: PLC0415 - threads are counted when asked for

    return f"lazywafer threads: {team().threads}\n"
