"""NumPy's BLAS with one thread while a step runs: its parts are shared by the team, and threads that spin help nobody.

On a busy machine two threads of OpenBLAS that wait for each other by spinning take many times as long as one.
"""

import ctypes
import functools
import importlib
import threading
from collections.abc import Callable

NAMES = tuple(f"{prefix}openblas_{{}}_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", ""))
"""How builds of NumPy call the two functions that tell and set the threads of OpenBLAS."""

Control = tuple[Callable[[], int], Callable[[int], object]]


def _control() -> Control | None:
    """The functions that tell and set the number of threads; None for a BLAS that has none of these names."""
    # A symbol is looked up in a module and in all that it was linked with.
    library = ctypes.CDLL(str(importlib.import_module("numpy._core._multiarray_umath").__file__))
    for name in NAMES:
        if hasattr(library, name.format("set")) and hasattr(library, name.format("get")):
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


def sgemm() -> int | None:
    """The address of the product of matrices of float32 with numbers of 64 bits; None if it is not there."""
    if not _sgemm:
        library = ctypes.CDLL(str(importlib.import_module("numpy._core._multiarray_umath").__file__))
        names = [name for name in ("scipy_cblas_sgemm64_", "cblas_sgemm64_") if hasattr(library, name)]
        # With no way to hold it to one thread, threads that call it would each bring their own.
        usable = names and _control() is not None
        _sgemm.append(ctypes.cast(getattr(library, names[0]), ctypes.c_void_p).value if usable else None)
    return _sgemm[0]


@functools.cache
def has_small_kernels() -> bool:
    """Whether this is OpenBLAS with kernels for small matrices, which it has for processors with AVX-512."""
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
    """Have BLAS run in the thread that calls it, until there is a `release` for each `hold`."""
    if not _known:
        _known.append(_control())
    if (control := _known[0]) is not None:
        with _lock:
            _steps.append(control[0]())
            control[1](1)


def release() -> None:
    """Undo a `hold`: when none is left, BLAS has its threads again."""
    if (control := _known[0]) is not None:
        with _lock:
            # The largest number is the one from before all steps that overlap: it goes last.
            before = min(_steps)
            _steps.remove(before)
            if not _steps:
                control[1](before)


class one_thread:
    """A block in which BLAS is held to one thread."""

    __slots__ = ()

    def __enter__(self) -> None:
        hold()

    def __exit__(self, *error: object) -> None:
        release()
