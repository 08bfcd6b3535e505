"""Values that are computed later: `torch.futures`, over Python's futures. A run has one process."""

import concurrent.futures
from collections.abc import Callable
from typing import Any


class Future:
    """A value that a thread sets later. `devices` has no effect.

    >>> f = Future()
    >>> g = f.then(lambda f: f.value() + 1)
    >>> f.set_result(2)
    >>> g.wait()
    3
    """

    def __init__(self, *, devices: Any = None):
        self._future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def done(self) -> bool:
        """Return whether the value or an exception is set."""
        return self._future.done()

    def wait(self) -> Any:
        """Wait for the value and return it. Raises the exception that was set instead of a value."""
        return self._future.result()

    def value(self) -> Any:
        """Return the value. Raises RuntimeError if it is not set, or the exception that was set instead."""
        if not self.done():
            raise RuntimeError("Future is not completed: call wait() first")
        return self._future.result()

    def set_result(self, result: Any) -> None:
        """Set the value. Raises RuntimeError if a value or an exception is set already."""
        self._check_open()
        self._future.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set the exception that `wait` and `value` raise. Raises TypeError if `result` is none."""
        if not isinstance(result, Exception):
            raise TypeError(f"{result} is of type {type(result)}, not an Exception.")
        self._check_open()
        self._future.set_exception(result)

    def _check_open(self) -> None:
        if self.done():
            raise RuntimeError("Future already completed: a value can be set once")

    def then(self, callback: Callable[["Future"], Any]) -> "Future":
        """Return a future of `callback(self)`, which runs when this future is done, in the thread that completes it."""
        answer = Future()

        def run(_: Any) -> None:
            try:
                answer.set_result(callback(self))
            except Exception as error:
                answer.set_exception(error)

        self._future.add_done_callback(run)
        return answer

    def add_done_callback(self, callback: Callable[["Future"], Any]) -> None:
        """Call `callback(self)` when this future is done. Errors in it are logged and not raised."""
        self._future.add_done_callback(lambda _: callback(self))


def collect_all(futures: list[Future]) -> Future:
    """Return a future of the list of futures, which is done when all of them are."""
    answer, remaining = Future(), set(range(len(futures)))
    if not futures:
        answer.set_result([])

    def finish(k: int) -> None:
        remaining.discard(k)
        if not remaining and not answer.done():
            answer.set_result(futures)

    for k, future in enumerate(futures):
        future.add_done_callback(lambda _, k=k: finish(k))  # type: ignore[misc]
    return answer


def wait_all(futures: list[Future]) -> list[Any]:
    """Wait for all futures and return their values. Raises the first exception among them."""
    return [future.wait() for future in futures]
