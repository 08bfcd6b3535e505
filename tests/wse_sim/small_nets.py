"""Training steps of the kinds of nets that people train, in small, as compiled programs."""

import gc
from contextlib import nullcontext
from functools import lru_cache
from itertools import pairwise

import lazytensor as lt
from cstorch_compat.torch.amp import autocast
from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.core.capture import Capture
from lazytensor.runtime.state_store import Store

F = lt.nn.functional


EPS = 1e-3
"""Of Adam: with its default, the last digit of a gradient next to nothing decides how far a parameter goes."""


class Cells:
    """State of its own, copied from a store."""

    def __init__(self, store, names):
        self.cells = {name: store.copy(name) for name in names}

    def array(self, name):
        return self.cells[name]


def captured(step, arrays: dict, named: dict):
    """The compiled program of a step, its store and its batch."""
    for name, cell in named.items():
        lt.storage.register(cell, name)
    store = Store()
    capture = Capture(store, readable=False)
    for k, (name, tensor) in enumerate(arrays.items()):
        capture.feed(tensor.cell, k, name)
    with capture:
        result = step(*arrays.values())
        graph, _ = capture.graph()
    assert result is not None
    compiled = compile_graph(graph, HOST), store, capture.arrays()
    # Without a run the step would keep what it drew from: the process's random state.
    capture.abandon()
    return compiled


class Classifier(lt.nn.Module):
    """FC-MNIST: 784-500-300-10 with every extent a sixteenth or so."""

    def __init__(self, sizes: tuple = (49, 30, 20, 10)):
        super().__init__()
        self.layers = lt.nn.ModuleList(lt.nn.Linear(*pair) for pair in pairwise(sizes))
        self.dropout = lt.nn.Dropout(0.2)

    def forward(self, x):
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = self.dropout(F.relu(layer(x)))
        return F.log_softmax(self.layers[-1](x), 1)


class Layer(lt.nn.Module):
    """A layer of a transformer, with its norms before."""

    def __init__(self, width: int, heads: int, is_causal: bool, dropout: float, approximate: str):
        super().__init__()
        self.heads, self.is_causal, self.rate, self.approximate = heads, is_causal, dropout, approximate
        self.before, self.between = lt.nn.LayerNorm(width), lt.nn.LayerNorm(width)
        self.qkv, self.out = lt.nn.Linear(width, 3 * width), lt.nn.Linear(width, width)
        self.up, self.down = lt.nn.Linear(width, 4 * width), lt.nn.Linear(4 * width, width)
        self.dropout = lt.nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (y.reshape(split).transpose(1, 2) for y in self.qkv(self.before(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.rate, is_causal=self.is_causal)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(x.shape)))
        return x + self.dropout(self.down(F.gelu(self.up(self.between(x)), approximate=self.approximate)))


class GPT(lt.nn.Module):
    """Tied embeddings, positions, dropout everywhere."""

    def __init__(self, layers: int = 2, vocabulary: int = 20, width: int = 16, length: int = 8, dropout: float = 0.1):
        super().__init__()
        self.tokens, self.positions = lt.nn.Embedding(vocabulary, width), lt.nn.Embedding(length, width)
        self.dropout = lt.nn.Dropout(dropout)
        self.layers = lt.nn.Sequential(*(Layer(width, 2, True, dropout, "tanh") for _ in range(layers)))
        self.norm, self.head = lt.nn.LayerNorm(width), lt.nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        x = self.dropout(self.tokens(x) + self.positions(lt.arange(x.shape[1])))
        return self.head(self.norm(self.layers(x))).flatten(0, 1)


class ViT(lt.nn.Module):
    """Patches by a convolution, a class token, positions; no dropout, as in the paper's small sets."""

    def __init__(self, size: int = 8, patch: int = 4, width: int = 16, classes: int = 5):
        super().__init__()
        self.patches = lt.nn.Conv2d(3, width, patch, stride=patch)
        self.token = lt.nn.Parameter(lt.randn(1, 1, width) * 0.02)
        self.positions = lt.nn.Parameter(lt.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.layer = Layer(width, 2, False, 0.0, "none")
        self.norm, self.head = lt.nn.LayerNorm(width), lt.nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = lt.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.layer(x))[:, 0])


