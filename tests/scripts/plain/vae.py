"""A variational autoencoder of small images: reparametrised normal draws and a divergence in the loss."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
torch.manual_seed(0)


class VAE(nn.Module):
    def __init__(self, size=784, hidden=256, code=16):
        super().__init__()
        self.hidden = nn.Linear(size, hidden)
        self.mean, self.log_variance = nn.Linear(hidden, code), nn.Linear(hidden, code)
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, size))

    def forward(self, x):
        h = F.relu(self.hidden(x))
        mean, log_variance = self.mean(h), self.log_variance(h)
        code = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return self.decoder(code), mean, log_variance


line = torch.linspace(-1, 1, 28)
centre = torch.rand(640, 2, 1, 1) - 0.5
images = torch.exp(-8 * ((line[:, None] - centre[:, 0]) ** 2 + (line - centre[:, 1]) ** 2)).flatten(1)
loader = DataLoader(TensorDataset(images), batch_size=64, shuffle=True)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
step = 0
while step < STEPS:
    for (x,) in loader:
        logits, mean, log_variance = model(x)
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        loss = (reconstruction + divergence) / len(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", repr(loss.item()))
        step += 1
        if step == STEPS:
            break
