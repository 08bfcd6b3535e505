"""The execution that a checked script gets: two steps are traced, none is run, and the first one is examined."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.check import graph, state
from cstorch_compat.check.counts import Summary
from cstorch_compat.check.reading import examine_rates, read_step
from cstorch_compat.check.step import CheckedCapture, Recorder
from cstorch_compat.files.tree import flatten
from cstorch_compat.run import process
from cstorch_compat.run.closures import ClosureCall, Closures
from cstorch_compat.run.session import LoopSession, NextCheckpoint
from cstorch_compat.run.wafer_session import enter_fed
from lazytensor import precision, source, trace
from lazytensor.ir.graph import Graph, Node
from lazytensor.runtime.store import Store
from lazytensor.tensor import Tensor

STEPS = 2
"""Iterations of a loop that are traced: the second one shows what changes from step to step."""


class CheckSession(LoopSession):
    """Takes the place of the wafer's session: traces the first step and the second, and compares them."""

    def __init__(self, recorder: Recorder, store: Store, summary: Summary):
        self.recorder, self.store, self.summary = recorder, store, summary
        self.closures = Closures()
        self.place = source.where()
        self.capture = CheckedCapture(store, readable=False)  # of the step at hand; entered with its batch
        self.first: list[Node] | None = None
        self._results: dict[Callable[..., Any], Any] = {}
        self._steps: list[Callable[..., Any]] = []
        self._rates: list[tuple[str, float]] = []
        summary.enter(self.place)

    @property
    def is_first(self) -> bool:
        """Whether the first step is being traced."""
        return self.first is None

    def begin(self, batch: Any) -> Any:
        """Take in a batch; the loop sees tensors that have no values."""
        if self.is_first:
            graph.examine_batch(self.recorder.findings, self.place, flatten(batch))
        self.recorder.is_listening = self.is_first
        self.capture = CheckedCapture(self.store, readable=False)
        return enter_fed(self.capture, batch)

    def call(self, step_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace the body. What goes wrong in the second step is a consequence of not having run the first."""
        try:
            with self.capture.recording(), precision.autocast(process.RUN.options.half):
                self._results[step_fn] = step_fn(*args, **kwargs)
        except Exception:
            if self.is_first:
                raise
        if step_fn not in self._steps:
            self._steps.append(step_fn)
        return self._results.get(step_fn)

    def bind(self, arguments: Any) -> Any:
        """The arguments of a closure, whose calls are examined and not made."""
        return arguments

    def resume(self) -> None:
        """Record what the loop itself does, as part of the step."""
        self.capture.resume()

    def pause(self) -> None:
        """Refuse what the loop itself does."""
        self.capture.pause()

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: NextCheckpoint) -> None:
        """Examine the step that was traced, and forget it."""
        calls, self.closures.queue = self.closures.queue, []
        fetched = _fetched(calls)
        traced, _ = self.capture.graph()
        returned = [t for _, t in flatten(list(self._results.values()))]
        # What closures take and what functions return: the rest of the step is dead code to the compiler.
        outputs = tuple(dict.fromkeys(t.node for t in (*fetched, *returned)))
        whole = Graph(traced.inputs, traced.state, outputs, traced.updates)
        if self.first is None:
            self.first = list(whole.nodes())
            self._rates = state.rates()
            self._examine(calls, fetched, whole)
        elif state.rates() != self._rates:
            examine_rates(self.recorder.findings, self.place, self._rates, state.rates())
        elif not self.recorder.has_read:  # what was read differs with the batch, and so does what follows from it
            graph.compare(self.recorder.findings, self.first, whole)
        self.capture.leave()

    def _examine(self, calls: list[ClosureCall], fetched: list[Tensor], whole: Graph) -> None:
        findings = self.recorder.findings
        if not fetched and not whole.updates:
            findings.add("no outputs", self.place)
        elif not fetched:
            findings.add("nothing fetched", self.place)
        state.examine_closures(findings, calls, process.current_executor())
        state.examine_state(findings, self.capture, self._results.values())
        graph.examine(findings, whole, self.recorder.calls)
        # The body of the step and those of the user's modules: their side effects happen once, at tracing.
        forwards = {type(m).forward for m in self.recorder.watch.modules.values()}
        for function in (*self._steps, *(f for f in forwards if not source.is_house(f.__code__.co_filename))):
            read_step(findings, function)
        self.summary.add(whole)

    def flush(self) -> None:
        """The last step is over; no closure waits."""

    def close(self) -> None:
        """The loop is over."""
        if trace.current is self.capture:
            self.capture.leave()
        self.recorder.is_listening, self.summary.is_closed = True, True


def _fetched(calls: list[ClosureCall]) -> list[Tensor]:
    """The tensors of the step that closures take; state is fetched on its own."""
    tensors = [t for c in calls for v in c.arguments().values() for _, t in flatten(v)]
    return [t for t in tensors if t.cell.home is None]
