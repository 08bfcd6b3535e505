"""Train the layers of loralib.

Packages: loralib.
"""

import loralib
import torch


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        loralib.Embedding(20, 8, r=2),
        torch.nn.Flatten(),
        loralib.Linear(32, 16, r=4, lora_alpha=8),
        torch.nn.ReLU(),
        loralib.MergedLinear(16, 6, r=2, enable_lora=[True, False]),
    )
    loralib.mark_only_lora_as_trainable(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
    x, y = torch.randint(0, 20, (8, 4)), torch.randn(8, 6)
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())
    model.eval()
    assert all("lora_" in name for name in loralib.lora_state_dict(model))


main()
