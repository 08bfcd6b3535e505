"""Training steps as a user of the planner records them: without data, for any batch."""

from itertools import pairwise

import lazytensor as lt
from lazytensor import nn
from lazytensor.core import abstract_step
from lazytensor.nn import functional as F
from lazytensor.optim import SGD


def recorded(*sizes, batch=8):
    """The training step of a perceptron, for any batch."""
    with abstract_step.mode():
        layers = [m for a, b in pairwise(sizes) for m in (nn.Linear(a, b), nn.ReLU())]
        model = nn.Sequential(*layers)
        optimizer = SGD(model.parameters(), lr=0.1)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return abstract_step.record(
        step, [abstract_step.tensor((batch, sizes[0])), abstract_step.tensor((batch,), lt.int64)]
    )
