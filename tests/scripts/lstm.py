"""An LSTM reads letters one by one and guesses the next: plain PyTorch."""

import torch
import torch.nn as nn
from text import LETTERS, windows
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = torch.tensor(windows(10, 400))
loader = DataLoader(TensorDataset(rows[:, :-1], rows[:, 1:]), batch_size=16, shuffle=True)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS), 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True)
        self.head = nn.Linear(32, len(LETTERS))

    def forward(self, x):
        states, _ = self.lstm(self.embed(x))
        return self.head(states)


model = Reader()
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.98)
step = 0
while step < 50:
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).reshape(-1, len(LETTERS)), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        print("loss", repr(loss.item()))
        step += 1
        if step == 50:
            break
