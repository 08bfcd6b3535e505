"""The session that a cstorch script gets while its step is recorded for a plan: of the batch it sees types alone."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.files.tree import flatten, map_tensors
from cstorch_compat.planning.step_batch import StepBatch, StepRecorded
from cstorch_compat.run import process
from cstorch_compat.run.closures import Closures
from cstorch_compat.run.session import LoopSession, NextCheckpoint
from cstorch_compat.run.wafer_state import LAZY
from lazytensor import abstract, precision, trace
from lazytensor.abstract import AbstractCapture
from lazytensor.ir.graph import Graph
from lazytensor.tensor import Tensor, handle
from lazytensor.trace import Cell


class AbstractSession(LoopSession):
    """Takes the place of the wafer's session: records the first step, and ends the script behind it."""

    def __init__(self, batch: StepBatch):
        self.batch = batch
        self.closures = Closures()
        self.capture = AbstractCapture(batch.shows_zeros)
        self._results: dict[Callable[..., Any], Any] = {}

    def begin(self, batch: Any) -> Any:
        """Take in a batch; the loop sees tensors that have no values."""
        seen = map_tensors(self.batch.resized(batch), _without_value)
        for i, (path, t) in enumerate(flatten(seen)):
            self.capture.feed(t.cell, i, f"input{path}")
        self.capture.__enter__()
        self.capture.pause()
        return seen

    def call(self, step_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the body."""
        with self.capture.recording(), precision.autocast(process.RUN.options.half):
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

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: NextCheckpoint) -> None:
        """The step is recorded. Raises StepRecorded with its graph."""
        calls, self.closures.queue = self.closures.queue, []
        fetched = [t for c in calls for v in c.arguments().values() for _, t in flatten(v)]
        # Without closures what the functions return is what the step is for.
        fetches = fetched or [t for _, t in flatten(list(self._results.values()))]
        raise StepRecorded(self._graph(fetches))

    def _graph(self, fetches: list[Tensor]) -> Graph:
        # State that a closure takes comes to the client in a checkpoint, and is no output of a step.
        return abstract.graph_of(self.capture, [t for t in fetches if t.cell.home is None])

    def flush(self) -> None:
        """The last step is over; no closure waits."""

    def close(self) -> None:
        """The loop is over, or was left."""
        if trace.current is self.capture:
            self.capture.leave()


def _without_value(t: Tensor) -> Tensor:
    seen = handle(Cell(trace.without_value(t.spec)))
    seen.device = LAZY
    return seen
