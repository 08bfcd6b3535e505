"""Finds the training step of a script of plain PyTorch, and records it from types alone.

The step begins when a model in training mode is called, and ends when every optimizer has stepped. Its state is what
modules and optimizers hold, its batch what came from outside with one row for each sample, its fetch the loss. In a
script that trains nothing the first call of a model is the step.
"""

import functools
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from cstorch_compat.files.tree import flatten
from cstorch_compat.planning.loading import first_batches
from cstorch_compat.planning.step_batch import StepBatch, StepRecorded
from cstorch_compat.run import process
from lazytensor import abstract, precision, source, trace
from lazytensor.abstract import AbstractCapture
from lazytensor.data.loader import DataLoader
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Where
from lazytensor.modes import set_grad_enabled
from lazytensor.nn import Module
from lazytensor.nn.scopes import name_scopes
from lazytensor.optim.traced.optimizer import alive
from lazytensor.tensor import Tensor, is_grad_enabled
from lazytensor.trace import Cell

PATIENCE = 100
"""Calls of one model at one line after which a script without optimizers counts as one that trains nothing."""


@dataclass(frozen=True)
class Evaluation:
    """A call of a model that trains nothing."""

    module: Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: Where
    is_tracked: bool


class PlainCapture(AbstractCapture):
    """A step to which nobody has given its batch: tensors of as many rows as the model's input are part of it."""

    way_out = (
        "Read it after optimizer.step(), where the step is over, and choose with torch.where(...) in it; what is "
        "only printed may be zero by `lazywafer plan --zeros`."
    )

    def __init__(self, batch: StepBatch):
        super().__init__(batch.shows_zeros)
        self.batch, self.rows = batch, 0
        self._touch_state, self.touch = self.touch, self._touch

    def take(self, cell: Cell, name: str) -> None:
        """Make a cell of the batch an input of the step."""
        self.batch.resize(cell)
        if not self.rows and cell.type.shape:
            self.rows = cell.type.shape[0]
        self.cells.feed(cell, len(self.cells.inputs), f"input_{name}")

    def _touch(self, cell: Cell) -> None:
        shape = cell.type.shape
        # What a module or an optimizer holds has a name by now; a label that goes past the model to its loss has none,
        # and is told by its rows.
        is_batch = not cell.state and cell.epoch is None and cell.home is None and shape and self.rows
        if is_batch and shape[0] in (self.rows, self.batch.own):
            self.take(cell, str(len(self.cells.inputs)))
        else:
            self._touch_state(cell)


