"""An LSTM encoder and decoder forecast noisy waves, with teacher forcing in half of the steps."""

import random
import sys

import torch
import torch.nn as nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
BATCH, PAST, FUTURE = 32, 24, 8
torch.manual_seed(0)
random.seed(0)


class Forecaster(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.encoder = nn.LSTM(1, hidden, batch_first=True)
        self.decoder = nn.LSTMCell(1, hidden)
        self.head = nn.Linear(hidden, 1)

    def forward(self, past, future=None):
        _, (h, c) = self.encoder(past)
        h, c = h[0], c[0]
        value, outputs = past[:, -1], []
        for t in range(FUTURE):
            h, c = self.decoder(value, (h, c))
            predicted = self.head(h)
            outputs.append(predicted)
            is_forced = future is not None and random.random() < 0.5
            value = future[:, t] if is_forced else predicted
        return torch.stack(outputs, dim=1)


def batch():
    phase, speed = 6.28 * torch.rand(BATCH, 1), 0.2 + 0.3 * torch.rand(BATCH, 1)
    waves = torch.sin(phase + speed * torch.arange(PAST + FUTURE)) + 0.05 * torch.randn(BATCH, PAST + FUTURE)
    return waves[:, :PAST, None], waves[:, PAST:, None]


model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(STEPS):
    past, future = batch()
    loss = nn.functional.mse_loss(model(past, future), future)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print("loss", repr(loss.item()))
