"""github.com/Blealtan/efficient-kan, in the folder efficient-kan: its network and its grid update on random images."""

import os
import sys

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.environ["PROJECTS"], "efficient-kan", "src"))
from efficient_kan import KAN

torch.manual_seed(0)
model = KAN([64, 16, 10])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
images, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))
for step in range(5):
    optimizer.zero_grad()
    output = model(images, update_grid=step == 2)
    loss = nn.CrossEntropyLoss()(output, labels) + 1e-3 * model.regularization_loss()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(loss.item())
