"""A normalizing flow of affine couplings learns the density of two moons."""

import sys

import torch
import torch.nn as nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
torch.manual_seed(0)


class Coupling(nn.Module):
    def __init__(self, mask, hidden=64):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(
            nn.Linear(2, hidden), nn.LeakyReLU(), nn.Linear(hidden, hidden), nn.LeakyReLU(), nn.Linear(hidden, 4)
        )

    def forward(self, x):
        scale, shift = self.net(x * self.mask).chunk(2, dim=-1)
        scale = torch.tanh(scale) * (1 - self.mask)
        return x * self.mask + (1 - self.mask) * (x * scale.exp() + shift), scale.sum(-1)


class Flow(nn.Module):
    def __init__(self, couplings=6):
        super().__init__()
        masks = [torch.tensor([float(k % 2), float(1 - k % 2)]) for k in range(couplings)]
        self.couplings = nn.ModuleList(Coupling(mask) for mask in masks)
        self.base = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))

    def log_prob(self, x):
        volume = torch.zeros(len(x))
        for coupling in self.couplings:
            x, part = coupling(x)
            volume = volume + part
        return self.base.log_prob(x) + volume


def moons(count=256):
    angle = torch.pi * torch.rand(count)
    is_upper = torch.rand(count) < 0.5
    x = torch.where(is_upper, angle.cos(), 1 - angle.cos())
    y = torch.where(is_upper, angle.sin(), 0.5 - angle.sin())
    return torch.stack([x, y], dim=-1) + 0.1 * torch.randn(count, 2)


model = Flow()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(STEPS):
    loss = -model.log_prob(moons()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
