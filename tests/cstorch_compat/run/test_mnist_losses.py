"""The CPU backend gives PyTorch's losses: 50 steps of the MNIST network from the same weights and batches."""

import json
import pathlib

import numpy as np
import pytest

GOLDEN = pathlib.Path(__file__).parents[2] / "golden"

SCRIPT = f"""
import sys
sys.path.insert(0, {str(GOLDEN)!r})
from mnist_batches import STEPS, batches

torch.manual_seed(0)
backend = cstorch.backend("CPU")
model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

@cstorch.trace
def step(batch):
    optimizer.zero_grad()
    loss = F.cross_entropy(compiled(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss

@cstorch.step_closure
def log(loss):
    print("loss", loss.item().hex())

data = cstorch.utils.data.DataLoader(lambda: [(torch.tensor(x), torch.tensor(y)) for x, y in batches()])
for batch in cstorch.utils.data.DataExecutor(data, num_steps=STEPS):
    log(step(batch))
"""


@pytest.mark.slow
def test_fifty_losses_equal_pytorch_within_1e_5(script):
    done = script(SCRIPT)
    assert done.returncode == 0, done.stderr
    ours = [float.fromhex(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("loss")]
    theirs = json.loads((GOLDEN / "mnist_losses.json").read_text())["losses"]
    assert len(ours) == 50
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
