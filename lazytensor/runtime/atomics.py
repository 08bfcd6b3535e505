"""Atomic operations, thread waits and indirect calls of the kernel language, with their meaning in Python.

The compiler replaces a call by the instructions of `lazytensor.llvm.thread_instructions`. All atomic operations are
sequentially consistent.
"""

import ctypes
import threading
import time
from typing import Any

_changed = threading.Condition()
"""A lock that makes every operation atomic in Python, and the condition that waiting threads sleep on."""


def words_at(address: int) -> Any:
    """Return the memory at `address` as an array of int64 words."""
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_int64))


def atomic_load(words: Any, place: int) -> int:
    """Return words[place]."""
    with _changed:
        return int(words[place])


def atomic_store(words: Any, place: int, value: int) -> None:
    """Set words[place] to `value`."""
    with _changed:
        words[place] = value


def atomic_add(words: Any, place: int, value: int) -> int:
    """Add `value` to words[place] and return what it was before."""
    with _changed:
        before = int(words[place])
        words[place] = before + value
    return before


def compare_exchange(words: Any, place: int, expected: int, new: int) -> bool:
    """Set words[place] to `new` if it is `expected`; return whether it was."""
    with _changed:
        is_equal = int(words[place]) == expected
        if is_equal:
            words[place] = new
    return is_equal


def pause() -> None:
    """Yield the core to its other hardware thread. Call it in a loop that waits."""
    time.sleep(0)


def clock() -> int:
    """Return a monotonic time in nanoseconds."""
    return time.monotonic_ns()


def current_core() -> int:
    """Return the number of the core that runs this thread, or -1 if the system cannot report it. In Python it is -1."""
    return -1


def wait(words: Any, place: int, value: int) -> None:
    """Sleep until `wake` is called for words[place]. Return at once if words[place] is not `value`.

    It may return early, so the caller has to test its condition again. On Linux, macOS and Windows the system compares
    and waits atomically; Linux compares only the low 32 bits of the word. Other systems have a
    lock and a condition variable in words 64 to 79.
    """
    with _changed:
        if int(words[place]) == value:
            _changed.wait()


def wake(words: Any, place: int, count: int) -> None:
    """Wake at least `count` of the threads that wait for words[place], or all of them if there are fewer."""
    with _changed:
        _changed.notify_all()


def prefetch(address: int) -> None:
    """Prefetch the cache line at an address into the second-level cache.

    The address may be invalid. Does nothing in Python.
    """


def called(address: int, *arguments: Any) -> bool:
    """Call the C function at an address and return its result as a bool; the value is undefined if it returns nothing.

    `np.int32`, `np.float32` and `np.float64` arguments are passed in their type, all other numbers as 64-bit integers.
    """
    kinds = [_C_KINDS.get(type(a).__name__, ctypes.c_int64) for a in arguments]
    values = [kind(a.item() if hasattr(a, "item") else a) for kind, a in zip(kinds, arguments, strict=True)]
    return bool(ctypes.CFUNCTYPE(ctypes.c_bool, *kinds)(address)(*values))


_C_KINDS: dict[str, Any] = {"int32": ctypes.c_int32, "float32": ctypes.c_float, "float64": ctypes.c_double}
