"""A U-Net finds discs in noisy images: convolutions, group norm, bilinear upsampling, skip connections."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm1 = nn.GroupNorm(4, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm2 = nn.GroupNorm(4, outputs)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(x)))


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down1, self.down2 = Block(1, width), Block(width, 2 * width)
        self.middle = Block(2 * width, 4 * width)
        self.up2, self.up1 = Block(6 * width, 2 * width), Block(3 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        c = F.interpolate(c, scale_factor=2, mode="bilinear", align_corners=False)
        b = self.up2(torch.cat([c, b], 1))
        b = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.up1(torch.cat([b, a], 1)))


def batch(count=8, side=32):
    line = torch.arange(side, dtype=torch.float32)
    centre = torch.rand(count, 2, 1, 1) * side
    radius = 4 + 6 * torch.rand(count, 1, 1)
    mask = (line[:, None] - centre[:, 0]) ** 2 + (line - centre[:, 1]) ** 2 < radius**2
    mask = mask.float().unsqueeze(1)
    return mask + 0.5 * torch.randn_like(mask), mask


model = UNet()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(STEPS):
    image, mask = batch()
    logits = model(image)
    overlap = torch.sigmoid(logits) * mask
    dice = 1 - (2 * overlap.sum() + 1) / (torch.sigmoid(logits).sum() + mask.sum() + 1)
    loss = F.binary_cross_entropy_with_logits(logits, mask) + dice
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
