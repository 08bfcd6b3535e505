"""What sessions have in common whose steps are recorded to be looked at, and never run."""

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
    """Records the bodies of a step into `capture`; closures wait, and are not called."""

    def __init__(self, capture: Capture):
        self.capture, self.closures = capture, ClosureQueue()
        self._results: dict[Callable[..., Any], Any] = {}

    def call(self, step_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the body of a function."""
        with self.capture.recording(), autocast.autocast(process.RUN.options.half):
            self._results[step_fn] = step_fn(*args, **kwargs)
        return self._results[step_fn]

    def bind(self, arguments: Any) -> Any:
        """The arguments of a closure, which is not called."""
        return arguments

    def resume(self) -> None:
        """Record what the loop itself does, as part of the step."""
        self.capture.resume()

    def pause(self) -> None:
        """Refuse what the loop itself does."""
        self.capture.pause()

    def flush(self) -> None:
        """The last step is over; no closure waits."""

    def close(self) -> None:
        """The loop is over, or was left."""
        if storage.thread_state.current is self.capture:
            self.capture.leave()

    def _take_closure_calls(self) -> list[ClosureCall]:
        """The calls that wait, which are forgotten with that."""
        calls, self.closures.queue = self.closures.queue, []
        return calls

    def _returned(self) -> list[Tensor]:
        """The tensors that the functions of the step returned."""
        return [t for _, t in flatten(list(self._results.values()))]


def find_fetched_tensors(calls: Sequence[ClosureCall]) -> list[Tensor]:
    """The tensors of the step that closures take; state comes to the client in a checkpoint, and is no output."""
    tensors = [t for c in calls for v in c.arguments().values() for _, t in flatten(v)]
    return [t for t in tensors if t.cell.home is None]
