"""The loop of plain PyTorch as a run on CSX: the body of the loop is the step, and asking for a batch ends it.

Nothing marks the step in the script, so Python runs the body each time. It has to record the same graph: there is one
program, and a step that would need another one is refused. What closures take may differ from step to step.
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
    """A step of a loop of plain PyTorch; its hints have the names of the API that has such loops."""

    way_out = "Choose with torch.where(...) in the step, or read the value in a function for session.add_step_closure."


class PlainSession(WaferSession, LoopSession):
    """A session that records every step, and executes the program of the first one."""

    CAPTURE = PlainLoopCapture

    def __init__(
        self, runner: StepRunner, state: WaferState, settings: WaferSettings, on_compiled: Callable[[Compilation], None]
    ):
        # There is no function whose call could be left out, so the body is recorded in every step.
        super().__init__(runner, state, replace(settings, retrace=True), on_compiled)
        self._first: Graph | None = None

    def resume(self) -> None:
        """Record what the loop itself does, as part of the step."""
        self.step.capture.resume()

    def pause(self) -> None:
        """Refuse what the loop itself does."""
        self.step.capture.pause()

    def _compilation(self, graph: Graph) -> Compilation:
        """The way of a step's graph, which may differ from the first one in what closures take of it."""
        if self._first is None:
            self._first = graph
            return super()._compilation(graph)
        _check_same_updates(self._first, graph)
        return self.runner.compilation(graph)

    def _report_compilation(self, compilation: Compilation) -> None:
        """Tell of the program of the first step alone: the others update the same state."""
        if not self._reported:
            super()._report_compilation(compilation)


def _check_same_updates(first: Graph, now: Graph) -> None:
    """Raise TraceError if a step changes its state in another way than the first one did."""
    if first.updates == now.updates:
        return
    # Nodes are interned: an equal step has the very nodes of the first one, and a new one is the difference.
    before = set(first.nodes())
    new = next((n for n in now.nodes() if n not in before), None)
    raise TraceError(
        f"this step computes {new.op if new else 'less'} where the first step did not; the graph is compiled once",
        where=new.where if new else source.where(),
        hint="Give batches of one shape (drop_last=True), and use no counter of Python in the arithmetic.",
    )


def current_plain_loop() -> "PlainLoop | None":
    """The loop of plain PyTorch that is running, if there is one."""
    executor = process.running_executor()
    return executor if isinstance(executor, PlainLoop) else None


class PlainLoop:
    """The executor of such loops: `with` makes it the running one, `batches` are what the loops go over."""

    def __init__(self) -> None:
        owner = process.current_backend()
        self.session: LoopSession = owner.session(PlainSession)
        self.model: Any = None
        self.most_steps = process.RUN.options.steps if owner.is_e2e_execution else 1
        self.iteration = -1
        # Entered and left at different calls, for the body of the loop lies between two batches.
        self._casts: contextlib.AbstractContextManager[None] | None = None  # while a step is recorded
        self._before: Any = None

    @property
    def user_iteration(self) -> int:
        """The number of the step, counted from 1."""
        return self.iteration + 1

    def __enter__(self) -> "PlainLoop":
        settings.print_unused()
        self._before = process.enter_executor(self)
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        try:
            if self._casts is None:
                # A step that is still recorded when the loop is left by break or an exception is not run.
                self.session.flush()
            else:
                self._stop_recording()
                self.session.closures.queue.clear()
                if kind is None:
                    warn("the last step was not run: call mark_step() before leaving the loop")
        finally:
            self.session.close()
            process.leave_executor(self, self._before)

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Batches on the device; a step ends when the next batch is asked for. Only one where nothing is executed."""
        if self._casts is not None:
            raise TraceError(
                "a loop over the data begins while the last step of another one has not been run",
                where=source.where(),
                hint="Call mark_step() before leaving a loop by break.",
            )
        for batch in loader:
            self.iteration += 1
            seen = self.session.begin(batch)
            self._record()
            yield seen
            self.mark_step()
            # Where nothing is executed, one step says all there is to say.
            if self.user_iteration == self.most_steps:
                return

    def _record(self) -> None:
        """Whatever the loop does from now on belongs to the step."""
        self.session.resume()
        self._casts = autocast.autocast(process.RUN.options.half)
        self._casts.__enter__()

    def _stop_recording(self) -> None:
        assert self._casts is not None
        self._casts.__exit__(None, None, None)
        self._casts = None
        self.session.pause()

    def mark_step(self) -> None:
        """End the step: run it, then the closures that wait for it."""
        if self._casts is not None:
            self._stop_recording()
            self.session.end(self.user_iteration, True, lambda: self.user_iteration)

    def compile_step(self, is_only_traced: bool) -> None:
        """End the step that is recorded without executing it, if there is one. The loop takes no further batch.

        With `is_only_traced` the step is lowered, and otherwise planned too. Raise what refuses the step.
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
        """Call a function with values when the step has run."""
        self.session.closures.queue.append(ClosureCall(closure, args, kwargs or {}, False, source.where()))
