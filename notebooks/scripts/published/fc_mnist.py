"""FC-MNIST in plain PyTorch: 784-500-300-10, dropout 0.2, Adam, batch 256, products in 16 bits.

python fc_mnist.py [--batch_size N] [--steps N]

Published: 358,505 and 358,417 samples/s (CS-1, and CS-2 with release 1.1), 479,188 (CS-2 with release 1.5 and five
input workers), pipelined, 100,000 steps; github.com/argonne-lcf/ai-testbed-userdocs, pages on the CS-2. Extents: the
vendor's model zoo, fc_mnist.
Assumed: pixels arrive as float32 and labels as int64. The digits here are random.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class FCMNIST(nn.Module):
    """Three linear layers."""

    def __init__(self, hidden=(500, 300), dropout=0.2):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, hidden[0]), nn.Linear(*hidden), nn.Linear(hidden[1], 10)
        self.dropout = nn.Dropout(dropout)

    def forward(self, pixels):
        x = self.dropout(F.relu(self.fc1(pixels)))
        x = self.dropout(F.relu(self.fc2(x)))
        return self.fc3(x)


def digits(args):
    """Random digits, as many as the steps need."""
    count = args.steps * args.batch_size
    dataset = TensorDataset(torch.rand(count, 784), torch.randint(0, 10, (count,)))
    return DataLoader(dataset, batch_size=args.batch_size, drop_last=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = FCMNIST()
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
