"""The session of a checked script: trace the first two steps without running them, and examine them."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.check import graph, step_state
from cstorch_compat.check.checked_step import CheckCapture, FindingRecorder
from cstorch_compat.check.source_rules import check_step_source, examine_learning_rates
from cstorch_compat.check.trace_counts import TraceSummary
from cstorch_compat.files.tree import flatten
from cstorch_compat.run import process
from cstorch_compat.run.closures import ClosureCall
from cstorch_compat.run.recorded_session import RecordedSession, find_fetched_tensors
from cstorch_compat.run.session import NextCheckpoint
from cstorch_compat.run.wafer_session import enter_capture_with_batch
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.ir.graph import Graph, Node
from lazytensor.runtime.state_store import Store

TRACED_STEPS = 2
"""Iterations of a loop that are traced. Comparing the second one with the first shows what changes between steps."""


class CheckSession(RecordedSession):
    """A session that replaces the wafer's during a check: it traces two steps, examines the first and compares both."""

    def __init__(self, recorder: FindingRecorder, store: Store, summary: TraceSummary):
        # The capture of the current step, entered in `begin`.
        super().__init__(CheckCapture(store, readable=False))
        self.recorder, self.store, self.summary = recorder, store, summary
        self.place = source.where()
        self.first: list[Node] | None = None
        self._steps: list[Callable[..., Any]] = []
        self._rates: list[tuple[str, float]] = []
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
        if step_fn not in self._steps:
            self._steps.append(step_fn)
        return self._results.get(step_fn)

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: NextCheckpoint) -> None:
        """Examine the traced step and discard it.

        The first step is checked by all rules. In the second step a changed learning rate is reported; otherwise its
        graph is compared with that of the first step, unless the step read values.
        """
        calls = self._take_closure_calls()
        fetches = find_fetched_tensors(calls)
        traced, _ = self.capture.graph()
        # Outputs are closure arguments and results. The compiler removes everything else as dead code.
        outputs = tuple(dict.fromkeys(t.node for t in (*fetches, *self._returned())))
        whole = Graph(traced.inputs, traced.state, outputs, traced.updates)
        if self.first is None:
            self.first = list(whole.nodes())
            self._rates = step_state.list_learning_rates()
            self._examine(calls, fetches, whole)
        elif step_state.list_learning_rates() != self._rates:
            examine_learning_rates(self.recorder.findings, self.place, self._rates, step_state.list_learning_rates())
        elif not self.recorder.has_read:  # a value that was read differs by batch, and so may the graph
            graph.compare_steps(self.recorder.findings, self.first, whole)
        self.capture.leave()

    def _examine(self, calls: list[ClosureCall], fetches: list[Tensor], whole: Graph) -> None:
        """Check closures, state, graph and source text of the first step.

        `fetches` are the tensors that closures take.
        """
        findings = self.recorder.findings
        if not fetches and not whole.updates:
            findings.add("no outputs", self.place)
        elif not fetches:
            findings.add("nothing fetched", self.place)
        step_state.examine_closures(findings, calls, process.current_executor())
        step_state.examine_state(findings, self.capture, self._results.values())
        graph.examine_graph(findings, whole)
        # Side effects in step functions and in forward of the user's modules happen only once, during tracing.
        forwards = {type(m).forward for m in self.recorder.watch.modules.values()}
        for function in (*self._steps, *(f for f in forwards if not source.is_internal_file(f.__code__.co_filename))):
            check_step_source(findings, function)
        self.summary.add(whole)

    def close(self) -> None:
        """End the loop."""
        super().close()
        self.recorder.is_listening, self.summary.is_closed = True, True
