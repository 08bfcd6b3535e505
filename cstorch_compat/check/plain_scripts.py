"""Finds the training step of a plain PyTorch script, and examines it as if it were traced.

The step begins when a model in training mode is called and ends with the optimizer's step. What the loop does then
until the model is called again, such as printing the loss, belongs into a closure. In a script that trains nothing the
first call of a model is what there is to examine.
"""

from contextlib import ExitStack

from cstorch_compat.check import graph, step_state
from cstorch_compat.check.checked_step import CheckCapture, FindingRecorder
from cstorch_compat.check.loaders import LoaderWatcher
from cstorch_compat.check.trace_counts import CheckComplete, TraceSummary
from cstorch_compat.run import process
from cstorch_compat.run.model_calls import ModelCall, ModelCalls, name_model
from lazytensor.core import autocast, source
from lazytensor.core.tensor import Tensor, tensor_from_storage
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.types import Where
from lazytensor.runtime.state_store import Store

MAX_REPEATED_CALLS = 3
"""Calls of one model at one line after which a loop without an optimizer counts as seen."""


class PlainScriptWatcher:
    """Watches the calls of models while no Cerebras backend exists."""

    def __init__(self, recorder: FindingRecorder, loaders: LoaderWatcher, summary: TraceSummary):
        self.recorder, self.loaders, self.summary = recorder, loaders, summary
        self.capture: CheckCapture | None = None
        self.is_over = False
        self._calls = ModelCalls(self._on_call, self._returned)
        self._open = ExitStack()
        self._first: Where | None = None
        self._outputs: list[Node] = []
        self._results: list[Tensor] = []
        self._evaluation: ModelCall | None = None

    def __enter__(self) -> "PlainScriptWatcher":
        self._calls.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._calls.__exit__(*error)

    def _on_call(self, call: ModelCall) -> None:
        if self.is_over:
            return
        if self.capture is None:
            # Evaluation before training is not the step, unless no training follows.
            if call.given and call.needs_gradients:
                self._begin(call)
            elif call.given:
                self._evaluation = self._evaluation or call
            return
        # A model may be called several times in one step, as in a GAN: only the same call again begins the next one.
        times = self._calls.count(call)
        if (self.recorder.updates and (times > 1 or not call.needs_gradients)) or times > MAX_REPEATED_CALLS:
            self.finish()
            raise CheckComplete(f"the first step, which begins again at {call.place}")
        self.recorder.is_after_step = False

    def _returned(self, results: list[Tensor]) -> None:
        if self.capture is not None and not self.recorder.updates:
            self._results = results

    def _begin(self, call: ModelCall) -> None:
        self._calls.count(call)
        self._first = call.place
        self.summary.enter(call.place)
        name_model(call.module)
        store = Store()
        self.capture = CheckCapture(store, readable=False)
        for i, (path, t) in enumerate(call.given):
            # What is neither state nor a view nor asked for its gradient is the batch.
            if not t.view_ops and not t.leaf_id and not t.cell.state and t.cell.epoch is None:
                self.capture.feed(t.cell, i, f"input{path}")
        self.recorder.is_plain = self.summary.is_plain = True
        self.recorder.on_update = self._save_outputs
        self._open.enter_context(self.capture)
        self._open.enter_context(autocast.autocast(process.RUN.options.half))

    def finish(self) -> None:
        """Examine the step, or the first call of a model if nothing was trained."""
        if self.capture is None and self._evaluation is not None and not self.summary.loops:
            self._begin(self._evaluation)
            self._results = self._calls.again(self._evaluation)
        if self.capture is None or self.is_over:
            return
        self.is_over = True
        findings = self.recorder.findings
        graph.examine_batch(findings, self._first or source.where(), _find_input_tensors(self.capture))
        if not self.recorder.updates:
            self._save_outputs()
            # A call without a loss has no gradients: what it returns is what it is for.
            self._outputs += [t.node for t in self._results]
        traced, _ = self.capture.graph()
        traced = Graph(traced.inputs, traced.state, tuple(dict.fromkeys(self._outputs)), traced.updates)
        step_state.examine_state(findings, self.capture, [])
        graph.examine_graph(findings, traced)
        self.summary.add(traced)
        self._add_port_advice()
        # Autocast and the capture were entered in the middle of a call, and are left wherever the script has come to.
        self._open.close()
        self.capture.abandon()

    def _save_outputs(self) -> None:
        """Remember what the step has made so far: after the update the loop forgets its gradients."""
        assert self.capture is not None
        # Gradients are outputs of the step while they are there; zero_grad lets go of them.
        self._outputs += self.capture.graph()[0].outputs

    def _add_port_advice(self) -> None:
        """Say where the pieces of the Cerebras API go."""
        assert self._first is not None
        findings = self.recorder.findings
        # The optimizer may be stepped in another file; the lines to move are those of the loop.
        ends = [p for p in self.recorder.updates if p.file == self._first.file]
        last = max([self._first.line, *(p.line for p in ends)])
        lines = f"lines {self._first.line} to {last}" if last > self._first.line else f"line {last} and what follows"
        body = f"Put {lines} into a function decorated with @cstorch.trace that takes the batch"
        loop = "call it in `for batch in cstorch.utils.data.DataExecutor(dataloader, num_steps=...)`"
        findings.add("port", self._first, "the step", way_out=f"{body} and returns the loss; {loop}.")
        model = 'backend = cstorch.backend("CSX"); compiled = cstorch.compile(model, backend)'
        findings.add("port", self._first, "the model", way_out=f"{model}; call compiled(...) here.")
        for place in self.loaders.used:
            wrapped = "def input_fn(): return <this loader>; dataloader = cstorch.utils.data.DataLoader(input_fn)"
            findings.add("port", place, "the data", way_out=wrapped)


def _find_input_tensors(capture: CheckCapture) -> list[tuple[str, Tensor]]:
    return [
        (fed.leaf.attrs["name"].removeprefix("input"), tensor_from_storage(fed.cell)) for fed in capture.cells.inputs
    ]
