"""Llama2-7B with the Cerebras PyTorch API: gated linear layers, norms by the root mean square, rotary embedding.

python llama2_7b.py [--layers N] [--length N] [--batch_size N] [--steps N]

Published (github.com/argonne-lcf): 20.45 samples/s on one CS-2, batch 99, March 2024; 31.98 on one CS-3 with release
2.9, batch 1,024; weight streaming. Extents: the vendor's params_llama2_7b, 32 layers, d 4096, 32 heads, ff 11008,
vocabulary 32000.
Assumed: sequences of 4,096 tokens as in that configuration, which the logs do not print, and no clipping of gradients.
The tokens here are random.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from training import by_heads, options, run


class RMSNorm(nn.Module):
    """Divide by the root of the mean square."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def turned(x, cosines, sines):
    """[batch, heads, length, d] turned by the place of the token; a pair is a dimension and its place in the half."""
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cosines - high * sines, high * cosines + low * sines), dim=-1)


class Attention(nn.Module):
    """Each token looks at those before it. A head of keys and values serves `heads` / `kv_heads` heads of queries."""

    def __init__(self, width, heads, kv_heads, length, base):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        size = width // heads
        self.query, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(width, kv_heads * size, bias=False) for _ in range(2))
        angles = torch.arange(length)[:, None] * float(base) ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def forward(self, x):
        query = by_heads(self.query(x), self.heads)
        key, value = (self.repeated(by_heads(f(x), self.kv_heads)) for f in (self.key, self.value))
        cosines, sines = self.cosines.to(query.dtype), self.sines.to(query.dtype)
        scores = turned(query, cosines, sines) @ turned(key, cosines, sines).transpose(-1, -2)
        places = torch.arange(x.shape[1], device=x.device)
        scores = torch.where(places[:, None] >= places, scores / math.sqrt(query.shape[-1]), -1e4)
        mixed = F.softmax(scores, dim=-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(x.shape))

    def repeated(self, x):
        """[batch, kv_heads, length, d] as [batch, heads, length, d]."""
        times = self.heads // self.kv_heads
        if times == 1:
            return x
        batch, heads, length, size = x.shape
        return x[:, :, None].expand(batch, heads, times, length, size).reshape(batch, self.heads, length, size)


class Block(nn.Module):
    """Attention and gated linear layers, each added to its input."""

    def __init__(self, args):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(args.width), RMSNorm(args.width)
        self.attention = Attention(args.width, args.heads, args.kv_heads, args.length, args.rotary_base)
        self.gate, self.up = (nn.Linear(args.width, args.filter, bias=False) for _ in range(2))
        self.down = nn.Linear(args.filter, args.width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        normed = self.norm2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    """Tokens to the loss of the tokens that come next."""

    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(args.vocabulary, args.width)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm = RMSNorm(args.width)
        self.head = nn.Linear(args.width, args.vocabulary, bias=False)

    def forward(self, batch):
        tokens, targets = batch
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten().long())


def main():
    extents = {"layers": 32, "width": 4096, "heads": 32, "kv_heads": 32, "filter": 11008, "vocabulary": 32000}
    args = options(**extents, length=4096, rotary_base=10_000, batch_size=99)
    run(Llama, args, lr=3e-4, weight_decay=0.1)


if __name__ == "__main__":
    main()
