"""A small CNN tells apart drawings of the letters' neighbourhoods: plain PyTorch."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from text import LETTERS, windows
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = torch.tensor(windows(12, 400))
images = torch.eye(len(LETTERS))[rows[:, :12]].unsqueeze(1)
data = TensorDataset(images, rows[:, 12])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 8, 3, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 2 * 6, len(LETTERS))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.norm(self.conv2(x)))
        return self.head(x.flatten(1))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50)
step = 0
while step < 50:
    for x, y in DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        print("loss", repr(loss.item()))
        step += 1
        if step == 50:
            break
