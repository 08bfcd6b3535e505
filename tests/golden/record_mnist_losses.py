"""Record the losses that PyTorch prints for the network of the MNIST script, once, into mnist_losses.json.

    python tests/golden/record_mnist_losses.py        # in an environment with torch and numpy

The initial weights are those that `torch.manual_seed(0)` gives; the batches are the digits that ship with the project,
enlarged to 28x28 by repetition, in order. `tests/cstorch_compat/run/test_mnist_losses.py` trains on the same.
"""

import json
import pathlib
import sys

import torch
from mnist_batches import batches
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for images, labels in batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.tensor(images)), torch.tensor(labels))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    first = {name: float(p.double().sum()) for name, p in model.named_parameters()}
    record = {"torch": torch.__version__, "losses": losses, "last_parameter_sums": first}
    (pathlib.Path(__file__).parent / "mnist_losses.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"torch {torch.__version__}: {losses[0]:.6f} ... {losses[-1]:.6f}", file=sys.stderr)


if __name__ == "__main__":
    main()
