"""The session of the CPU backend: a traced function runs at each call and its result can be read immediately."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.files.tree import flatten, map_tensors
from cstorch_compat.profiling import spans
from cstorch_compat.run.closures import ClosureQueue
from cstorch_compat.run.session import ExecutionSession, NextCheckpoint
from lazytensor.core import storage
from lazytensor.core.capture import Capture
from lazytensor.core.step import StepRunner
from lazytensor.core.tensor import detach_node, wrap
from lazytensor.runtime.state_store import Store


class EagerSession(ExecutionSession):
    """A session that captures, compiles and executes each call of a traced function immediately.

    Equal graphs are compiled once.
    """

    def __init__(self, runner: StepRunner, store: Store):
        self.runner, self.store = runner, store
        self.closures = ClosureQueue()

    def begin(self, batch: Any) -> Any:
        """Return the batch unchanged."""
        return batch

    def call(self, step_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a traced function and return its result.

        A traced function called inside another is part of the same step.
        """
        if storage.thread_state.current is not None:  # a traced function that calls another one is one step
            return step_fn(*args, **kwargs)
        capture = Capture(self.store, readable=True)
        for i, (path, t) in enumerate(flatten((args, kwargs) if kwargs else args)):
            # State is read by its name and views through their base. Only other tensors are inputs.
            is_stored = t.cell.home is not None and not storage.is_pinned(t.cell)
            if not t.view_ops and not is_stored and not t.cell.state and t.cell.epoch is None:
                capture.feed(t.cell, i, f"input{path}")
        with capture:
            result = step_fn(*args, **kwargs)
            with spans.record_span(spans.STEP_LANE, "execute on the host"):
                self.runner.run(capture)
        return result

    def bind(self, arguments: Any) -> Any:
        """Return copies of the closure's arguments, since eager tensors may change before the closure runs."""
        return map_tensors(arguments, lambda t: wrap(detach_node(t.node)))

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: NextCheckpoint) -> None:
        """Run the closures of the step, which has been executed already."""
        self.closures.run(step, is_checkpoint, lambda arguments: arguments)

    def flush(self) -> None:
        """Do nothing: closures are never delayed."""

    def close(self) -> None:
        """Do nothing."""
