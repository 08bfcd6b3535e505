"""What is installed: our version, and what a bug report or a page says of everything around it."""

import os
import platform
from importlib import metadata

import h5py
import numpy as np

from lazytensor import config
from lazytensor.runtime import schedule, thread_pool

VERSION = "0.2.0"

# Products are cut by their shapes alone and BLAS has one thread for each part; a product of 700 x 900 by 900 x 800
# differed between one and two threads of OpenBLAS.
REPRODUCIBILITY_NOTE = (
    "equal runs are equal to the last bit with the same versions, machine and BLAS core type, for any number of "
    "threads; another type (OPENBLAS_CORETYPE) changes last digits of matrix products, and another number of BLAS "
    "threads perhaps those of torch.linalg"
)
"""What changes bits of a result."""


def find_versions() -> dict[str, str]:
    """The versions that decide what a run gives."""
    return {
        "lazywafer": VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "h5py": h5py.__version__,
        "numba": metadata.version("numba"),
    }


def collect_information() -> dict[str, str]:
    """What a bug report needs."""
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
    """How many threads share the steps of a program."""
    if not config.current().jit:
        return "1: with LT_JIT=0 steps run in Python"
    return (
        str(thread_pool.team().threads)
        if schedule.can_share()
        else "1: threads cannot wait for each other on this system"
    )


def _blas_version() -> str:
    library = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{library.get('name', 'unknown')} {library.get('version', '')}".strip()
