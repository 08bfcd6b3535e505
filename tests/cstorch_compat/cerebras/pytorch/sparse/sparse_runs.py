"""A small run for the tests of sparsity: one model, one algorithm, one optimizer, on either backend."""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cstorch_compat.cerebras.pytorch.optim.optimizers import SGD
from cstorch_compat.cerebras.pytorch.utils.data import DataExecutor, DataLoader
from cstorch_compat.run import compile_model, steps
from lazytensor import nn
from lazytensor.core import autocast
from lazytensor.core.tensor import Tensor
from lazytensor.functional.creation import tensor
from lazytensor.nn import functional as F


def batches(count: int = 8, rows: int = 4, inputs: int = 6, outputs: int = 8) -> list[tuple[Tensor, Tensor]]:
    random = np.random.default_rng(0)
    made = [(random.normal(size=(rows, inputs)), random.normal(size=(rows, outputs))) for _ in range(count)]
    return [(tensor(x.astype(np.float32)), tensor(y.astype(np.float32))) for x, y in made]


@dataclass
class Training:
    """A model that is trained by the mean squared error; `masks` and `weights` are what each step left.

    With `is_single` a wafer computes in float32 too.
    """

    sparsity: Any
    model: Any = field(default_factory=lambda: nn.Sequential(nn.Linear(6, 8)))
    optimizer: Callable[[Iterable], Any] = lambda params: SGD(params, lr=0.1, momentum=0.9)
    take_step: Callable[[Any, Tensor], None] | None = None
    is_single: bool = False

    def __post_init__(self) -> None:
        self.compiled = compile_model.compile_model(self.model)
        self.model.apply(self.sparsity)
        self.optimizer = self.optimizer(list(self.model.parameters()))
        self.optimizer.apply(self.sparsity)
        self.masks: list[dict[str, np.ndarray]] = []
        self.weights: list[dict[str, np.ndarray]] = []
        self.losses: list[float] = []

    def fit(self, data: list) -> "Training":
        @steps.trace_function
        def step(x: Tensor, y: Tensor) -> Tensor:
            with autocast.autocast(None) if self.is_single else contextlib.nullcontext():
                return self._step(x, y)

        for x, y in DataExecutor(DataLoader(lambda: data), num_steps=len(data), checkpoint_steps=1):
            steps.make_closure(self._note, needs_checkpoint=True)(step(x, y))
        return self

    def _step(self, x: Tensor, y: Tensor) -> Tensor:
        loss = F.mse_loss(self.compiled(x), y)
        if self.take_step is not None:
            self.take_step(self.optimizer, loss)
            return loss
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def _note(self, loss: Tensor) -> None:
        state = self.model.state_dict()
        self.losses.append(loss.item())
        self.masks.append({k: v.numpy() for k, v in state.items() if k.endswith("_mask")})
        self.weights.append({k: v.numpy() for k, v in state.items() if not k.endswith("_mask")})
