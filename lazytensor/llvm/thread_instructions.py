"""LLVM instructions of the functions in `lazytensor.runtime.atomics`: threads, shared words and calls.

Linux, macOS and Windows have system calls with which a thread sleeps until a word changes. Other systems with POSIX
threads use a lock and a condition variable. Where there is neither, `wait` returns at once; there `schedule.can_share`
is False, and programs run in one thread.
"""

import ctypes
import functools
import platform
import sys
import time
from collections.abc import Callable, Sequence

from llvmlite import binding

from lazytensor.llvm.function_builder import Function
from lazytensor.llvm.number_types import BOOL, INT, Array, Unknown, Value

_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
"""The number of Linux's futex system call, by processor."""
_WAIT, _WAKE = 128, 129  # FUTEX_WAIT and FUTEX_WAKE, of this process only
_PAUSE = {"x86_64": ("llvm.x86.sse2.pause", "", ""), "aarch64": ("llvm.aarch64.hint", "i32", "i32 1")}
LOCK = 64
CONDITION = 72
"""Indices of the lock and the condition variable of POSIX threads in the words that `wait` and `wake` get.

The other ways leave these words unused. The system types of macOS, which are the largest, have 64 bytes.
"""
_INFINITE = -1  # of WaitOnAddress
_UL_COMPARE_AND_WAIT64, _ULF_WAKE_ALL, _ULF_NO_ERRNO = 5, 0x100, 0x1000000  # of macOS's sys/ulock.h


_SYMBOLS = {
    "os_sync": "os_sync_wait_on_address",
    "ulock": "__ulock_wait",
    "on_address": "WaitOnAddress",
    "pthread": "pthread_cond_wait",
}
"""Ways to wait other than the futex, the best first, each with a symbol that a system with this way has."""


@functools.cache
def way_to_wait() -> str:
    """Return how threads wait for a word, or "" if the system has no way.

    The ways are "futex" (Linux), "os_sync" or "ulock" (macOS), "on_address" (Windows 8 and later), and "pthread" (other
    systems with POSIX threads, and Linux on other processors). A 32-bit process has none.
    """
    if sys.maxsize < 1 << 32:
        return ""
    if sys.platform == "linux" and _processor() in _FUTEX:
        return "futex"
    return next((way for way, symbol in _SYMBOLS.items() if binding.address_of_symbol(symbol)), "")


def prepare_words(address: int) -> None:
    """Initialize the lock and the condition variable in the words at `address`, if threads wait by them.

    The words are those that `atomics.wait` gets.
    """
    if way_to_wait() == "pthread":
        library = ctypes.CDLL(None)
        library.pthread_mutex_init(ctypes.c_void_p(address + 8 * LOCK), None)
        library.pthread_cond_init(ctypes.c_void_p(address + 8 * CONDITION), None)


def _processor() -> str:
    """Return the processor by its name on Linux; Windows and macOS have other names for two of them."""
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def written(name: str, arguments: Sequence[Value | Array], function: Function) -> tuple[Value | Array, ...]:
    """Write the instructions of a function of `atomics`, and return its results.

    Raise Unknown for an unknown name, and for arguments of the wrong number or type.
    """
    write = _WRITERS.get(name)
    if write is None:
        raise Unknown(f"a call of {name}")
    if name in _OF_WORDS and not isinstance(arguments[0], Array):
        raise Unknown(f"{name} of a value that is not an array of words")
    try:
        return write(function, *arguments)
    except TypeError as error:
        raise Unknown(f"{name} with {len(arguments)} arguments") from error


def _word(value: Value, function: Function) -> str:
    return function.converted(value, INT).text


def _pointer(address: Value, function: Function) -> str:
    return function.new(f"inttoptr i64 {_word(address, function)} to ptr")


def _words_at(function: Function, address: Value) -> tuple[Array]:
    return (Array(INT, _pointer(address, function)),)


def _load(function: Function, words: Array, place: Value) -> tuple[Value]:
    return (Value(INT, function.new(f"load atomic i64, ptr {function.element(words, place)} seq_cst, align 8")),)


def _store(function: Function, words: Array, place: Value, value: Value) -> tuple[()]:
    text = _word(value, function)
    function.line(f"store atomic i64 {text}, ptr {function.element(words, place)} seq_cst, align 8")
    return ()


