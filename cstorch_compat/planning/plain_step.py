"""Find the training step of a plain PyTorch script and record it without computing values.

The step begins when a model in training mode is called, and ends when every optimizer has stepped. Its state consists
of the tensors in modules and optimizers. Its batch consists of other tensors from outside the step with one row per
sample. Its result is the loss. If the script trains nothing, the step is the first call of a model.
"""

import functools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from cstorch_compat.planning.loading import first_batches
from cstorch_compat.planning.step_batch import StepBatch, StepRecorded
from cstorch_compat.run import process
from cstorch_compat.run.model_calls import ModelCall, ModelCalls, name_model
from lazytensor.core import abstract_step, autocast
from lazytensor.core.abstract_step import AbstractCapture
from lazytensor.core.storage import Storage, is_in_store
from lazytensor.core.tensor import Tensor
from lazytensor.data.loader import DataLoader
from lazytensor.ir.graph import Graph
from lazytensor.nn import Module
from lazytensor.optim.traced.optimizer import alive

MAX_UNTRAINED_CALLS = 100
"""Calls of one model at one line after which a script without an optimizer counts as one that trains nothing."""


class AbstractPlainCapture(AbstractCapture):
    """The capture of a step whose batch is not marked.

    Tensors from outside with as many rows as the model's input become part of the batch. `rows` is that number, 0
    before the first input.
    """

    way_out = (
        "Read the value after optimizer.step(), or choose with torch.where(...) in the step. If the value is only "
        "printed, pass --zeros to `lazywafer plan`."
    )

    def __init__(self, batch: StepBatch):
        super().__init__(batch.shows_zeros)
        self.batch, self.rows = batch, 0
        self._touch_state, self.touch = self.touch, self._touch

    def take(self, cell: Storage, name: str) -> None:
        """Make the storage `cell` an input of the step, resized to the requested batch."""
        self.batch.resize(cell)
        if not self.rows and cell.type.shape:
            self.rows = cell.type.shape[0]
        self.cells.feed(cell, len(self.cells.inputs), f"input_{name}")

    def _touch(self, cell: Storage) -> None:
        """Handle the first use of a storage from outside of the step.

        It becomes an input if it is no known state and has as many rows as the batch. Otherwise it is state.
        """
        shape = cell.type.shape
        # State has a name by now. A label that bypasses the model and is used by the loss has none, and is recognized
        # by its number of rows.
        is_batch = not cell.state and cell.epoch is None and not is_in_store(cell) and shape and self.rows
        if is_batch and shape[0] in (self.rows, self.batch.own):
            self.take(cell, str(len(self.cells.inputs)))
        else:
            self._touch_state(cell)


