"""Train a tiny vision transformer that is written with einops.

Packages: einops.
"""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce


class Attention(torch.nn.Module):
    """Self-attention with a class token, by einops' functions."""

    def __init__(self):
        super().__init__()
        self.token = torch.nn.Parameter(torch.randn(16))
        self.to_qkv = torch.nn.Linear(16, 48)

    def forward(self, x):
        token = repeat(self.token, "d -> b 1 d", b=len(x))
        x, shapes = pack([token, x], "b * d")
        q, k, v = rearrange(self.to_qkv(x), "b n (three h d) -> three b h n d", three=3, h=4)
        weights = einsum(q, k, "b h i d, b h j d -> b h i j").softmax(-1)
        out = rearrange(einsum(weights, v, "b h i j, b h j d -> b h i d"), "b h n d -> b n (h d)")
        token, rest = unpack(out, shapes, "b * d")
        return rest + reduce(token, "b n d -> b 1 d", "mean")


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
        EinMix("b n i -> b n o", weight_shape="i o", bias_shape="o", i=48, o=16),
        Attention(),
        Reduce("b n d -> b d", "max"),
        torch.nn.Linear(16, 3),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(6, 3, 8, 12), torch.randint(0, 3, (6,))
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())


main()
