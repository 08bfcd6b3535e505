"""Find the training step of a plain PyTorch script and check it as if it were traced.

The step begins when a model in training mode is called and ends with `optimizer.step()`. What the loop does after that,
such as printing the loss, belongs in a step closure. If the script trains nothing, the first call of a model is
checked.
"""

from contextlib import ExitStack

from cstorch_compat.check import graph, step_state
from cstorch_compat.check.checked_step import CheckCapture, FindingRecorder
from cstorch_compat.check.learning_rates import LearningRate, find_set_rate, list_learning_rates
from cstorch_compat.check.loaders import LoaderWatcher
from cstorch_compat.check.origins import is_traced
from cstorch_compat.check.port_advice import RATE_ADVICE
from cstorch_compat.check.step_frame import StepFrame
from cstorch_compat.check.trace_counts import CheckComplete, TraceSummary
from cstorch_compat.run import process
from cstorch_compat.run.model_calls import ModelCall, ModelCalls, name_model
from cstorch_compat.run.state_checks import find_late_state
from lazytensor.core import autocast, source
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import Tensor, tensor_from_storage
from lazytensor.ir.graph import Graph, Node, node, rebuild, replace_inputs
from lazytensor.ir.types import StateId, Where
from lazytensor.runtime.state_store import Store

MAX_REPEATED_CALLS = 3
"""Calls of one model at one line after which a loop without an optimizer step counts as seen."""


