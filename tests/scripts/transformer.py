"""A transformer over letters: plain PyTorch."""

import torch
import torch.nn as nn
from text import LETTERS, windows
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
LENGTH = 12
rows = torch.tensor(windows(LENGTH, 400))
loader = DataLoader(TensorDataset(rows[:, :-1], rows[:, 1:]), batch_size=16, shuffle=True)


class Letters(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.letter = nn.Embedding(len(LETTERS), width)
        self.place = nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, len(LETTERS))

    def forward(self, x):
        h = self.letter(x) + self.place(torch.arange(LENGTH))
        mask = torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), 1)
        return self.head(self.body(h, mask=mask))


model = Letters()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=60)
step = 0
while step < 50:
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).reshape(-1, len(LETTERS)), y.reshape(-1))
        loss.backward()
        optimizer.step()
        scheduler.step()
        print("loss", repr(loss.item()))
        step += 1
        if step == 50:
            break
