"""Explain a small network by captum's attributions while it is trained.

Packages: captum.
"""

import numpy
import torch
from captum.attr import DeepLift, GradientShap, IntegratedGradients, LayerConductance, NeuronConductance, Saliency


class Network(torch.nn.Module):
    """Two layers with an activation."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(5, 8)
        self.relu = torch.nn.ReLU()
        self.second = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.second(self.relu(self.first(x)))


def explain(model, x):
    """Return one number from several attributions of class 1."""
    base = torch.zeros_like(x)
    parts, delta = IntegratedGradients(model).attribute(x, base, target=1, return_convergence_delta=True)
    total = parts.pow(2).sum() + delta.abs().sum()
    total += Saliency(model).attribute(x, target=1).sum()
    total += DeepLift(model).attribute(x, base, target=1).pow(2).sum()
    total += LayerConductance(model, model.first).attribute(x, base, target=1).pow(2).sum()
    total += NeuronConductance(model, model.first).attribute(x, (2,), target=1).pow(2).sum()
    return total + GradientShap(model).attribute(x, torch.stack([base[0], x[0]]), target=1).pow(2).sum()


def main():
    torch.manual_seed(0)
    numpy.random.seed(0)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(6, 5), torch.randint(0, 3, (6,))
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print((loss + explain(model, x)).item())


main()