class PlainStep:
    """Watches the models, optimizers and loaders of a script while no Cerebras backend exists."""

    def __init__(self, batch: StepBatch):
        self.batch = batch
        self.capture: PlainCapture | None = None
        self._depth = 0
        self._models: list[Module] = []
        self._calls: dict[tuple[int, Where], int] = {}
        self._losses: list[Tensor] = []
        self._results: list[Tensor] = []
        self._waiting: set[int] = set()  # the optimizers that have not stepped yet
        self._has_updated = False
        self._evaluation: Evaluation | None = None
        self._open = ExitStack()
        self._call = Module.__call__
        self._backward = Tensor.backward
        self._batches = DataLoader.__iter__

    def __enter__(self) -> "PlainStep":
        call, backward, batches = self._call, self._backward, self._batches

        @functools.wraps(call)
        def called(module: Module, *args: Any, **kwargs: Any) -> Any:
            # Only the outermost model is the user's call; with a backend the script marks its steps itself.
            if self._depth == 0 and process.current_backend(raise_exception=False) is None:
                self._called(module, args, kwargs)
            self._depth += 1
            try:
                result = call(module, *args, **kwargs)
            finally:
                self._depth -= 1
            if self._depth == 0 and self.capture is not None:
                self._results = [t for _, t in flatten(result)]
            return result

        # What backward begins at is the loss, whatever the script calls it.
        @functools.wraps(backward)
        def rooted(t: Tensor, *args: Any, **kwargs: Any) -> None:
            self._losses.append(t)
            backward(t, *args, **kwargs)

        @functools.wraps(batches)
        def resized(loader: DataLoader[Any]) -> Iterator[Any]:
            return map(self.batch.resized, first_batches(loader, batches))

        Module.__call__, Tensor.backward, DataLoader.__iter__ = called, rooted, resized  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        Module.__call__, Tensor.backward = self._call, self._backward  # type: ignore[method-assign]
        DataLoader.__iter__ = self._batches  # type: ignore[method-assign]
        self._open.close()

    def _called(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # A loss or a frozen encoder is no model that is trained.
        if not any(p.requires_grad for p in module.parameters()):
            return
        place, given = source.where(), flatten((args, kwargs))
        key = id(module), place
        times = self._calls[key] = self._calls.get(key, 0) + 1
        if self.capture is not None:
            # A model may be called several times in one step, as in a GAN, or for parts of a batch.
            if self._has_updated and times > 1:
                raise StepRecorded(self.graph())
            self._name(module)
        elif is_grad_enabled() and module.training and given:
            self._begin(module, given)
        elif given:
            self._evaluation = self._evaluation or Evaluation(module, args, kwargs, place, is_grad_enabled())
            if times > PATIENCE and not alive():
                raise StepRecorded(self.evaluated())

    def _begin(self, module: Module, given: list[tuple[str, Tensor]]) -> None:
        self.capture = PlainCapture(self.batch)
        self._name(module)
        for optimizer in alive():
            self._watch(optimizer)
        self._open.enter_context(self.capture)
        self._open.enter_context(precision.autocast(process.RUN.options.half))
        for path, t in given:
            # Before the model asks for extents: the batch may be of another size than the script's.
            if not t.leaf_id and not t.cell.state and t.cell.epoch is None:
                self.capture.take(t.cell, path.strip("_"))

    def _name(self, module: Module) -> None:
        """Give the state of a model its names, and the modules their paths."""
        if any(module is m for m in self._models):
            return
        prefix = f"model_{len(self._models)}" if self._models else "model"
        self._models.append(module)
        for name, t in (*module.named_parameters(), *module.named_buffers()):
            if not t.cell.state:
                trace.register(t.cell, f"{prefix}.{name}")
        name_scopes(module, prefix)

    def _watch(self, optimizer: Any) -> None:
        step = optimizer.step
        self._waiting.add(id(optimizer))

        @functools.wraps(step)
        def watched(*args: Any, **kwargs: Any) -> Any:
            result = step(*args, **kwargs)
            # A step of two optimizers, as a GAN's, is over when both have stepped; what is after it needs values.
            self._waiting.discard(id(optimizer))
            self._has_updated = True
            if not self._waiting:
                raise StepRecorded(self.graph())
            return result

        # Of the one object, so that an optimizer class of the script's own, which steps in its own way, is watched too.
        optimizer.__dict__["step"] = watched

    def graph(self) -> Graph:
        """What was recorded of the step so far."""
        assert self.capture is not None
        return abstract.graph_of(self.capture, self._losses[-1:] or self._results)

    def evaluated(self) -> Graph:
        """The step of a script that trains nothing: the first call of its model."""
        call = self._evaluation
        assert call is not None
        given = flatten((call.args, call.kwargs))
        self._begin(call.module, given)
        self._depth += 1
        # Layers of ours alone have no line of the user's inside; then all of it belongs to the line of the call.
        place = call.place if source.is_house(type(call.module).forward.__code__.co_filename) else None
        try:
            with set_grad_enabled(call.is_tracked), source.at(place):
                self._results = [t for _, t in flatten(self._call(call.module, *call.args, **call.kwargs))]
        finally:
            self._depth -= 1
        return self.graph()

    def finish(self) -> Graph | None:
        """The step of a script that came to its end; None if no model was called."""
        if self.capture is not None:
            return self.graph()
        return None if self._evaluation is None else self.evaluated()

    @property
    def is_over(self) -> bool:
        """Whether what is recorded is a whole step, though nobody said so: an update by hand, or no training at all."""
        if self.capture is None or alive():
            return False
        # A parameter that is written is no leaf of the step any more.
        parameters = (p for model in self._models for p in model.parameters())
        return not self._losses or any(p.cell.node is not None and p.cell.node.op != "state" for p in parameters)
