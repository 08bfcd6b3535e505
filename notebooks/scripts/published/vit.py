"""ViT-Base with the Cerebras PyTorch API: patches of 16 x 16 pixels, a class token, and 1,000 classes.

python vit.py [--layers N] [--batch_size N] [--steps N]

Published, ImageNet-1k from JPEG files, batch 2,850: 657.4 samples/s on one CS-2 with release 2.4 and two input workers
(a public log, which prints the configuration), 776.2 on one CS-3 with release 2.9 (github.com/argonne-lcf, page
"Example Programs"). Extents: the vendor's params_vit_base_patch_16_imagenet_1k, 12 layers, d 768, 12 heads, ff 3072.
Assumed: dropout 0.1 as in the configuration, no clipping of gradients. The pictures here are random.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from training import by_heads, options, run


class Attention(nn.Module):
    """Each patch looks at all patches."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        query, key, value = (by_heads(f(x), self.heads) for f in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
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


class ViT(nn.Module):
    """Pictures to the loss of their classes."""

    def __init__(self, args):
        super().__init__()
        self.patches = nn.Conv2d(3, args.width, args.patch, stride=args.patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, args.width))
        self.places = nn.Embedding((args.pixels // args.patch) ** 2 + 1, args.width)
        self.dropout = nn.Dropout(args.dropout)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.layers))
        self.norm, self.head = nn.LayerNorm(args.width), nn.Linear(args.width, args.classes)

    def forward(self, batch):
        pictures, classes = batch
        x = self.patches(pictures).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), dim=1)
        x = self.dropout(x + self.places(torch.arange(x.shape[1], device=x.device)))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x[:, 0])), classes.long())


def pictures(args):
    """Random pictures with random classes."""
    count = args.steps * args.batch_size
    values = torch.rand(count, 3, args.pixels, args.pixels)
    dataset = torch.utils.data.TensorDataset(values, torch.randint(0, args.classes, (count,), dtype=torch.int32))
    return torch.utils.data.DataLoader(dataset, batch_size=args.batch_size, drop_last=True)


def main():
    sizes = {"layers": 12, "width": 768, "heads": 12, "pixels": 224, "patch": 16, "classes": 1000}
    run(ViT, options(dropout=0.1, batch_size=8, **sizes), pictures, lr=5e-4, weight_decay=3e-4)


if __name__ == "__main__":
    main()
