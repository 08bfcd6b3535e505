"""The protocol of sessions. A session executes one loop.

The executor creates a session when its loop begins. For each batch it calls `begin` and passes the result to the loop.
When the loop requests the next batch, the executor calls `end`. In between, traced functions are run through `call`,
and arguments of closures pass through `bind` before the call is queued in `closures`. After the last step the executor
calls `flush`, unless an exception was raised, and always `close`.
"""

from collections.abc import Callable
from typing import Any, Protocol

from cstorch_compat.run.closures import ClosureQueue

NextCheckpoint = Callable[[], int | None]
"""A function that returns the next step, from 1, after which state can be fetched.

None if there is no such step.
"""


class ExecutionSession(Protocol):
    """The execution of one loop."""

    closures: ClosureQueue

    def begin(self, batch: Any) -> Any:
        """Start a step with `batch` and return the batch for the loop's body."""

    def call(self, step_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the traced function `step_fn`, or replay it, and return its result for the loop's body."""

    def bind(self, arguments: Any) -> Any:
        """Return the arguments of a closure in the form in which the queue keeps them until the step has run."""

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: NextCheckpoint) -> None:
        """End step number `step`, from 1: run it and its closures."""

    def flush(self) -> None:
        """Make the delayed closure calls after the last step."""

    def close(self) -> None:
        """End the loop, whether it was finished or left. No other method is called afterwards."""


class LoopSession(ExecutionSession, Protocol):
    """A session of a loop without traced functions. The loop's body is recorded between `resume` and `pause`."""

    def resume(self) -> None:
        """Record the following operations as part of the step."""

    def pause(self) -> None:
        """Do not record the following operations."""


class Executor(Protocol):
    """An object that runs a loop: it creates the session and counts steps.

    `session` is None before the loop begins. `model` is the prepared model that the loop has called.
    """

    session: Any
    model: Any

    @property
    def user_iteration(self) -> int:
        """The number of the current step, from 1."""
