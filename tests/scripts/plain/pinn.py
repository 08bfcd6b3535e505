"""A network solves Burgers' equation: second derivatives by autograd inside of the loss."""

import math
import sys

import torch
import torch.nn as nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
torch.manual_seed(0)
net = nn.Sequential(
    *(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
)


def derivative(y, x):
    return torch.autograd.grad(y, x, grad_outputs=torch.ones_like(y), create_graph=True)[0]


def residual(t, x):
    u = net(torch.cat([t, x], dim=1))
    u_t, u_x = derivative(u, t), derivative(u, x)
    return u_t + u * u_x - 0.01 / math.pi * derivative(u_x, x)


optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
start = torch.linspace(-1, 1, 64)[:, None]
for _ in range(STEPS):
    t = torch.rand(256, 1, requires_grad=True)
    x = (2 * torch.rand(256, 1) - 1).requires_grad_(True)
    inside = residual(t, x).pow(2).mean()
    first = (net(torch.cat([torch.zeros_like(start), start], dim=1)) + torch.sin(math.pi * start)).pow(2).mean()
    edge = torch.rand(64, 1)
    border = net(torch.cat([edge, torch.ones_like(edge)], dim=1)).pow(2).mean()
    loss = inside + first + border
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
