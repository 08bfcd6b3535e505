"""Model-agnostic meta-learning of sine waves: second derivatives through inner steps of gradient descent."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
TASKS, SAMPLES, INNER, RATE = 4, 10, 2, 0.01
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(STEPS):
    losses = []
    for _ in range(TASKS):
        height, phase = 0.1 + 4.9 * torch.rand(1), torch.pi * torch.rand(1)
        x = 10 * torch.rand(2, SAMPLES, 1) - 5
        y = height * torch.sin(x - phase)
        weights = dict(model.named_parameters())
        for _ in range(INNER):
            loss = F.mse_loss(functional_call(model, weights, (x[0],)), y[0])
            gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            weights = {name: w - RATE * g for (name, w), g in zip(weights.items(), gradients, strict=True)}
        losses.append(F.mse_loss(functional_call(model, weights, (x[1],)), y[1]))
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