def _add(function: Function, words: Array, place: Value, value: Value) -> tuple[Value]:
    text = _word(value, function)
    return (Value(INT, function.new(f"atomicrmw add ptr {function.element(words, place)}, i64 {text} seq_cst")),)


def _exchange(function: Function, words: Array, place: Value, expected: Value, new: Value) -> tuple[Value]:
    at, old, text = function.element(words, place), _word(expected, function), _word(new, function)
    pair = function.new(f"cmpxchg ptr {at}, i64 {old}, i64 {text} seq_cst seq_cst")
    return (Value(BOOL, function.new(f"extractvalue {{ i64, i1 }} {pair}, 1")),)


def _pause(function: Function) -> tuple[()]:
    if _processor() in _PAUSE:
        name, parameter, argument = _PAUSE[_processor()]
        function.declarations.add(f"declare void @{name}({parameter})")
        function.line(f"call void @{name}({argument})")
    return ()


def _clock(function: Function) -> tuple[Value]:
    if sys.platform == "win32":
        return _performance_clock(function)
    function.declarations.add("declare i32 @clock_gettime(i32, ptr)")
    parts = Array(INT, function.array(INT, 2))
    function.new(f"call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr {parts.text})")
    seconds, rest = (function.new(f"load i64, ptr {function.element(parts, Value(INT, k))}") for k in "01")
    whole = function.new(f"mul i64 {seconds}, 1000000000")
    return (Value(INT, function.new(f"add i64 {whole}, {rest}")),)


def _performance_clock(function: Function) -> tuple[Value]:
    """Write a read of the clock of Windows in nanoseconds."""
    numbers = Array(INT, function.array(INT, 2))
    for k, name in enumerate(("QueryPerformanceCounter", "QueryPerformanceFrequency")):
        function.declarations.add(f"declare i32 @{name}(ptr)")
        function.new(f"call i32 @{name}(ptr {function.element(numbers, Value(INT, str(k)))})")
    ticks, rate = (function.new(f"load i64, ptr {function.element(numbers, Value(INT, k))}") for k in "01")
    # Whole seconds first: a product of all ticks and 10^9 would overflow after some minutes.
    seconds, rest = (function.new(f"{operation} i64 {ticks}, {rate}") for operation in ("sdiv", "srem"))
    whole, part = (function.new(f"mul i64 {x}, 1000000000") for x in (seconds, rest))
    return (Value(INT, function.new(f"add i64 {whole}, {function.new(f'sdiv i64 {part}, {rate}')}")),)


def _current_core(function: Function) -> tuple[Value]:
    if sys.platform != "linux":
        return (Value(INT, "-1"),)
    function.declarations.add("declare i32 @sched_getcpu()")
    return (Value(INT, function.new(f"sext i32 {function.new('call i32 @sched_getcpu()')} to i64")),)


def _wait(function: Function, words: Array, place: Value, value: Value) -> tuple[()]:
    at, text, way = function.element(words, place), _word(value, function), way_to_wait()
    if way == "futex":
        _futex(function, f"ptr {at}, i64 {_WAIT}, i64 {text}, ptr null")
    elif way == "os_sync":
        function.declarations.add("declare i32 @os_sync_wait_on_address(ptr, i64, i64, i32)")
        function.new(f"call i32 @os_sync_wait_on_address(ptr {at}, i64 {text}, i64 8, i32 0)")
    elif way == "ulock":
        function.declarations.add("declare i32 @__ulock_wait(i32, ptr, i64, i32)")
        kind = _UL_COMPARE_AND_WAIT64 | _ULF_NO_ERRNO
        function.new(f"call i32 @__ulock_wait(i32 {kind}, ptr {at}, i64 {text}, i32 0)")
    elif way == "on_address":
        function.declarations.add("declare i32 @WaitOnAddress(ptr, ptr, i64, i32)")
        expected = Array(INT, function.array(INT, 1))
        function.line(f"store i64 {text}, ptr {expected.text}")
        function.new(f"call i32 @WaitOnAddress(ptr {at}, ptr {expected.text}, i64 8, i32 {_INFINITE})")
    elif way == "pthread":
        _wait_for_condition(function, words, at, text)
    else:
        _pause(function)
    return ()


