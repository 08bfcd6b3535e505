"""A small network learns from a large one: frozen teacher in evaluation mode, divergence at a temperature."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
CLASSES, HEAT = 10, 4.0
torch.manual_seed(0)


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)
    )


def network(width):
    return nn.Sequential(
        *(block(3, width), block(width, 2 * width), block(2 * width, 4 * width)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, CLASSES)),
    )


teacher, student = network(32).eval().requires_grad_(False), network(8)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
for _ in range(STEPS):
    x, y = torch.randn(16, 3, 24, 24), torch.randint(0, CLASSES, (16,))
    with torch.no_grad():
        goal = F.log_softmax(teacher(x) / HEAT, dim=1)
    logits = student(x)
    soft = F.kl_div(F.log_softmax(logits / HEAT, dim=1), goal, reduction="batchmean", log_target=True)
    loss = 0.9 * HEAT**2 * soft + 0.1 * F.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
