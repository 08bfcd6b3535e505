"""ResNet-18 on small pictures: a training step of torchvision's net, to plan or to run.

python resnet18.py [--batch_size N] [--steps N]
The pictures here are random, of 32 x 32 pixels in ten classes.
"""

import argparse

import torch
import torch.nn.functional as F
import torchvision


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(args.steps):
        pictures, labels = torch.randn(args.batch_size, 3, 32, 32), torch.randint(0, 10, (args.batch_size,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
