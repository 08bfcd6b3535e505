"""Training steps recorded for any batch, from types alone."""

from collections.abc import Sequence
from itertools import pairwise

import lazytensor as lt
from lazytensor import nn
from lazytensor.core import abstract_step
from lazytensor.core.dtype import DType
from lazytensor.ir.program_family import StepFamily
from lazytensor.nn import functional as F
from lazytensor.optim import SGD


def perceptron(extents: Sequence[int], half: DType | None = None) -> StepFamily:
    """The step of a net of layers from each extent to the next."""
    with abstract_step.mode():
        layers = [m for a, b in pairwise(extents) for m in (nn.Linear(a, b), nn.ReLU())]
        model = nn.Sequential(*layers[:-1])
    return recorded(model, (extents[0],), half)


def recorded(model: nn.Module, extents: tuple[int, ...], half: DType | None = None) -> StepFamily:
    """The step of a model that takes [batch, *extents] to scores of classes; `half` is the type of automatic casts."""
    optimizer = SGD(model.parameters(), lr=0.1)

    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return abstract_step.record(step, [abstract_step.tensor((8, *extents)), abstract_step.tensor((8,), lt.int64)], half)
