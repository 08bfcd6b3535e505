"""The session of a checked script: trace the first two steps without running them, and examine them."""

import functools
from collections.abc import Callable
from typing import Any

from cstorch_compat.check import graph, step_state
from cstorch_compat.check.checked_step import CheckCapture, FindingRecorder
from cstorch_compat.check.closure_calls import StepResults
from cstorch_compat.check.learning_rates import LearningRate, examine_learning_rates, list_learning_rates
from cstorch_compat.check.loaders import LoaderWatcher
from cstorch_compat.check.source_rules import check_step_source
from cstorch_compat.check.trace_counts import TraceSummary
from cstorch_compat.files.tree import flatten
from cstorch_compat.run import process
from cstorch_compat.run.closures import ClosureCall
from cstorch_compat.run.recorded_session import RecordedSession, find_fetched_tensors
from cstorch_compat.run.session import NextCheckpoint
from cstorch_compat.run.state_checks import find_late_state
from cstorch_compat.run.wafer_session import enter_capture_with_batch, make_checkpoint_hint
from cstorch_compat.run.wafer_state import WaferState
from lazytensor.compiler.pipeline import NO_INPUTS_HINT
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.ir.graph import Graph, Node, topological

TRACED_STEPS = 2
"""Iterations of a loop that are traced. Comparing the second one with the first shows what changes between steps."""


class CheckSession(RecordedSession):
    """A session that replaces the wafer's during a check: it traces two steps, examines the first and compares both.

    Closures are called, and the client may read and change state as if the steps had run. The values of state are those
    from before the loop.
    """

    capture: CheckCapture

    def __init__(self, recorder: FindingRecorder, store: WaferState, summary: TraceSummary, loaders: LoaderWatcher):
        # The capture of the current step, entered in `begin`.
        super().__init__(CheckCapture(store, readable=False))
        self.recorder, self.store, self.summary, self.loaders = recorder, store, summary, loaders
        self.place = source.where()
        self.first: list[Node] | None = None
        self._steps: list[Callable[..., Any]] = []
        self._rates: list[LearningRate] = []
        self._has_failed = False
        summary.enter(self.place)

    @property
    def is_first(self) -> bool:
        """Whether the first step is being traced."""
        return self.first is None

    def begin(self, batch: Any) -> Any:
        """Start a step with `batch` and return the batch as tensors without values.

        The batch of the first step is examined. Calls are recorded in the first step only.
        """
        if self.is_first:
            graph.examine_batch(self.recorder.findings, self.place, flatten(batch))
            self.store.start()
        self.recorder.is_listening = self.is_first
        self.capture = CheckCapture(self.store, readable=False)
        return enter_capture_with_batch(self.capture, batch)

    def call(self, step_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace the step function and return its results. Exceptions are suppressed in the second step.

        The second step may fail because the first was not run.
        """
        try:
            super().call(step_fn, args, kwargs)
        except Exception:
            if self.is_first:
                raise
            self._has_failed = True
        if step_fn not in self._steps:
            self._steps.append(step_fn)
        return self._results.get(step_fn)

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: NextCheckpoint) -> None:
        """Examine the traced step, and discard it as if it had run.

        The first step is checked by all rules. In the second step a changed learning rate is reported; otherwise its
        graph is compared with that of the first step, unless the step read values.
        """
        calls = self._take_closure_calls()
        fetches = find_fetched_tensors(calls)
        # Outputs are closure arguments and results. The compiler removes everything else as dead code.
        outputs = tuple(dict.fromkeys(t.node for t in (*fetches, *self._returned())))
        traced, _ = self.capture.graph()
        # A closure may take a tensor from before the step, which is then state of the graph.
        state = self.capture.cells.used_state(outputs, traced.updates)
        whole = Graph(traced.inputs, state, outputs, traced.updates)
        if self.first is None:
            self.first = list(whole.nodes())
            self._rates = list_learning_rates()
            self._examine(calls, fetches, whole)
        # A value that was read differs by batch, and so may the graph.
        elif not (
            examine_learning_rates(self.recorder.findings, self.place, self._rates)
            or self._has_failed
            or self.recorder.has_read
        ):
            graph.compare_steps(self.recorder.findings, self.first, whole)
        self._leave_step(step, is_checkpoint, next_checkpoint, calls)

    def _leave_step(
        self,
        step: int,
        is_checkpoint: bool,
        next_checkpoint: NextCheckpoint,
        calls: list[ClosureCall],
    ) -> None:
        """Discard the traced step as if it had run, and call its closures."""
        is_executed = process.current_backend().is_e2e_execution
        results = StepResults(self.capture, calls if is_executed else [])
        self.store.on_client |= self.capture.cells.keep_on_client()
        self.capture.leave()
        if not is_executed:
            return
        executor = process.current_executor()
        # The check ends the loop early. Its last step also stands for the last one of the whole loop.
        ends_with_checkpoint = step == TRACED_STEPS and executor.fetches_after(executor.num_steps)
        self.store.finish_step(ends_with_checkpoint if step == TRACED_STEPS else is_checkpoint)
        is_checkpoint = is_checkpoint or ends_with_checkpoint
        # State is in the store only, as after a step that has run.
        self.capture.cells.drop_fetched()
        results.hand_out()
        made = [call for call in calls if is_checkpoint or not call.needs_checkpoint]
        way_out = None if is_checkpoint else functools.partial(make_checkpoint_hint, next_checkpoint())
        # A run has the same values in its first step, unless it refuses the step.
        is_first = step == 1 and self.place == self.summary.loops[0]
        is_exact = is_first and results.is_exact and not self.recorder.findings.count("refused")
        self.recorder.is_listening, self.summary.is_exact = True, is_exact
        self.closures.step, self.summary.is_in_closures = step, True
        with self.store.window(way_out):
            results.call(made, self.recorder, is_exact)
        self.closures.step, self.summary.is_in_closures, self.summary.is_exact = None, False, False
        if step == TRACED_STEPS:
            self.loaders.drain(executor.num_steps - step, self.place)

    def _examine(self, calls: list[ClosureCall], fetches: list[Tensor], whole: Graph) -> None:
        """Check closures, state, graph and source text of the first step.

        `fetches` are the tensors that closures take.
        """
        findings = self.recorder.findings
        if not fetches and not whole.updates:
            findings.add("no outputs", self.place)
        elif not fetches:
            findings.add("nothing fetched", self.place)
        # Results that no closure takes are removed before the compilation, and may be all that depends on the batch.
        kept = topological([*(t.node for t in fetches), *whole.updates.values()])
        if kept and all(n.op != "batch" for n in kept):
            detail = "neither the state of the step nor an argument of its closures depends on the batch"
            findings.add("no lowering", self.place, "the step", detail, NO_INPUTS_HINT)
        step_state.examine_closures(findings, calls, process.current_executor())
        step_state.examine_state(findings, find_late_state(self.capture), self._results.values())
        graph.examine_graph(findings, whole)
        # Side effects in step functions and in forward of the user's modules happen only once, during tracing.
        forwards = {type(m).forward for m in self.recorder.watch.modules.values()}
        for function in (*self._steps, *(f for f in forwards if not source.is_internal_file(f.__code__.co_filename))):
            check_step_source(findings, function)
        self.summary.add(whole)

    def close(self) -> None:
        """End the loop."""
        super().close()
        self.store.stop()
        self.recorder.is_listening, self.summary.is_closed = True, True
