"""github.com/johnma2006/mamba-minimal, in the folder mamba-minimal (needs einops): a small model on random tokens."""

import os
import sys

import torch
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.environ["PROJECTS"], "mamba-minimal"))
from model import Mamba, ModelArgs

torch.manual_seed(0)
model = Mamba(ModelArgs(d_model=32, n_layer=2, vocab_size=40))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
tokens = torch.randint(0, 40, (2, 17))
for _ in range(5):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    print(loss.item())
