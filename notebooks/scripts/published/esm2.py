"""ESM-2 of 35 M weights with the Cerebras PyTorch API: pre-training on proteins with masked residues.

python esm2.py [--layers N] [--batch_size N] [--steps N]

Published: 982 samples/s on one CS-3 with release 2.9, batch 2,048 (github.com/argonne-lcf, page "Example Programs"; the
100 steps after the first report). The input workers limited the run: it made up for the 9 s of saving a checkpoint.
Extents: the vendor's params_esm2_t12_35M_UR50D, 12 layers, d 480, 20 heads, ff 1920, 33 residues, 1,026 places.
Assumed: no clipping of gradients, places without the rotary embedding of the original. The residues here are random.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from training import by_heads, options, run


class Attention(nn.Module):
    """Each residue looks at all that are no padding."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask):
        query, key, value = (by_heads(f(x), self.heads) for f in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + mask
        mixed = F.softmax(scores, dim=-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """Attention and two linear layers, each added to its input."""

    def __init__(self, args):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(args.width), nn.LayerNorm(args.width)
        self.attention = Attention(args.width, args.heads)
        self.up, self.down = nn.Linear(args.width, 4 * args.width), nn.Linear(4 * args.width, args.width)

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ESM2(nn.Module):
    """Residues to the loss of the masked ones."""

    def __init__(self, args):
        super().__init__()
        self.residues = nn.Embedding(args.vocabulary, args.width)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.width)
        self.transform, self.transform_norm = nn.Linear(args.width, args.width), nn.LayerNorm(args.width)

    def forward(self, batch):
        x = self.residues(batch["residues"])
        mask = ((1.0 - batch["is_residue"]) * -1e4)[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        x = self.transform_norm(F.gelu(self.transform(self.norm(x))))
        logits = F.linear(x, self.residues.weight)
        losses = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten().long(), reduction="none")
        return (losses * batch["is_masked"].flatten()).sum() / x.shape[0]


def proteins(args):
    """Random proteins, as the model's forward takes them."""
    samples = [
        {
            "residues": torch.randint(0, args.vocabulary, (args.length,), dtype=torch.int32),
            "is_residue": torch.ones(args.length),
            "labels": torch.randint(0, args.vocabulary, (args.length,), dtype=torch.int32),
            "is_masked": (torch.rand(args.length) < 0.15).float(),
        }
        for _ in range(args.steps * args.batch_size)
    ]
    return torch.utils.data.DataLoader(samples, batch_size=args.batch_size, drop_last=True)


def main():
    sizes = {"layers": 12, "width": 480, "heads": 20, "vocabulary": 33, "length": 1026}
    run(ESM2, options(batch_size=8, **sizes), proteins, lr=4e-4, weight_decay=0.01)


if __name__ == "__main__":
    main()
