"""Closures: calls that wait until the step they were made in has run, and with a lag some steps longer."""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cstorch_compat.profiling import spans
from lazytensor.ir.types import Where


class ClosureCall(NamedTuple):
    """One call of a closure that waits; `where` is the line that made it."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    needs_checkpoint: bool
    where: Where | None = None

    def with_arguments(self, args: Any, kwargs: Any) -> "ClosureCall":
        """The same call with other values for its arguments."""
        return self._replace(args=args, kwargs=kwargs)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments by the name of the parameter that takes them.

        If there are more or fewer positional arguments than parameters, return both kinds of arguments by number.
        """
        # Outputs of the program are called so, as in the original. What is not written in Python has no parameters.
        code = getattr(self.function, "__code__", None)
        if code is None or code.co_argcount != len(self.args):
            return {"0": self.args, "1": self.kwargs}
        return {**self.kwargs, **dict(zip(code.co_varnames, self.args, strict=False))}


class FinishedStep(NamedTuple):
    """The calls of a step that has run, with arguments as they were at its end; `within` gives them its state."""

    step: int
    calls: list[tuple[ClosureCall, tuple[Any, ...], dict[str, Any]]]
    within: AbstractContextManager[None]

    def run(self) -> None:
        """Make the calls. What one of them raises carries a note of the closure and the step."""
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
    """The calls of one step, in the order in which they were made.

    A client that runs apart from its server sees a step's results later: `lag` steps later.
    """

    lag: int = 0
    queue: list[ClosureCall] = field(default_factory=list)
    step: int | None = None  # whose calls are being made
    _late: deque[FinishedStep] = field(default_factory=deque)

    def run(
        self,
        step: int,
        is_checkpoint: bool,
        prepare: Callable[[Any], Any],
        within: AbstractContextManager[None] | None = None,
    ) -> None:
        """Make the calls of step number `step`, or of the one `lag` steps before.

        Those of checkpoint closures are made only if this is a checkpoint step. `prepare` turns arguments into what
        the closure sees.
        """
        # A closure that calls a closure starts the queue of the next step.
        waiting, self.queue = self.queue, []
        # Arguments are turned into values now: with a lag, later steps overwrite what they stand for.
        calls = [
            (call, prepare(call.args), prepare(call.kwargs))
            for call in waiting
            if is_checkpoint or not call.needs_checkpoint
        ]
        self._late.append(FinishedStep(step, calls, within or nullcontext()))
        while len(self._late) > self.lag:
            self._run_oldest()

    def flush(self) -> None:
        """Make the calls that are late, when the last step is over."""
        while self._late:
            self._run_oldest()

    def _run_oldest(self) -> None:
        # Taken from the queue before it runs, so that what raises is not run again by `flush`.
        finished = self._late.popleft()
        self.step = finished.step
        try:
            finished.run()
        finally:
            self.step = None
