"""Random chains of linear layers as training steps, and rectangles for them."""

import gc
import random
from dataclasses import dataclass
from itertools import pairwise

import lazytensor as lt
from tests.wse_sim.small_nets import captured
from wse_sim.layout import Rect

F = lt.nn.functional
ACTIVATIONS = {"relu": F.relu, "tanh": F.tanh, "sigmoid": F.sigmoid, "gelu": F.gelu, "silu": F.silu}


@dataclass(frozen=True)
class Case:
    """What is drawn: extents from the inputs to the classes, and how a step is done."""

    sizes: tuple[int, ...]
    batch: int
    micro: int
    activation: str = "relu"
    bias: bool = True
    momentum: float = 0.0
    decay: float = 0.0


class Perceptron(lt.nn.Module):
    """Linear layers with an activation between."""

    def __init__(self, case: Case):
        super().__init__()
        self.layers = lt.nn.ModuleList(lt.nn.Linear(*pair, bias=case.bias) for pair in pairwise(case.sizes))
        self.activation = ACTIVATIONS[case.activation]

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


def step_of(case: Case, is_training: bool = True):
    """The compiled step of a case, its store and its batch."""
    # Modules hold themselves; what the last test recorded must not be asked for in this one.
    gc.collect()
    lt.manual_seed(len(case.sizes))
    model = Perceptron(case)
    x, labels = lt.randn(case.batch, case.sizes[0]), lt.arange(case.batch) % case.sizes[-1]
    optimizer = lt.optim.SGD(model.parameters(), lr=0.1, momentum=case.momentum, weight_decay=case.decay)

    def train(x, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    named = {name: parameter.cell for name, parameter in model.named_parameters()}
    return captured(train, {"x": x, "labels": labels}, named) if is_training else captured(model, {"x": x}, named)


def drawn(seed: int) -> tuple[Case, list[Rect]]:
    """A case, and rectangles side by side on two shelves."""
    rng = random.Random(seed)
    sizes = (*(rng.randint(4, 64) for _ in range(rng.randint(2, 5))), rng.randint(3, 10))
    micro = rng.choice((1, 2, 4, 8))
    case = Case(
        sizes=sizes,
        batch=micro * rng.randint(2, 8),
        micro=micro,
        activation=rng.choice(sorted(ACTIVATIONS)),
        bias=rng.random() < 0.8,
        momentum=rng.choice((0.0, 0.9)),
        decay=rng.choice((0.0, 1e-3)),
    )
    return case, shelved([(rng.randint(2, 8), rng.randint(2, 8)) for _ in sizes[1:]])


def shelved(extents) -> list[Rect]:
    """Rectangles of these extents, in two rows."""
    rects, x, y = [], 0, 0
    for n, (width, height) in enumerate(extents):
        if n == (len(extents) + 1) // 2:
            x, y = 0, max(high for _, high in extents)
        rects.append(Rect(x, y, width, height))
        x += width
    return rects
