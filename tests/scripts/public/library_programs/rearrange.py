"""einops: rearrange, reduce, repeat, einsum and the layers, in a net that is trained."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

torch.manual_seed(0)
net = torch.nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
    torch.nn.Linear(48, 16),
    torch.nn.GELU(),
    EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=16, d=8),
    Reduce("b t d -> b d", "mean"),
    torch.nn.Linear(8, 3),
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
images, labels = torch.randn(8, 3, 16, 16), torch.arange(8) % 3
for _ in range(5):
    loss = torch.nn.functional.cross_entropy(net(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.6f}")
x = torch.arange(24.0).reshape(2, 3, 4)
print("rearrange", rearrange(x, "a (b c) d -> c (a d) b", c=1).sum(1).flatten().tolist())
print("reduce", reduce(x, "a b d -> a", "max").tolist(), reduce(x, "a b d -> d", "sum").tolist())
print("repeat", repeat(x[0, 0], "d -> d n", n=2).flatten().tolist())
print("einsum", einsum(x, x, "a b d, a c d -> b c").flatten().tolist())
packed, shapes = pack([x, x[:, 0]], "a * d")
print("pack", list(packed.shape), [list(t.shape) for t in unpack(packed, shapes, "a * d")])
