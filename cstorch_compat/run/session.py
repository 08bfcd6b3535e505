"""The protocol of sessions: one execution of a loop, as the executor, traced functions and closures see it.

The executor makes a session when its loop begins. For each batch it calls `begin` and gives the loop what that returns;
when the loop asks for the next batch it calls `end`. In between, traced functions go through `call`, and the arguments
of closures through `bind` before they wait in `closures`. After the last step comes `flush`, unless something was
raised, and `close` in any case.
"""

from collections.abc import Callable
from typing import Any, Protocol

from cstorch_compat.run.closures import ClosureQueue

NextCheckpoint = Callable[[], int | None]
"""Says which step, counted from 1, is the next one after which state can be fetched; None if there is none."""


class ExecutionSession(Protocol):
    """One execution of a loop."""

    closures: ClosureQueue

    def begin(self, batch: Any) -> Any:
        """Take in the batch of the next step; returns the batch as the loop sees it."""

    def call(self, step_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a traced function, or answer for it; returns what the loop sees of its result."""

    def bind(self, arguments: Any) -> Any:
        """The arguments of a closure as its call is to keep them until the step is over."""

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: NextCheckpoint) -> None:
        """The loop has come round: run step number `step`, counted from 1, and the closures that wait for it."""

    def flush(self) -> None:
        """The last step is over: make the calls of closures that are late."""

    def close(self) -> None:
        """The loop is over, or was left; nothing else is called afterwards."""


class LoopSession(ExecutionSession, Protocol):
    """A session of a loop without traced functions: the loop's body itself is recorded, where it says so."""

    def resume(self) -> None:
        """What the loop does from now on belongs to the step."""

    def pause(self) -> None:
        """What the loop does from now on does not belong to the step."""


class Executor(Protocol):
    """What runs a loop: it makes the session, and says which step the loop is in."""

    session: Any  # the session, None before the loop has begun
    model: Any  # the prepared model that the loop has called

    @property
    def user_iteration(self) -> int:
        """The number of the step, counted from 1."""
