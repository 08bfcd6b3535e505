"""Differentiate through two inner steps of SGD with higher, as MAML does.

Packages: higher.
"""

import higher
import torch


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    outer = torch.optim.Adam(model.parameters(), lr=0.05)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        outer.zero_grad()
        total = 0.0
        for _ in range(2):
            scale = torch.randn(1)
            x = torch.randn(10, 3)
            with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (fast, steps):
                for _ in range(2):
                    steps.step((fast(x) - scale * x.sum(1, keepdim=True)).pow(2).mean())
                loss = (fast(x) - scale * x.sum(1, keepdim=True)).pow(2).mean()
                loss.backward()
                total += loss.item()
        outer.step()
        print(total)


main()
