"""Finds the training step of a plain PyTorch script, and examines it as if it were traced.

The step begins when a model in training mode is called and ends with the optimizer's step. What the loop does then
until the model is called again, such as printing the loss, belongs into a closure. In a script that trains nothing the
first call of a model is what there is to examine.
"""

import functools
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

from cstorch_compat.check import graph, state
from cstorch_compat.check.counts import FollowedEnough, Summary
from cstorch_compat.check.loaders import LoaderWatch
from cstorch_compat.check.step import CheckedCapture, Recorder
from cstorch_compat.files.tree import flatten
from cstorch_compat.run import process
from lazytensor import precision, source, trace
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.types import Where
from lazytensor.modes import set_grad_enabled
from lazytensor.nn import Module
from lazytensor.nn.scopes import name_scopes
from lazytensor.runtime.store import Store
from lazytensor.tensor import Tensor, handle, is_grad_enabled


@dataclass(frozen=True)
class Evaluation:
    """A call of a model that trains nothing."""

    module: Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: Where
    is_tracked: bool


PATIENCE = 3
"""Calls of one model at one line after which a loop without an optimizer counts as seen."""


class PlainScript:
    """Watches the calls of models while no Cerebras backend exists."""

    def __init__(self, recorder: Recorder, loaders: LoaderWatch, summary: Summary):
        self.recorder, self.loaders, self.summary = recorder, loaders, summary
        self.capture: CheckedCapture | None = None
        self.is_over = False
        self._depth = 0
        self._calls: dict[tuple[int, Where], int] = {}
        self._open = ExitStack()
        self._first: Where | None = None
        self._outputs: list[Node] = []
        self._results: list[Tensor] = []
        self._evaluation: Evaluation | None = None
        self._original: Callable[..., Any] = Module.__call__

    def __enter__(self) -> "PlainScript":
        self._original = original = Module.__call__

        @functools.wraps(original)
        def watched(module: Module, *args: Any, **kwargs: Any) -> Any:
            # Only the outermost model is the user's call; with a backend the script marks its steps itself.
            if self._depth == 0 and not self.is_over and process.current_backend(raise_exception=False) is None:
                self._called(module, args, kwargs)
            self._depth += 1
            try:
                result = original(module, *args, **kwargs)
            finally:
                self._depth -= 1
            if self._depth == 0 and self.capture is not None and not self.recorder.updates:
                self._results = [t for _, t in flatten(result)]
            return result

        Module.__call__ = watched  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        Module.__call__ = self._original  # type: ignore[method-assign]

    def _called(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # A loss or a frozen encoder is no model that is trained.
        if not any(p.requires_grad for p in module.parameters()):
            return
        place, trains = source.where(), is_grad_enabled() and module.training
        if self.capture is None:
            # Evaluation before training is not the step, unless no training follows.
            if trains and flatten((args, kwargs)):
                self._begin(module, args, kwargs, place)
            elif self._evaluation is None and flatten((args, kwargs)):
                self._evaluation = Evaluation(module, args, kwargs, place=place, is_tracked=is_grad_enabled())
            return
        # A model may be called several times in one step, as in a GAN: only the same call again begins the next one.
        key = id(module), place
        times = self._calls[key] = self._calls.get(key, 0) + 1
        if (self.recorder.updates and (times > 1 or not trains)) or times > PATIENCE:
            self.finish()
            raise FollowedEnough(f"the first step, which begins again at {place}")
        self.recorder.is_after_step = False

    def _begin(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], place: Where) -> None:
        self._calls[id(module), place] = 1
        self._first = place
        self.summary.enter(place)
        # The names that cstorch.compile would have given, so that findings speak of the same weights.
        _name(module)
        store = Store()
        self.capture = CheckedCapture(store, readable=False)
        for i, (path, t) in enumerate(flatten((args, kwargs) if kwargs else args)):
            # What is neither state nor a view nor asked for its gradient is the batch.
            if not t.lens and not t.leaf_id and not t.cell.state and t.cell.epoch is None:
                self.capture.feed(t.cell, i, f"input{path}")
        self.recorder.is_plain = self.summary.is_plain = True
        self.recorder.on_update = self._keep
        self._open.enter_context(self.capture)
        self._open.enter_context(precision.autocast(process.RUN.options.half))

    def finish(self) -> None:
        """Examine the step, or the first call of a model if nothing was trained."""
        if self.capture is None and self._evaluation is not None and not self.summary.loops:
            self._evaluate(self._evaluation)
        if self.capture is None or self.is_over:
            return
        self.is_over = True
        findings = self.recorder.findings
        graph.examine_batch(findings, self._first or source.where(), _inputs(self.capture))
        if not self.recorder.updates:
            self._keep()
            # A call without a loss has no gradients: what it returns is what it is for.
            self._outputs += [t.node for t in self._results]
        traced, _ = self.capture.graph()
        traced = Graph(traced.inputs, traced.state, tuple(dict.fromkeys(self._outputs)), traced.updates)
        state.examine_state(findings, self.capture, [])
        graph.examine(findings, traced, self.recorder.calls)
        self.summary.add(traced)
        self._advise()
        # Autocast and the capture were entered in the middle of a call, and are left wherever the script has come to.
        self._open.close()
        self.capture.abandon()

    def _evaluate(self, call: Evaluation) -> None:
        """Trace a call again that was made while nobody knew that no training would follow."""
        self._begin(call.module, call.args, call.kwargs, call.place)
        # Layers of ours alone have no line of the user's inside; then all of it belongs to the line of the call.
        is_ours = source.is_house(type(call.module).forward.__code__.co_filename)
        self._depth += 1
        try:
            with set_grad_enabled(call.is_tracked), source.at(call.place) if is_ours else nullcontext():
                self._results = [t for _, t in flatten(self._original(call.module, *call.args, **call.kwargs))]
        finally:
            self._depth -= 1

    def _keep(self) -> None:
        """Remember what the step has made so far: after the update the loop forgets its gradients."""
        assert self.capture is not None
        # Gradients are outputs of the step while they are there; zero_grad lets go of them.
        self._outputs += self.capture.graph()[0].outputs

    def _advise(self) -> None:
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


def _name(module: Module) -> None:
    """Give the state of a model its names, and the modules their paths."""
    for name, t in (*module.named_parameters(), *module.named_buffers()):
        if not t.cell.state:
            trace.register(t.cell, f"model.{name}")
    name_scopes(module, "model")


def _inputs(capture: CheckedCapture) -> list[tuple[str, Tensor]]:
    return [(fed.leaf.attrs["name"].removeprefix("input"), handle(fed.cell)) for fed in capture.cells.inputs]
