"""Versions and settings of the installation, for bug reports and HTML pages."""

import os
import platform
from importlib import metadata

import h5py
import numpy as np

from lazytensor import config
from lazytensor.runtime import schedule, thread_pool

VERSION = "0.2.0"
"""The version of this package."""

# Matrix products are split by shape only, with one BLAS thread per part: a product of 700 x 900 by 900 x 800 differed
# between one and two threads of OpenBLAS.
REPRODUCIBILITY_NOTE = (
    "equal runs give equal bits with the same versions, machine and BLAS core type, for any number of threads; another "
    "core type (OPENBLAS_CORETYPE) changes the last digits of matrix products, and another number of BLAS threads may "
    "change those of torch.linalg"
)
"""What changes the last bits of a result."""


def find_versions() -> dict[str, str]:
    """Return the versions of lazywafer, Python, NumPy, h5py and numba."""
    return {
        "lazywafer": VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "h5py": h5py.__version__,
        "numba": metadata.version("numba"),
    }


def collect_information() -> dict[str, str]:
    """Return the facts for a bug report by name: versions, BLAS, CPUs, threads, and the cache folder."""
    threads = {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS")}
    return {
        **find_versions(),
        "BLAS": _blas_version(),
        "BLAS core type": os.environ.get("OPENBLAS_CORETYPE", "chosen by the library"),
        "CPUs": str(os.cpu_count()),
        "threads": ", ".join(f"{k}={v}" for k, v in sorted(threads.items())) or "not limited",
        "step threads": _step_threads(),
        "bits": REPRODUCIBILITY_NOTE,
        "cache folder": str(config.current().cache_folder),
    }


def _step_threads() -> str:
    """Return the number of threads that share a step, as text."""
    if not config.current().jit:
        return "1: with LT_JIT=0 steps run in Python"
    return (
        str(thread_pool.team().threads)
        if schedule.can_share()
        else "1: threads cannot wait for each other on this system"
    )


def _blas_version() -> str:
    """Return name and version of NumPy's BLAS."""
    library = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{library.get('name', 'unknown')} {library.get('version', '')}".strip()
