"""Train the conditional random field of pytorch-crf on random tag sequences.

Packages: pytorch-crf.
"""

import torch
from torchcrf import CRF


def main():
    torch.manual_seed(0)
    emit = torch.nn.Linear(6, 4)
    crf = CRF(4, batch_first=True)
    optimizer = torch.optim.Adam([*emit.parameters(), *crf.parameters()], lr=0.05)
    x = torch.randn(5, 7, 6)
    tags = torch.randint(0, 4, (5, 7))
    mask = torch.arange(7)[None, :] < torch.tensor([7, 5, 6, 3, 7])[:, None]
    for _ in range(5):
        optimizer.zero_grad()
        loss = -crf(emit(x), tags, mask=mask, reduction="token_mean")
        loss.backward()
        optimizer.step()
        print(loss.item())
    assert [len(t) for t in crf.decode(emit(x), mask)] == [7, 5, 6, 3, 7]


main()
