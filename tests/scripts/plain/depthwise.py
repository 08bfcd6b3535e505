"""A network of depthwise and pointwise convolutions in the style of MobileNet."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
torch.manual_seed(0)


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        wide = 4 * inputs
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()),
            *(nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()),
            *(nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.is_residual else self.body(x)


model = nn.Sequential(
    *(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()),
    *(Inverted(16, 16, 1), Inverted(16, 24, 2), Inverted(24, 24, 1)),
    *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
patterns = torch.randn(10, 3, 32, 32)
for _ in range(STEPS):
    y = torch.randint(0, 10, (16,))
    x = patterns[y] + torch.randn(16, 3, 32, 32)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
