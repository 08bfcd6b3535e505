"""Shared words, threads and calls in the kernel language; each function has its meaning in Python here.

The compiler replaces a call by the instructions that `lazytensor.llvm.thread_instructions` writes for its name. All
atomic operations are sequentially consistent.
"""

import ctypes
import threading
import time
from typing import Any

_changed = threading.Condition()
"""In Python one lock makes every operation atomic, and its condition lets threads sleep."""


def words_at(address: int) -> Any:
    """Return the words of 8 bytes from an address on as an array of int64."""
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
    """Let the other thread of the processor's core run: the caller is in a loop that waits."""
    time.sleep(0)


def clock() -> int:
    """Return nanoseconds of a clock that never goes back."""
    return time.monotonic_ns()


def current_core() -> int:
    """Return the number of the core that this thread runs on; -1 if the system does not say. In Python it is -1."""
    return -1


def wait(words: Any, place: int, value: int) -> None:
    """Sleep until `wake` is called for words[place].

    Return at once if words[place] is not `value`. May return early: the caller tests its condition again. Linux and
    macOS compare and wait as one operation of the kernel; Linux compares the low 32 bits of the word.
    """
    with _changed:
        if int(words[place]) == value:
            _changed.wait()


def wake(words: Any, place: int, count: int) -> None:
    """Wake at least `count` of the threads that wait for words[place], or all if there are fewer."""
    with _changed:
        _changed.notify_all()


def prefetch(address: int) -> None:
    """Ask memory to bring the cache line at an address into the second-level cache. The address may be invalid."""


def called(address: int, *arguments: Any) -> bool:
    """Call the C function at an address and return its result as truth; not defined if it has no result.

    `np.int32` and `np.float32` arguments are passed as such, all other whole numbers as 64 bits.
    """
    kinds = [_C_KINDS.get(type(a).__name__, ctypes.c_int64) for a in arguments]
    values = [kind(a.item() if hasattr(a, "item") else a) for kind, a in zip(kinds, arguments, strict=True)]
    return bool(ctypes.CFUNCTYPE(ctypes.c_bool, *kinds)(address)(*values))


_C_KINDS: dict[str, Any] = {"int32": ctypes.c_int32, "float32": ctypes.c_float, "float64": ctypes.c_double}
