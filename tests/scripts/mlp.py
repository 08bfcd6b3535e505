"""An MLP guesses the next letter from the five before it: plain PyTorch."""

import torch
from text import LETTERS, windows
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = torch.tensor(windows(5, 800))
one_hot = torch.eye(len(LETTERS))
data = TensorDataset(one_hot[rows[:, :5]].flatten(1), rows[:, 5])
loader = DataLoader(data, batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(5 * len(LETTERS), 64), nn.Tanh(), nn.Linear(64, len(LETTERS)))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.7)
step = 0
while step < 50:
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        print("loss", repr(loss.item()))
        step += 1
        if step == 50:
            break
