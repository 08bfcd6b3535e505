"""The base of sessions whose steps are recorded and examined but never run."""

from collections.abc import Callable, Sequence
from typing import Any

from cstorch_compat.files.tree import flatten
from cstorch_compat.run import process
from cstorch_compat.run.closures import ClosureCall, ClosureQueue
from cstorch_compat.run.session import LoopSession
from lazytensor.core import autocast, storage
from lazytensor.core.capture import Capture
from lazytensor.core.tensor import Tensor


class RecordedSession(LoopSession):
    """A session that records traced functions into `capture`. Closure calls are queued and not made."""

    def __init__(self, capture: Capture):
        self.capture, self.closures = capture, ClosureQueue()
        self._results: dict[Callable[..., Any], Any] = {}

    def call(self, step_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the body of `step_fn` and return its result."""
        with self.capture.recording(), autocast.autocast(process.RUN.options.half):
            self._results[step_fn] = step_fn(*args, **kwargs)
        return self._results[step_fn]

    def bind(self, arguments: Any) -> Any:
        """Return the arguments of a closure unchanged."""
        return arguments

    def resume(self) -> None:
        """Continue to record the operations of the loop's body as part of the step."""
        self.capture.resume()

    def pause(self) -> None:
        """Stop recording the loop's operations as part of the step.

        Until `resume`, operations on the device are refused.
        """
        self.capture.pause()

    def flush(self) -> None:
        """Do nothing: no closure is called."""

    def close(self) -> None:
        """Leave the capture if it is active."""
        if storage.thread_state.current is self.capture:
            self.capture.leave()

    def _take_closure_calls(self) -> list[ClosureCall]:
        """Return the queued closure calls and empty the queue."""
        calls, self.closures.queue = self.closures.queue, []
        return calls

    def _returned(self) -> list[Tensor]:
        """Return the tensors that the functions of the step returned."""
        return [t for _, t in flatten(list(self._results.values()))]


def find_fetched_tensors(calls: Sequence[ClosureCall]) -> list[Tensor]:
    """Return the tensors of the step that closures take. State does not count, because checkpoints transfer it."""
    tensors = [t for c in calls for v in c.arguments().values() for _, t in flatten(v)]
    return [t for t in tensors if not storage.is_in_store(t.cell)]
