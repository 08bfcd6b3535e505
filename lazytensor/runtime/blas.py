"""Limit NumPy's BLAS to one thread while a step runs, because the thread pool runs the parts of the step.

On a busy machine two OpenBLAS threads that wait for each other by spinning take many times as long as one.
"""

import ctypes
import functools
import importlib
import threading
from collections.abc import Callable

NAMES = tuple(f"{prefix}openblas_{{}}_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", ""))
"""The names, in various builds of NumPy, of the two functions that get and set OpenBLAS's number of threads."""

Control = tuple[Callable[[], int], Callable[[int], object]]


def _control() -> Control | None:
    """Return the functions that get and set BLAS's number of threads, or None if the library has none of `NAMES`."""
    # A symbol lookup searches this module and the libraries that it is linked with.
    library = ctypes.CDLL(str(importlib.import_module("numpy._core._multiarray_umath").__file__))
    for name in NAMES:
        if hasattr(library, name.format("set")) and hasattr(library, name.format("get")):
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


def sgemm() -> int | None:
    """Return the address of `cblas_sgemm` with 64-bit integers. It is looked up once.

    Return None if NumPy's library has no such function, or if its number of threads cannot be set.
    """
    if not _sgemm:
        library = ctypes.CDLL(str(importlib.import_module("numpy._core._multiarray_umath").__file__))
        names = [name for name in ("scipy_cblas_sgemm64_", "cblas_sgemm64_") if hasattr(library, name)]
        # If BLAS cannot be limited to one thread, each thread that calls it would start further threads.
        usable = names and _control() is not None
        _sgemm.append(ctypes.cast(getattr(library, names[0]), ctypes.c_void_p).value if usable else None)
    return _sgemm[0]


@functools.cache
def has_small_kernels() -> bool:
    """Return whether BLAS is OpenBLAS with kernels for small matrices, which it has for processors with AVX-512.

    The processor is the one that OpenBLAS detected. Return False for another library.
    """
    library = ctypes.CDLL(str(importlib.import_module("numpy._core._multiarray_umath").__file__))
    for name in ("scipy_openblas_get_corename64_", "openblas_get_corename64_"):
        if hasattr(library, name):
            tell = getattr(library, name)
            tell.restype = ctypes.c_char_p
            return tell() in (b"SkylakeX", b"Cooperlake", b"SapphireRapids")
    return False


_sgemm: list[int | None] = []
_known: list[Control | None] = []


_lock = threading.Lock()
_steps: list[int] = []  # for each step that is running, the number of threads when it began


def hold() -> None:
    """Make BLAS run in the calling thread only, until `release` was called once for each `hold`.

    The limit holds for all threads of the process. Do nothing if the library's number of threads cannot be set.
    """
    if not _known:
        _known.append(_control())
    if (control := _known[0]) is not None:
        with _lock:
            _steps.append(control[0]())
            control[1](1)


def release() -> None:
    """Undo one `hold`. The last release gives BLAS its threads back. Call it only after `hold`."""
    if (control := _known[0]) is not None:
        with _lock:
            # Of overlapping steps, only the first recorded the full number of threads; it is restored last.
            before = min(_steps)
            _steps.remove(before)
            if not _steps:
                control[1](before)


class one_thread:
    """A context manager that limits BLAS to one thread: `hold` on entry, `release` on exit."""

    __slots__ = ()

    def __enter__(self) -> None:
        hold()

    def __exit__(self, *error: object) -> None:
        release()
