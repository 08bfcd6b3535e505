"""FC-MNIST in plain PyTorch: 784-500-300-10, dropout 0.2, Adam, batch 256, products in 16 bits.

python fc_mnist.py [--hidden N ...] [--dropout P] [--batch_size N] [--steps N]
The sample of the PyTorch model zoo: --hidden 50 50 50 50 50 50 50 50 50 50 --dropout 0 --batch_size 128

Published: 358,505 and 358,417 samples/s (CS-1, and CS-2 with release 1.1), 479,188 (CS-2 with release 1.5 and five
input workers), pipelined, 100,000 steps; github.com/argonne-lcf/ai-testbed-userdocs, pages on the CS-2. The sample of
the PyTorch model zoo, with ten layers of 50 and batch 128: 132,247 (CS-2, release 1.7.1, pipelined) and 125,599 (CS-2,
1.9.2, streaming), the rates of the last report of the logs. Extents: the vendor's model zoo, fc_mnist.
Assumed: Adam for all (the sample has SGD with momentum),
pixels arrive as float32 and labels as int64. The digits here are random.
"""

import argparse
from itertools import pairwise

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class FCMNIST(nn.Module):
    """Linear layers with the widths `hidden` between them."""

    def __init__(self, hidden=(500, 300), dropout=0.2):
        super().__init__()
        widths = 784, *hidden, 10
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.dropout = nn.Dropout(dropout)

    def forward(self, pixels):
        x = pixels
        for layer in self.layers[:-1]:
            x = self.dropout(F.relu(layer(x)))
        return self.layers[-1](x)


def digits(args):
    """Random digits, as many as the steps need."""
    count = args.steps * args.batch_size
    dataset = TensorDataset(torch.rand(count, 784), torch.randint(0, 10, (count,)))
    return DataLoader(dataset, batch_size=args.batch_size, drop_last=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, nargs="+", default=[500, 300])
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = FCMNIST(args.hidden, args.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    model.train()
    for pixels, labels in digits(args):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(pixels)
        loss = F.cross_entropy(logits.float(), labels)
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
