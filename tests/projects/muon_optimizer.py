"""Train with the Muon optimizer.

Source: github.com/KellerJordan/Muon, in the folder Muon.
"""

import os
import sys

import torch

sys.path.insert(0, os.path.join(os.environ["PROJECTS"], "Muon"))
from muon import SingleDeviceMuonWithAuxAdam


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 24), torch.nn.Tanh(), torch.nn.Linear(24, 4)
    )
    hidden = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    optimizer = SingleDeviceMuonWithAuxAdam(
        [
            {"params": hidden, "use_muon": True, "lr": 0.02, "weight_decay": 0.01},
            {"params": others, "use_muon": False, "lr": 3e-3, "betas": (0.9, 0.95), "weight_decay": 0.01},
        ]
    )
    x = torch.randn(64, 16)
    y = torch.randn(64, 4)
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())


main()
