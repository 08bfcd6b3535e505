"""GPT-J 6B with the Cerebras PyTorch API: rotary embedding, attention and the linear layers beside each other.

python gptj.py [--layers N] [--batch_size N] [--steps N]

Published (github.com/argonne-lcf, logs of several releases), 2,048 tokens, weight streaming: 19.8 samples/s on one CS-2
with release 1.9.2, batch 66 as 13,200 samples in 200 steps say; on two CS-2 27.5 (1.7.1, batch 130), 34.0 (1.9.2, batch
130) and 43.7 (2.0.3, batch 120); 44.75 on one CS-3 (2.9, batch 120). A batch is that of all systems.
Extents: the vendor's configuration, 28 layers, d 4096, 16 heads, ff 16384, 64 rotary dimensions, vocabulary 50400.
Assumed: no clipping of gradients. The tokens here are random.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from training import by_heads, options, run

ROTARY = 64
"""Dimensions of a head that are turned."""


def turned(x, cosines, sines):
    """The first dimensions of [batch, heads, length, d] turned in pairs of neighbours, by the place of the token."""
    even, odd = x[..., :ROTARY].unflatten(-1, (-1, 2)).unbind(-1)
    pairs = torch.stack((even * cosines - odd * sines, odd * cosines + even * sines), dim=-1)
    return torch.cat((pairs.flatten(-2), x[..., ROTARY:]), dim=-1)


class Attention(nn.Module):
    """Each token looks at those before it."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        speeds = 10000.0 ** (-torch.arange(0, ROTARY, 2) / ROTARY)
        angles = torch.arange(length)[:, None] * speeds
        self.register_buffer("cosines", angles.cos(), persistent=False)
        self.register_buffer("sines", angles.sin(), persistent=False)

    def forward(self, x):
        query, key, value = (by_heads(f(x), self.heads) for f in (self.query, self.key, self.value))
        cosines, sines = self.cosines.to(query.dtype), self.sines.to(query.dtype)
        scores = turned(query, cosines, sines) @ turned(key, cosines, sines).transpose(-1, -2)
        places = torch.arange(x.shape[1], device=x.device)
        scores = torch.where(places[:, None] >= places, scores / math.sqrt(query.shape[-1]), -1e4)
        mixed = F.softmax(scores, dim=-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """Attention and two linear layers beside each other, both added to their input."""

    def __init__(self, args):
        super().__init__()
        self.norm = nn.LayerNorm(args.width)
        self.attention = Attention(args.width, args.heads, args.length)
        self.up, self.down = nn.Linear(args.width, 4 * args.width), nn.Linear(4 * args.width, args.width)

    def forward(self, x):
        normed = self.norm(x)
        return x + self.attention(normed) + self.down(F.gelu(self.up(normed)))


class GPTJ(nn.Module):
    """Tokens to the loss of the tokens that come next."""

    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(args.vocabulary, args.width)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, args.vocabulary)

    def forward(self, batch):
        tokens, targets = batch
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten().long())


def main():
    args = options(layers=28, width=4096, heads=16, vocabulary=50400, length=2048, batch_size=120)
    run(GPTJ, args, lr=1.2e-4, weight_decay=0.1)


if __name__ == "__main__":
    main()
