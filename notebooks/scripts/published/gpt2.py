"""GPT-2 small, or GPT-3 13B by other extents, with the Cerebras PyTorch API.

python gpt2.py [--layers N] [--width N] [--heads N] [--batch_size N] [--steps N]
GPT-3 13B: python gpt2.py --layers 40 --width 5120 --heads 40 --dropout 0 --batch_size 720

Published: 494.4 samples/s on one CS-2 with release 2.3.0, batch 112, 2,048 tokens, without micro-batches (a public log
of the model zoo's params_gpt2_small). Extents: 12 layers, d 768, 12 heads, ff 3072, vocabulary 50257, tied head. Of
the 13B no rate of one system is published: batch 720 is the vendor's configuration.
Assumed: dropout 0.1, no clipping of gradients. The tokens here are random.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from training import by_heads, options, run


class Attention(nn.Module):
    """Each token looks at those before it."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        query, key, value = (by_heads(f(x), self.heads) for f in (self.query, self.key, self.value))
        places = torch.arange(x.shape[1], device=x.device)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        scores = torch.where(places[:, None] >= places, scores, -1e4)
        mixed = self.dropout(F.softmax(scores, dim=-1)) @ value
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """Attention and two linear layers, each added to its input."""

    def __init__(self, args):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(args.width), nn.LayerNorm(args.width)
        self.attention = Attention(args.width, args.heads, args.dropout)
        self.up, self.down = nn.Linear(args.width, 4 * args.width), nn.Linear(4 * args.width, args.width)
        self.dropout = nn.Dropout(args.dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """Tokens to the loss of the tokens that come next."""

    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(args.vocabulary, args.width)
        self.places = nn.Embedding(args.length, args.width)
        self.dropout = nn.Dropout(args.dropout)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.width)

    def forward(self, batch):
        tokens, targets = batch
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.places(places))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten().long())


def main():
    args = options(dropout=0.1, layers=12, width=768, heads=12, vocabulary=50257, length=2048, batch_size=112)
    run(GPT, args, lr=6e-4, weight_decay=0.1)


if __name__ == "__main__":
    main()
