"""A vision transformer with dropout classifies images by their direction of stripes."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
torch.manual_seed(0)
CLASSES = 8


class Layer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )
        self.heads, self.drop = heads, nn.Dropout(dropout)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        weights = self.drop(F.softmax(q @ k.transpose(-2, -1) * (w // self.heads) ** -0.5, dim=-1))
        x = x + self.drop(self.out((weights @ v).transpose(1, 2).reshape(b, n, w)))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, side=32, patch=4, width=64, heads=4, depth=4, dropout=0.1):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2 + 1, width))
        self.drop = nn.Dropout(dropout)
        self.layers = nn.Sequential(*(Layer(width, heads, dropout) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.place
        return self.head(self.norm(self.layers(self.drop(x)))[:, 0])


line = torch.linspace(-1, 1, 32)
model = ViT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
for _ in range(STEPS):
    y = torch.randint(0, CLASSES, (16,))
    angle = (y * torch.pi / CLASSES)[:, None, None]
    wave = torch.sin(12 * (angle.cos() * line[:, None] + angle.sin() * line))
    x = wave[:, None] + 0.3 * torch.randn(16, 3, 32, 32)
    loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print("loss", repr(loss.item()))