class PlainStepRecorder:
    """A context manager that records the step of a script as long as no Cerebras backend exists.

    It patches models, optimizers, data loaders and `Tensor.backward`. The end of the step raises StepRecorded.
    """

    def __init__(self, batch: StepBatch):
        self.batch = batch
        self.capture: AbstractPlainCapture | None = None
        self._models: list[Module] = []
        self._calls = ModelCalls(self._on_call, self._returned)
        self._losses: list[Tensor] = []
        self._results: list[Tensor] = []
        self._waiting: set[int] = set()  # ids of optimizers that have not stepped yet
        self._has_updated = False
        self._evaluation: ModelCall | None = None
        self._open = ExitStack()
        self._backward = Tensor.backward
        self._batches = DataLoader.__iter__

    def __enter__(self) -> "PlainStepRecorder":
        backward, batches = self._backward, self._batches

        # The loss is the tensor on which the script calls backward.
        @functools.wraps(backward)
        def rooted(t: Tensor, *args: Any, **kwargs: Any) -> None:
            self._losses.append(t)
            backward(t, *args, **kwargs)

        @functools.wraps(batches)
        def resized(loader: DataLoader[Any]) -> Iterator[Any]:
            return map(self.batch.resize_batch, first_batches(loader, batches))

        Tensor.backward, DataLoader.__iter__ = rooted, resized  # type: ignore[assignment, method-assign]
        self._calls.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._calls.__exit__(*error)
        Tensor.backward, DataLoader.__iter__ = self._backward, self._batches  # type: ignore[method-assign]
        self._open.close()

    def _on_call(self, call: ModelCall) -> None:
        """Handle the call of a model, before it runs.

        Begins the step if gradients are needed and the model gets a tensor. During the step, names the state of another
        model, or raises StepRecorded if the call is repeated after an optimizer has stepped. Without an optimizer the
        first call is recorded as the step after MAX_UNTRAINED_CALLS calls in evaluation mode.
        """
        times = self._calls.count(call)
        if self.capture is not None:
            # A model may be called several times in one step, as in a GAN or with gradient accumulation.
            if self._has_updated and times > 1:
                raise StepRecorded(self.graph())
            self._name(call.module)
        elif call.given and call.needs_gradients:
            self._begin(call)
        elif call.given:
            self._evaluation = self._evaluation or call
            if times > MAX_UNTRAINED_CALLS and not alive():
                raise StepRecorded(self._record_evaluation(self._evaluation))

    def _returned(self, results: list[Tensor]) -> None:
        """Store the results of a model's call, which are the outputs of a step without a loss."""
        if self.capture is not None:
            self._results = results

    def _begin(self, call: ModelCall) -> None:
        """Begin the step with `call`: enter a capture and autocast, and watch all optimizers.

        Tensor arguments that are no state become the batch, resized to the requested size.
        """
        self.capture = AbstractPlainCapture(self.batch)
        self._name(call.module)
        for optimizer in alive():
            self._watch_optimizer(optimizer)
        self._open.enter_context(self.capture)
        self._open.enter_context(autocast.autocast(process.RUN.options.half))
        for path, t in call.given:
            # Resize the batch before the model reads its shape.
            if not t.leaf_id and not t.cell.state and t.cell.epoch is None:
                self.capture.take(t.cell, path.strip("_"))

    def _name(self, module: Module) -> None:
        """Name the state of a model when it is called first."""
        if not any(module is m for m in self._models):
            name_model(module, f"model_{len(self._models)}" if self._models else "model")
            self._models.append(module)

    def _watch_optimizer(self, optimizer: Any) -> None:
        """Replace the `step` method of an optimizer by one that raises StepRecorded.

        It raises after the last of the watched optimizers has stepped.
        """
        step = optimizer.step
        self._waiting.add(id(optimizer))

        @functools.wraps(step)
        def watched(*args: Any, **kwargs: Any) -> Any:
            result = step(*args, **kwargs)
            # A step with two optimizers, as of a GAN, ends when both have stepped. Code after it needs values.
            self._waiting.discard(id(optimizer))
            self._has_updated = True
            if not self._waiting:
                raise StepRecorded(self.graph())
            return result

        # Patch the object instead of the class, so that optimizer classes of the script are watched too.
        optimizer.__dict__["step"] = watched

    def graph(self) -> Graph:
        """Return the graph recorded so far.

        Its output is the last loss, or the results of the model if there is no loss.
        """
        assert self.capture is not None
        return abstract_step.graph_of(self.capture, self._losses[-1:] or self._results)

    def _record_evaluation(self, call: ModelCall) -> Graph:
        """Return the graph of a call of a model, for a script that trains nothing."""
        self._begin(call)
        self._results = self._calls.again(call)
        return self.graph()

    def finish(self) -> Graph | None:
        """Return the graph at the end of the script: of the training step or, without one, of the first evaluation.

        Return None if no model was called.
        """
        if self.capture is not None:
            return self.graph()
        return None if self._evaluation is None else self._record_evaluation(self._evaluation)

    @property
    def is_over(self) -> bool:
        """Whether the recorded operations are the whole step of a script without optimizers.

        They are if there is no loss, or if a parameter was updated.
        """
        if self.capture is None or alive():
            return False
        # An updated parameter has a node other than "state".
        parameters = (p for model in self._models for p in model.parameters())
        return not self._losses or any(p.cell.node is not None and p.cell.node.op != "state" for p in parameters)
