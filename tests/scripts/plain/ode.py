"""A neural ordinary differential equation learns a spiral, by backward through a Runge-Kutta integrator."""

import sys

import torch
import torch.nn as nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
torch.manual_seed(0)
spiral = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))

    def forward(self, y):
        return self.net(y**3)


def integrate(field, y, times):
    path = [y]
    for h in (times[1:] - times[:-1]).tolist():
        a = field(y)
        b = field(y + 0.5 * h * a)
        c = field(y + 0.5 * h * b)
        d = field(y + h * c)
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
        path.append(y)
    return torch.stack(path)


times = torch.linspace(0, 25, 1000)
with torch.no_grad():
    truth = integrate(lambda y: (y**3) @ spiral, torch.tensor([[2.0, 0.0]]), times)
field = Field()
optimizer = torch.optim.RMSprop(field.parameters(), lr=1e-3)
for _ in range(STEPS):
    starts = torch.randperm(len(times) - 10)[:20]
    path = torch.stack([truth[starts + i] for i in range(10)])
    loss = (integrate(field, path[0], times[:10]) - path).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
