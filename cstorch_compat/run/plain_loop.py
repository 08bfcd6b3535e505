"""Loops without traced functions on CSX: the loop's body is the step, and requesting the next batch ends it.

The script does not mark its step, so Python runs the body in every iteration. Each iteration must record the same
updates of state, because there is only one program; a step that differs is refused. The tensors that closures take may
differ from step to step.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from cstorch_compat.run import process, settings
from cstorch_compat.run.closures import ClosureCall
from cstorch_compat.run.session import LoopSession
from cstorch_compat.run.wafer_session import WaferSession, WaferSettings
from cstorch_compat.run.wafer_state import WaferState
from cstorch_compat.run.warnings_at_line import warn
from lazytensor.compiler.pipeline import Compilation
from lazytensor.core import autocast, source
from lazytensor.core.capture import Capture
from lazytensor.core.step import StepRunner
from lazytensor.errors import TraceError
from lazytensor.ir.graph import Graph


class PlainLoopCapture(Capture):
    """The capture of a step in such a loop. Its hints name the API of these loops."""

    way_out = "Choose with torch.where(...) in the step, or read the value in a function for session.add_step_closure."


class PlainSession(WaferSession, LoopSession):
    """A session that records every step and executes the program of the first one."""

    CAPTURE = PlainLoopCapture

    def __init__(
        self, runner: StepRunner, state: WaferState, settings: WaferSettings, on_compiled: Callable[[Compilation], None]
    ):
        # Without traced functions no call can be replayed, so every step is traced.
        super().__init__(runner, state, replace(settings, retrace=True), on_compiled)
        self._first: Graph | None = None

    def resume(self) -> None:
        """Continue to record the operations of the loop's body as part of the step."""
        self.step.capture.resume()

    def pause(self) -> None:
        """Stop recording the loop's operations as part of the step.

        Until `resume`, operations on the device are refused.
        """
        self.step.capture.pause()

    def _compilation(self, graph: Graph) -> Compilation:
        """Return the compilation of a step's graph.

        A later graph may differ from the first one in what closures take. Raises TraceError if its updates differ.
        """
        if self._first is None:
            self._first = graph
            return super()._compilation(graph)
        _check_same_updates(self._first, graph)
        return self.runner.compilation(graph)

    def _report_compilation(self, compilation: Compilation) -> None:
        """Report the program of the first step only, since the others update the same state."""
        if not self._reported:
            super()._report_compilation(compilation)


def _check_same_updates(first: Graph, now: Graph) -> None:
    """Raise TraceError if the graph `now` updates state in another way than `first`."""
    if first.updates == now.updates:
        return
    # Nodes are interned: an equal step has the same node objects, so a new node is the difference.
    before = set(first.nodes())
    new = next((n for n in now.nodes() if n not in before), None)
    raise TraceError(
        f"this step computes {f'{new.op}, unlike' if new else 'less than'} the first step; the graph is compiled once",
        where=new.where if new else source.where(),
        hint="Use batches of one shape (drop_last=True), and no Python counters in the arithmetic.",
    )


def current_plain_loop() -> "PlainLoop | None":
    """Return the PlainLoop that is running, or None."""
    executor = process.running_executor()
    return executor if isinstance(executor, PlainLoop) else None


class PlainLoop:
    """The executor of loops without traced functions. Entering it makes it the running executor.

    model: the prepared model that the loop has called, or None
    most_steps: number of steps after which `batches` ends; 0 for no limit, 1 if no step is executed
    iteration: index of the current step, from 0; -1 before the first
    """

    def __init__(self) -> None:
        owner = process.current_backend()
        self.session: LoopSession = owner.session(PlainSession)
        self.model: Any = None
        self.most_steps = process.RUN.options.steps if owner.is_e2e_execution else 1
        self.iteration = -1
        # Autocast is entered and left in different calls, because the loop's body runs between them.
        self._casts: contextlib.AbstractContextManager[None] | None = None  # None unless a step is being recorded
        self._before: Any = None

    @property
    def user_iteration(self) -> int:
        """The number of the current step, from 1."""
        return self.iteration + 1

    def __enter__(self) -> "PlainLoop":
        settings.print_unused()
        self._before = process.enter_executor(self)
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        try:
            if self._casts is None:
                # A step is not run if it is still being recorded when the loop is left by break or an exception.
                self.session.flush()
            else:
                self._stop_recording()
                self.session.closures.queue.clear()
                if kind is None:
                    warn("The last step was not run. Call mark_step() before leaving the loop.")
        finally:
            self.session.close()
            process.leave_executor(self, self._before)

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches of `loader` as tensors on the device. Requesting the next batch ends the step.

        Ends after one batch if the backend executes no steps. Raises TraceError if the last step of another loop has
        not run.
        """
        if self._casts is not None:
            raise TraceError(
                "a loop over the data begins before the last step of the previous loop has run",
                where=source.where(),
                hint="Call mark_step() before leaving a loop by break.",
            )
        for batch in loader:
            self.iteration += 1
            seen = self.session.begin(batch)
            self._record()
            yield seen
            self.mark_step()
            # One step is enough if steps are not executed.
            if self.user_iteration == self.most_steps:
                return

    def _record(self) -> None:
        """Start recording the operations of the loop's body as part of the step."""
        self.session.resume()
        self._casts = autocast.autocast(process.RUN.options.half)
        self._casts.__enter__()

    def _stop_recording(self) -> None:
        """Stop recording, and leave autocast."""
        assert self._casts is not None
        self._casts.__exit__(None, None, None)
        self._casts = None
        self.session.pause()

    def mark_step(self) -> None:
        """End the step: run it, then its closures. Does nothing if no step is being recorded."""
        if self._casts is not None:
            self._stop_recording()
            self.session.end(self.user_iteration, True, lambda: self.user_iteration)

    def compile_step(self, is_only_traced: bool) -> None:
        """End the step that is being recorded without executing it. The loop gets no further batch.

        If `is_only_traced`, the step is lowered; otherwise it is planned too. Raises the error that refuses the step.
        Does nothing if no step is being recorded.
        """
        if self._casts is None:
            return
        self._stop_recording()
        if isinstance(self.session, PlainSession):
            self.session.settings = replace(self.session.settings, execute="trace" if is_only_traced else "compile")
        self.session.end(self.user_iteration, True, lambda: self.user_iteration)
        self.most_steps = self.user_iteration

    def add_step_closure(
        self, closure: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> None:
        """Call `closure` with the values of the arguments after the step has run."""
        self.session.closures.queue.append(ClosureCall(closure, args, kwargs or {}, False, source.where()))
