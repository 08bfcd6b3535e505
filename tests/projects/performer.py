"""performer-pytorch (pip, with einops, local-attention, axial-positional-embedding): a reversible language model."""

import torch
from performer_pytorch import PerformerLM
from torch.nn import functional as F

for reversible in (False, True):
    torch.manual_seed(0)
    model = PerformerLM(
        num_tokens=40, max_seq_len=32, dim=32, depth=2, heads=4, dim_head=8, causal=False, nb_features=16,
        reversible=reversible, ff_chunks=2, ff_dropout=0.1, attn_dropout=0.1,
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 40, (2, 33))
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        print("reversible" if reversible else "plain", loss.item())
