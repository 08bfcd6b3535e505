"""What is lowered to CIRH also runs: programs on the CSX backend give the numbers that their definitions give."""

import json

import numpy as np
import pytest

from tests.conftest import python

# Each program runs on CSX, where layers compute in the half type, and eagerly, where they do not.
SCRIPT = """
import json, os
import cstorch_compat
cstorch_compat.install()
import torch
import torch.nn as nn
import torch.nn.functional as F
import cerebras.pytorch as cstorch

torch.manual_seed(0)
X, IMAGE = torch.randn(4, 6), torch.randn(4, 3, 8, 8)
NUMBERS = torch.tensor([[0, 2, 5, 1, 1, 3], [1, 1, 0, 2, 4, 5], [5, 4, 3, 2, 1, 0], [0, 0, 0, 0, 0, 0]])

class Layers(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.all = nn.Sequential(*layers)

    def forward(self, x):
        return self.all(x)

PROGRAMS = {
    "sort": (lambda: lambda x, i: torch.cat(x.sort(1)[:1]), X),
    "topk": (lambda: lambda x, i: torch.cat([x.topk(2, 1)[0], x.topk(2, 1)[1].float()], 1), X),
    "max": (lambda: lambda x, i: x.max(1)[0] + x.max(1)[1].float(), X),
    "flip": (lambda: lambda x, i: x.flip(0) + x.roll(1, 0) + x.roll(2, 0), X),
    "pad": (lambda: lambda x, i: F.pad(x, (1, 2), value=3.0), X),
    "split": (lambda: lambda x, i: x.split([1, 5], 1)[1] + x.chunk(2, 1)[0].sum(), X),
    "cumsum": (lambda: lambda x, i: x.cumsum(1) + x.cumprod(0), X),
    "gather": (lambda: lambda x, i: x.gather(1, i) + x.scatter(1, i[:, :1], 2.0) + x[i[0, :4] % 4], X),
    "embedding": (lambda: lambda x, i: F.embedding(i % 4, x), X),
    "tests": (lambda: lambda x, i: x * torch.isfinite(x / 0).float() + torch.isnan(x).float() + x * (~(x > 0)), X),
    "band": (lambda: lambda x, i: torch.triu(x) + torch.tril(x, -1) * 2, X),
    "remainder": (lambda: lambda x, i: torch.fmod(x, 0.3) + torch.remainder(i, 4) + i // 2, X),
    "activations": (lambda: lambda x, i: F.elu(x) + F.softplus(x) + F.leaky_relu(x) + F.logsigmoid(x) + F.gelu(x), X),
    "norms": (lambda: lambda x, i: F.normalize(x, dim=1) + x.norm() + F.layer_norm(x, (6,)), X),
    "conv": (lambda: nn.Conv2d(3, 4, 3, padding=1, stride=2), IMAGE),
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 2, stride=2), IMAGE),
    "pools": (lambda: lambda x, i: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2) + F.adaptive_avg_pool2d(x, 1), IMAGE),
    "batch_norm": (lambda: nn.BatchNorm2d(3), IMAGE),
    "group_norm": (lambda: nn.GroupNorm(3, 3), IMAGE),
    "lenet": (lambda: Layers(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)), IMAGE),
}

class Function(nn.Module):
    def __init__(self, made):
        super().__init__()
        self.inner = made
        self.takes_two = not isinstance(made, nn.Module)
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x, i):
        x = x * self.weight
        return self.inner(x, i) if self.takes_two else self.inner(x)

def run(name):
    make, x = PROGRAMS[name]
    torch.manual_seed(1)
    model = Function(make())
    y = model(x, NUMBERS)
    y.float().square().sum().backward()
    want = [y.detach().float(), model.weight.grad]
    model.weight.grad = None
    compiled = cstorch.compile(model, cstorch.backend("CSX"))
    loader = cstorch.utils.data.DataLoader(lambda: [(x, NUMBERS)] * 2)
    executor = cstorch.utils.data.DataExecutor(loader, num_steps=1)
    got = []

    @cstorch.trace
    def step(batch):
        y = compiled(*batch)
        y.float().square().sum().backward()
        return y.float(), model.weight.grad

    @cstorch.step_closure
    def fetch(y, g):
        got.extend([y.clone(), g.clone()])

    for batch in executor:
        fetch(*step(batch))
    with open(f"{name}.json", "w") as file:
        json.dump([[t.tolist() for t in side] for side in (want, got)], file)

for name in PROGRAMS:
    os.makedirs(name)
    child = os.fork()
    if child == 0:
        os.chdir(name)
        run(name)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""
HALF = 2.0**-8
"""Some roundings to float16, relative to the largest element."""


@pytest.fixture(scope="module")
def values(tmp_path_factory) -> dict[str, list]:
    """By program: the eager result and gradient, and those of the wafer."""
    folder = tmp_path_factory.mktemp("wafer")
    done = python("-c", SCRIPT, cwd=folder)
    assert done.returncode == 0, done.stderr
    return {p.stem: json.loads(p.read_text()) for p in folder.rglob("*.json") if p.stem == p.parent.name}


NAMES = """sort topk max flip pad split cumsum gather embedding tests band remainder activations norms conv transposed
    pools batch_norm group_norm lenet""".split()


@pytest.mark.process
@pytest.mark.parametrize("name", NAMES)
def test_program_gives_the_eager_numbers(name, values):
    for want, got in zip(*values[name], strict=True):
        largest = np.abs(np.asarray(want, np.float64)).max()
        np.testing.assert_allclose(got, want, rtol=0, atol=HALF * max(1.0, largest))
