"""Start threads if the system allows it; otherwise the calling thread does the work."""

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

_warned_reasons: set[str] = set()


def try_start(thread: threading.Thread) -> bool:
    """Start a thread and return whether it was started.

    If the system has no more threads, warn once per process and return False.
    """
    try:
        thread.start()
    except (RuntimeError, MemoryError) as e:
        warn_of_no_thread(e)
        return False
    return True


def warn_of_no_thread(error: BaseException) -> None:
    """Warn, once per process, that the system did not start a thread and the run continues without it."""
    if not _warned_reasons:
        _warned_reasons.add(str(error))
        warnings.warn(
            f"The system cannot start more threads ({error}): the run continues with fewer threads and is "
            "slower. Raise the limit of processes (ulimit -u), or set LT_THREADS=1.",
            RuntimeWarning,
            stacklevel=4,
        )


def run_all(jobs: Sequence[Callable[[], T]], threads: int) -> list[T]:
    """Call all `jobs` on at most `threads` threads, including the calling one, and return their results in order.

    Fewer threads are used if the system does not start them. If jobs raise errors, the first error is raised after all
    jobs have ended.
    """
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    # `next` on the iterator is atomic, so each number goes to one thread.
    numbers = iter(range(len(jobs)))

    def work() -> None:
        for number in numbers:
            try:
                results[number] = jobs[number]()
            except BaseException as e:
                errors.append(e)

    others = [threading.Thread(target=work, daemon=True) for _ in range(min(threads, len(jobs)) - 1)]
    started = [other for other in others if try_start(other)]
    work()
    for other in started:
        other.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(jobs))]
