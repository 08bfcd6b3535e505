"""Step closures: function calls that are queued in a step and made with values after the step has run."""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cstorch_compat.profiling import spans
from lazytensor.ir.types import Where


class ClosureCall(NamedTuple):
    """A queued call of a closure. `where` is the line that called it.

    `needs_checkpoint` is True for checkpoint closures, which are called on checkpoint steps only.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    needs_checkpoint: bool
    where: Where | None = None

    def with_arguments(self, args: Any, kwargs: Any) -> "ClosureCall":
        """Return the same call with the given arguments."""
        return self._replace(args=args, kwargs=kwargs)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments by parameter name.

        Returns {"0": args, "1": kwargs} if the number of positional arguments differs from that of the parameters, or
        if the function is not written in Python.
        """
        # The program's outputs get these names, as in the original. Native functions have no parameter names.
        code = getattr(self.function, "__code__", None)
        if code is None or code.co_argcount != len(self.args):
            return {"0": self.args, "1": self.kwargs}
        return {**self.kwargs, **dict(zip(code.co_varnames, self.args, strict=False))}


class FinishedStep(NamedTuple):
    """The closure calls of a step that has run, with their arguments as values.

    `within` is the context that gives the closures access to the step's state.
    """

    step: int
    calls: list[tuple[ClosureCall, tuple[Any, ...], dict[str, Any]]]
    within: AbstractContextManager[None]

    def run(self) -> None:
        """Make the calls in order. An exception gets a note that names the closure and the step."""
        with self.within:
            for call, args, kwargs in self.calls:
                try:
                    name = getattr(call.function, "__name__", repr(call.function))
                    with spans.record_span(spans.CLOSURE_LANE, name, step=self.step, where=str(call.where or "")):
                        call.function(*args, **kwargs)
                except Exception as e:
                    e.add_note(f"raised in the closure {name} of step {self.step}, called at {call.where}")
                    raise


@dataclass
class ClosureQueue:
    """The queue of closure calls of the current step.

    lag: number of steps by which calls are delayed, as for a client that runs ahead of its server
    queue: the calls of the current step, in order
    step: the step whose calls are being made, or None
    """

    lag: int = 0
    queue: list[ClosureCall] = field(default_factory=list)
    step: int | None = None
    _late: deque[FinishedStep] = field(default_factory=deque)

    def run(
        self,
        step: int,
        is_checkpoint: bool,
        prepare: Callable[[Any], Any],
        within: AbstractContextManager[None] | None = None,
    ) -> None:
        """Finish step number `step`: queue its calls, and make those of the step `lag` steps before.

        `prepare` converts arguments to values immediately, because later steps overwrite them. Calls of checkpoint
        closures are dropped unless `is_checkpoint`. `within` is entered around the calls of this step.
        """
        # Calls made by closures go into the queue of the next step.
        waiting, self.queue = self.queue, []
        # Convert arguments to values now, because later steps overwrite them.
        calls = [
            (call, prepare(call.args), prepare(call.kwargs))
            for call in waiting
            if is_checkpoint or not call.needs_checkpoint
        ]
        self._late.append(FinishedStep(step, calls, within or nullcontext()))
        while len(self._late) > self.lag:
            self._run_oldest()

    def flush(self) -> None:
        """Make all delayed calls after the last step."""
        while self._late:
            self._run_oldest()

    def _run_oldest(self) -> None:
        """Make the calls of the oldest finished step."""
        # Remove it before it runs, so that `flush` does not repeat calls after an exception.
        finished = self._late.popleft()
        self.step = finished.step
        try:
            finished.run()
        finally:
            self.step = None