class PlainScriptWatcher:
    """A context manager that watches the calls of models as long as no Cerebras backend exists.

    `is_over` is True once the step was examined. `capture` records the step; it is None before the step begins.
    """

    def __init__(self, recorder: FindingRecorder, loaders: LoaderWatcher, summary: TraceSummary):
        self.recorder, self.loaders, self.summary = recorder, loaders, summary
        self.capture: CheckCapture | None = None
        self.is_over = False
        self._calls = ModelCalls(self._on_call, self._returned)
        self._open = ExitStack()
        self._first: Where | None = None
        self._outputs: list[Node] = []
        self._results: list[Tensor] = []
        self._updates: dict[StateId, Node] = {}
        self._state: dict[StateId, Node] = {}
        self._late_state: list[tuple[str, Storage]] = []
        self._evaluation: ModelCall | None = None
        self._rates: list[LearningRate] = []

    def __enter__(self) -> "PlainScriptWatcher":
        self._calls.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._calls.__exit__(*error)

    def _on_call(self, call: ModelCall) -> None:
        """Handle the call of a model, before it runs.

        Begins the step if gradients are needed and the model gets a tensor. During the step, examines it and raises
        CheckComplete if the call begins the next step: after an optimizer step, a repeated call or one without
        gradients, and otherwise the call after MAX_REPEATED_CALLS. A call in evaluation mode before the step is
        remembered.
        """
        if self.is_over:
            return
        if self.capture is None:
            # A call in evaluation mode is the step only if no training follows.
            if call.given and call.needs_gradients:
                self._begin(call)
            elif call.given:
                self._evaluation = self._evaluation or call
            return
        # A model may be called several times in one step, as in a GAN. Only a repeated call begins the next step.
        times = self._calls.count(call)
        if (self.recorder.updates and (times > 1 or not call.needs_gradients)) or times > MAX_REPEATED_CALLS:
            self.finish()
            raise CheckComplete(f"the first step, which is repeated at {call.place}")
        self.recorder.is_after_step = False

    def _returned(self, results: list[Tensor]) -> None:
        """Store the results of a model's call, which are the outputs of a script that trains nothing."""
        if self.capture is not None and not self.recorder.updates:
            self._results = results

    def _begin(self, call: ModelCall) -> None:
        """Begin the step with `call`: enter a capture and autocast.

        The batch consists of the tensor arguments that are no state, views or leaves that require a gradient.
        """
        self._calls.count(call)
        self._first, self._rates = call.place, list_learning_rates()
        self.summary.enter(call.place)
        name_model(call.module)
        store = Store()
        self.capture = CheckCapture(store, readable=False)
        for i, (path, t) in enumerate(call.given):
            # The batch is every tensor that is no state, no view and no leaf that requires a gradient.
            if not t.view_ops and not t.leaf_id and not t.cell.state and t.cell.epoch is None:
                self.capture.feed(t.cell, i, f"input{path}")
        self.recorder.plain_step = StepFrame.running()
        self.summary.is_plain = True
        self.recorder.on_update = self._save_step
        self._open.enter_context(self.capture)
        self._open.enter_context(autocast.autocast(process.RUN.options.half))

    def finish(self) -> None:
        """Examine the captured step.

        If nothing was trained, capture and examine the first call of a model in evaluation mode.

        Does nothing if no model was called or the step was examined before.
        """
        if self.capture is None and self._evaluation is not None and not self.summary.loops:
            self._begin(self._evaluation)
            self._results = self._calls.again(self._evaluation)
        if self.capture is None or self.is_over:
            return
        self.is_over = True
        findings = self.recorder.findings
        graph.examine_batch(findings, self._first or source.where(), _find_input_tensors(self.capture))
        if not self.recorder.updates:
            self._save_step()
            # Without a loss there are no gradients. The outputs are the results of the call.
            self._outputs += [t.node for t in self._results]
        traced = self._make_graph(self.capture)
        step_state.examine_state(findings, self._late_state, [])
        graph.examine_graph(findings, traced)
        self.summary.add(traced)
        self._add_port_advice()
        # Autocast and the capture were entered inside a call and are left here.
        self._open.close()
        self.capture.abandon()

    def _save_step(self) -> None:
        """Save what the step has computed until now, at an optimizer's step or at the end.

        Its outputs are added to those before, because `zero_grad` drops the gradients. What does not depend on the
        batch or on weights is left out: the loop computes its next batch in the same capture.
        """
        assert self.capture is not None
        traced, _ = self.capture.graph()
        self._outputs += [n for n in traced.outputs if is_traced(n)]
        self._state |= traced.state
        self._updates = {state: n for state, n in traced.updates.items() if is_traced(n)}
        late = find_late_state(self.capture)
        self._late_state = [(name, cell) for name, cell in late if cell.node is not None and is_traced(cell.node)]

    def _make_graph(self, capture: CheckCapture) -> Graph:
        """Return the graph of the saved step, with a further input for each result of the loop's own computations.

        The loop may compute a second batch before the optimizer's step, as in gradient accumulation.
        """
        whole, _ = capture.graph()
        roots = (*self._outputs, *self._updates.values())
        inputs = list(whole.inputs)

        def change(n: Node, operands: tuple[Node, ...]) -> Node:
            is_prepared = n.where is not None and (n.where.file, n.where.line) in self.recorder.outside
            if not is_prepared or not n.inputs or isinstance(n.type, tuple) or is_traced(n):
                return replace_inputs(n, operands)
            index = len(inputs)
            inputs.append(node("batch", (), {"index": index, "name": f"input_{index}", "type": n.type}, n.type))
            return inputs[-1]

        new = rebuild(roots, change)
        outputs = tuple(dict.fromkeys(new[n] for n in self._outputs))
        return Graph(tuple(inputs), self._state, outputs, {state: new[n] for state, n in self._updates.items()})

    def _add_port_advice(self) -> None:
        """Add notes on where the Cerebras API goes: the step function, the model, the learning rate and the loaders."""
        assert self._first is not None
        findings = self.recorder.findings
        # The optimizer may be stepped in another file. The advice names lines of the loop's file only.
        ends = [p for p in self.recorder.updates if p.file == self._first.file]
        last = max([self._first.line, *(p.line for p in ends)])
        lines = (
            f"lines {self._first.line} to {last}"
            if last > self._first.line
            else f"line {last} and the rest of the step"
        )
        body = f"Put {lines} into a function decorated with @cstorch.trace that takes the batch"
        loop = "call it in `for batch in cstorch.utils.data.DataExecutor(dataloader, num_steps=...)`"
        findings.add("port", self._first, "the step", way_out=f"{body} and returns the loss; {loop}.")
        model = 'backend = cstorch.backend("CSX"); compiled = cstorch.compile(model, backend)'
        findings.add("port", self._first, "the model", way_out=f"Write `{model}`, and call compiled(...) here.")
        pair = find_set_rate(self._rates)
        if pair is not None and pair[1].changed_at is not None:
            findings.add("port", pair[1].changed_at, "the learning rate", way_out=RATE_ADVICE)
        for place in self.loaders.used:
            loader = "dataloader = cstorch.utils.data.DataLoader(input_fn)"
            wrapped = f"Write `def input_fn(): return <this loader>` and `{loader}`."
            findings.add("port", place, "the data", way_out=wrapped)


def _find_input_tensors(capture: CheckCapture) -> list[tuple[str, Tensor]]:
    """Return the batch of a capture as paths and tensors."""
    return [
        (fed.leaf.attrs["name"].removeprefix("input"), tensor_from_storage(fed.cell)) for fed in capture.cells.inputs
    ]