def _wake(function: Function, words: Array, place: Value, count: Value) -> tuple[()]:
    at, most, way = function.element(words, place), _word(count, function), way_to_wait()
    if way == "futex":
        _futex(function, f"ptr {at}, i64 {_WAKE}, i64 {most}")
    elif way == "os_sync":
        function.declarations.add("declare i32 @os_sync_wake_by_address_all(ptr, i64, i32)")
        function.new(f"call i32 @os_sync_wake_by_address_all(ptr {at}, i64 8, i32 0)")
    elif way == "ulock":
        function.declarations.add("declare i32 @__ulock_wake(i32, ptr, i64)")
        kind = _UL_COMPARE_AND_WAIT64 | _ULF_WAKE_ALL | _ULF_NO_ERRNO
        function.new(f"call i32 @__ulock_wake(i32 {kind}, ptr {at}, i64 0)")
    elif way == "on_address":
        function.declarations.add("declare void @WakeByAddressAll(ptr)")
        function.line(f"call void @WakeByAddressAll(ptr {at})")
    elif way == "pthread":
        lock, condition = _lock_and_condition(function, words)
        _call_pthread(function, "mutex_lock", lock)
        _call_pthread(function, "cond_broadcast", condition)
        _call_pthread(function, "mutex_unlock", lock)
    return ()


def _wait_for_condition(function: Function, words: Array, at: str, value: str) -> None:
    """Write a wait on the condition variable of `words` unless the word at the address `at` is not `value`.

    The word is compared while the lock is held, and `wake` takes the lock after the word has changed, so no wake is
    missed.
    """
    lock, condition = _lock_and_condition(function, words)
    sleep, end = function.labels("sleep", "end")
    _call_pthread(function, "mutex_lock", lock)
    now = function.new(f"load atomic i64, ptr {at} seq_cst, align 8")
    function.line(f"br i1 {function.new(f'icmp eq i64 {now}, {value}')}, label %{sleep}, label %{end}")
    function.begin(sleep)
    _call_pthread(function, "cond_wait", condition, lock)
    function.line(f"br label %{end}")
    function.begin(end)
    _call_pthread(function, "mutex_unlock", lock)


def _lock_and_condition(function: Function, words: Array) -> list[str]:
    return [function.element(words, Value(INT, str(place))) for place in (LOCK, CONDITION)]


def _call_pthread(function: Function, name: str, *pointers: str) -> None:
    function.declarations.add(f"declare i32 @pthread_{name}({', '.join('ptr' for _ in pointers)})")
    function.new(f"call i32 @pthread_{name}({', '.join(f'ptr {p}' for p in pointers)})")


def _futex(function: Function, arguments: str) -> None:
    function.declarations.add("declare i64 @syscall(i64, ...)")
    function.new(f"call i64 (i64, ...) @syscall(i64 {_FUTEX[_processor()]}, {arguments})")


def _prefetch(function: Function, address: Value) -> tuple[()]:
    function.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    # Arguments: 0 = read, 2 = into the second-level cache, 1 = data cache.
    function.line(f"call void @llvm.prefetch.p0(ptr {_pointer(address, function)}, i32 0, i32 2, i32 1)")
    return ()


def _called(function: Function, address: Value, *arguments: Value) -> tuple[Value]:
    pointer = _pointer(address, function)
    passed = [a if a.kind.bits == 32 or a.kind.sort == "f" else function.converted(a, INT) for a in arguments]
    texts = ", ".join(f"{a.kind.llvm} {a.text}" for a in passed)
    return (Value(BOOL, function.new(f"call i1 {pointer}({texts})")),)


_OF_WORDS = ("atomic_load", "atomic_store", "atomic_add", "compare_exchange", "wait", "wake")
_WRITERS: dict[str, Callable[..., tuple[Value | Array, ...]]] = {
    "words_at": _words_at,
    "atomic_load": _load,
    "atomic_store": _store,
    "atomic_add": _add,
    "compare_exchange": _exchange,
    "pause": _pause,
    "clock": _clock,
    "current_core": _current_core,
    "wait": _wait,
    "wake": _wake,
    "prefetch": _prefetch,
    "called": _called,
}
