"""timm (pip install timm): five steps of a small network by each of its optimizers."""

import sys

import timm.optim
import torch

SKIPPED = ("bnb", "apex", "fused", "adahessian", "kron")
"""Beginnings of names of optimizers that need other packages, second derivatives, or complex numbers."""

for name in timm.optim.list_optimizers():
    if name.startswith(SKIPPED) or (len(sys.argv) > 1 and name not in sys.argv[1:]):
        continue
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    optimizer = timm.optim.create_optimizer_v2(model, opt=name, lr=0.01, weight_decay=0.05)
    x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(name, loss.item())
