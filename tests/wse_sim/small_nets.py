"""Training steps of the kinds of nets that people train, in small, as compiled programs."""

from contextlib import nullcontext
from itertools import pairwise

import lazytensor as lt
from cstorch_compat.torch.half_casts import autocast
from lazytensor.capture import Capture
from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.runtime.store import Store

F = lt.nn.functional


class Cells:
    """State of its own, copied from a store."""

    def __init__(self, store, names):
        self.cells = {name: store.copy(name) for name in names}

    def array(self, name):
        return self.cells[name]


def captured(step, arrays: dict, named: dict):
    """The compiled program of a step, its store and its batch."""
    for name, cell in named.items():
        lt.trace.register(cell, name)
    store = Store()
    capture = Capture(store, readable=False)
    for k, (name, tensor) in enumerate(arrays.items()):
        capture.feed(tensor.cell, k, name)
    with capture:
        result = step(*arrays.values())
        graph, _ = capture.graph()
    assert result is not None
    return compile_graph(graph, HOST), store, capture.arrays()


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
    return trained(model, F.nll_loss, lt.optim.Adam(model.parameters(), lr=1e-3), arrays, half)


def gpt(half=None):
    """Two layers in float32, one in 16 bits."""
    model = GPT(layers=1 if half else 2)
    arrays = {"x": lt.arange(16).reshape(2, 8) * 7 % 20, "labels": lt.arange(16) * 3 % 20}
    return trained(model, F.cross_entropy, lt.optim.AdamW(model.parameters(), lr=1e-3), arrays, half)


NETS = {"fc_mnist": fc_mnist, "gpt": gpt}