class Residual(lt.nn.Module):
    """Two convolutions with batch norms, and a shortcut, by a convolution where the extents change."""

    def __init__(self, channels: int, outputs: int, stride: int):
        super().__init__()
        self.first = lt.nn.Conv2d(channels, outputs, 3, stride, 1, bias=False)
        self.second = lt.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = lt.nn.ModuleList(lt.nn.BatchNorm2d(outputs) for _ in range(2))
        self.short = lt.nn.Identity()
        if stride > 1:
            convolution = lt.nn.Conv2d(channels, outputs, 1, stride, bias=False)
            self.short = lt.nn.Sequential(convolution, lt.nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.short(x))


class ResNet(lt.nn.Module):
    """A stem with maximum pooling, a block of one size and one that halves it, mean pooling."""

    def __init__(self, width: int = 3, classes: int = 5):
        super().__init__()
        self.stem, self.norm = lt.nn.Conv2d(3, width, 3, 1, 1, bias=False), lt.nn.BatchNorm2d(width)
        self.pool, self.mean = lt.nn.MaxPool2d(3, 2, 1), lt.nn.AvgPool2d(2)
        self.blocks = lt.nn.Sequential(Residual(width, width, 1), Residual(width, 2 * width, 2))
        self.head = lt.nn.Linear(2 * width, classes)

    def forward(self, x):
        x = self.pool(F.relu(self.norm(self.stem(x))))
        return self.head(self.mean(self.blocks(x)).flatten(1))


def trained(model, loss_of, optimizer, arrays: dict, half=None):
    """The program of a step in float32, or with automatic casts to a half type, its store and its batch."""

    def step(x, labels):
        optimizer.zero_grad()
        with autocast("cpu", dtype=half) if half else nullcontext():
            loss = loss_of(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    named = (*model.named_parameters(), *model.named_buffers())
    return captured(step, arrays, {f"model.{name}": tensor.cell for name, tensor in named})


def fc_mnist(half=None):
    model = Classifier()
    arrays = {"x": lt.randn(6, 1, 7, 7), "labels": lt.arange(6) % 10}
    return trained(model, F.nll_loss, lt.optim.Adam(model.parameters(), lr=1e-3, eps=EPS), arrays, half)


def gpt(half=None):
    """Two layers in float32, one in 16 bits."""
    model = GPT(layers=1 if half else 2)
    # Every fifth token is not learned from.
    labels = lt.where(lt.arange(16) % 5 == 4, -100, lt.arange(16) * 3 % 20)
    arrays = {"x": lt.arange(16).reshape(2, 8) * 7 % 20, "labels": labels}
    return trained(model, F.cross_entropy, lt.optim.AdamW(model.parameters(), lr=1e-3, eps=EPS), arrays, half)


def vit(half=None):
    model = ViT()
    arrays = {"x": lt.randn(2, 3, 8, 8), "labels": lt.arange(2)}
    return trained(model, F.cross_entropy, lt.optim.AdamW(model.parameters(), lr=1e-3, eps=EPS), arrays, half)


def resnet(half=None):
    model = ResNet()
    arrays = {"x": lt.randn(3, 3, 8, 8), "labels": lt.arange(3)}
    optimizer = lt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    return trained(model, F.cross_entropy, optimizer, arrays, half)


NETS = {"fc_mnist": fc_mnist, "gpt": gpt, "vit": vit, "resnet": resnet}


@lru_cache
def program_of(name: str, half=None):
    """The compiled step of a net, recorded once."""
    # Modules hold themselves; what the last net recorded must not be asked for in this one.
    gc.collect()
    lt.manual_seed(0)
    return NETS[name](half)[0]
