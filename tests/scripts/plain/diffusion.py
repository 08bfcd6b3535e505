"""A diffusion model removes noise from small images: time embedding, group norm, SiLU, averaged weights."""

import copy
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
TIMES = 200
torch.manual_seed(0)


def time_embedding(t, width):
    rates = torch.exp(-math.log(10000.0) * torch.arange(width // 2) / (width // 2))
    angles = t[:, None].float() * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Residual(nn.Module):
    def __init__(self, width, time_width):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, width), nn.Conv2d(width, width, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, width), nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(time_width, width)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(t))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(h)))


class Denoiser(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, 2 * width))
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Residual(width, 2 * width) for _ in range(2))
        self.up = nn.ConvTranspose2d(width, width, 4, stride=2, padding=1)
        self.last = nn.Conv2d(width, 1, 3, padding=1)
        self.width = width

    def forward(self, x, t):
        t = self.time(time_embedding(t, self.width))
        first = self.first(x)
        h = self.down(first)
        for block in self.blocks:
            h = block(h, t)
        return self.last(F.silu(self.up(h) + first))


beta = torch.linspace(1e-4, 0.02, TIMES)
kept = torch.cumprod(1 - beta, dim=0)
line = torch.linspace(-1, 1, 16)
model = Denoiser()
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for _ in range(STEPS):
    slope = torch.randn(16, 2, 1, 1)
    image = torch.tanh(3 * (slope[:, 0] * line[:, None] + slope[:, 1] * line)).unsqueeze(1)
    t = torch.randint(0, TIMES, (len(image),))
    noise = torch.randn_like(image)
    share = kept[t][:, None, None, None]
    noisy = share.sqrt() * image + (1 - share).sqrt() * noise
    loss = F.mse_loss(model(noisy, t), noise)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    with torch.no_grad():
        for a, p in zip(average.parameters(), model.parameters(), strict=True):
            a.mul_(0.99).add_(p, alpha=0.01)
    print("loss", repr(loss.item()))
