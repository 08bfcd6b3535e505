"""Training steps of nets with many layers, equal in all, in some or in none of them, in very small."""

import lazytensor as lt
from lazytensor import abstract

F = lt.nn.functional
WIDTH, HEADS = 8, 2


class Block(lt.nn.Module):
    """A layer of a transformer with everything that makes one: norms, attention, dropout, two products."""

    def __init__(self, window: int = 0, is_causal: bool = True, rate: float = 0.1, inner: int = 16):
        super().__init__()
        self.before, self.behind = lt.nn.LayerNorm(WIDTH), lt.nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (lt.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.up, self.down = lt.nn.Linear(WIDTH, inner), lt.nn.Linear(inner, WIDTH)
        self.dropout = lt.nn.Dropout(rate)
        self.window, self.is_causal = window, is_causal

    def forward(self, x):
        n, t, _ = x.shape
        inner = self.before(x)
        q, k, v = (f(inner).view(n, t, HEADS, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(2, 3) / 2
        rows, columns = lt.arange(t).view(t, 1), lt.arange(t)
        if self.is_causal:
            scores = lt.where(rows >= columns, scores, -1e4)
        if self.window:
            scores = lt.where(rows - columns < self.window, scores, -1e4)
        mixed = self.dropout(scores.softmax(-1)) @ v
        x = x + mixed.transpose(1, 2).reshape(n, t, WIDTH)
        return x + self.dropout(self.down(F.gelu(self.up(self.behind(x)))))


class Residual(lt.nn.Module):
    """A layer of a residual net, with norms over the batch that keep their statistics."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (lt.nn.Conv2d(3, 3, 3, padding=1, bias=False) for _ in range(2))
        self.norm, self.last = lt.nn.BatchNorm2d(3), lt.nn.BatchNorm2d(3)

    def forward(self, x):
        return F.relu(x + self.last(self.second(F.relu(self.norm(self.first(x))))))


class Tokens(lt.nn.Module):
    """Layers between an embedding and a product of its weight."""

    def __init__(self, blocks):
        super().__init__()
        self.tokens, self.blocks, self.norm = lt.nn.Embedding(20, WIDTH), blocks, lt.nn.LayerNorm(WIDTH)

    def forward(self, x):
        hidden = self.tokens(x)
        for block in self.blocks:
            hidden = block(hidden)
        return (self.norm(hidden) @ self.tokens.weight.T).flatten(0, 1)


class Images(lt.nn.Module):
    """Residual layers before a product."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks, self.head = blocks, lt.nn.Linear(3, 20)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def _gpt(depth):
    return Tokens(lt.nn.ModuleList(Block() for _ in range(depth)))


def _bert(depth):
    return Tokens(lt.nn.ModuleList(Block(is_causal=False) for _ in range(depth)))


def _windows(depth):
    return Tokens(lt.nn.ModuleList(Block(window=2 * (k % 2), rate=0.0) for k in range(depth)))


def _shared(depth):
    block = Block(rate=0.0)
    return Tokens([block] * depth)


def _growing(depth):
    return Tokens(lt.nn.ModuleList(Block(inner=16 + k, rate=0.0) for k in range(depth)))


def _odd_one(depth):
    return Tokens(lt.nn.ModuleList(Block(inner=16 + 8 * (k == depth // 2), rate=0.0) for k in range(depth)))


def _residual(depth):
    return Images(lt.nn.ModuleList(Residual() for _ in range(depth)))


MODELS = {
    "gpt": _gpt,
    "bert": _bert,
    "windows": _windows,
    "shared": _shared,
    "growing": _growing,
    "odd one": _odd_one,
    "residual": _residual,
}
EQUAL = ("gpt", "bert", "windows", "residual")
"""Those in which many layers are equal, or many pairs of layers."""
OPTIMIZERS = {
    "sgd": lambda parameters: lt.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: lt.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: lt.optim.AdamW(parameters, lr=1e-3),
}


def step_of(name: str, depth: int, optimizer: str = "sgd", norm: float | None = None):
    """The training step of a model, and its batch for 4 samples."""
    with abstract.mode():
        model = MODELS[name](depth)
        rule = OPTIMIZERS[optimizer](model.parameters())
    for path, tensor in (*model.named_parameters(), *model.named_buffers()):
        lt.cells.register(tensor.cell, f"model.{path}")
    batch = [abstract.tensor((4, 3, 6, 6))] if name == "residual" else [abstract.tensor((4, 6), lt.int64)]
    labels = abstract.tensor((4,) if name == "residual" else (4, 6), lt.int64)

    def step(x, labels):
        loss = F.cross_entropy(model(x), labels.flatten())
        rule.zero_grad()
        loss.backward()
        if norm is not None:
            lt.nn.utils.clip_grad_norm_(model.parameters(), norm)
        rule.step()
        return loss

    return step, [*batch, labels]
