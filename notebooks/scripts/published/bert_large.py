"""BERT-large with the Cerebras PyTorch API: pre-training with masked tokens and the next sentence, or its evaluation.

python bert_large.py [--mode train|eval] [--layers N] [--batch_size N] [--steps N]

Published, one system, sequences of 128 tokens (github.com/argonne-lcf, pages "Example Programs" of each release):
8,360 samples/s (CS-2, release 1.7.1, pipelined), 6,400 (CS-2, 1.9.2), 4,048 (CS-2, 2.0.3), all with batch 1,024 as the
samples and steps of the logs say; evaluation 6,666 (CS-3, 2.10) with batch 256, as 220 batches in 8.45 s say.
Extents: the vendor's configurations, 24 layers, d 1024, 16 heads, ff 4096, vocabulary 30522, 20 masked tokens a sample.
Assumed: dropout 0.1 as in the configurations, no clipping of gradients. The tokens here are random.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from training import by_heads, options, run

MASKED = 20


class Attention(nn.Module):
    """Each token looks at all that are no padding."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask):
        query, key, value = (by_heads(f(x), self.heads) for f in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + mask
        mixed = self.dropout(F.softmax(scores, dim=-1)) @ value
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    """Attention and two linear layers; each sum is normed."""

    def __init__(self, args):
        super().__init__()
        self.attention = Attention(args.width, args.heads, args.dropout)
        self.up, self.down = nn.Linear(args.width, args.filter), nn.Linear(args.filter, args.width)
        self.norm1, self.norm2 = nn.LayerNorm(args.width), nn.LayerNorm(args.width)
        self.dropout = nn.Dropout(args.dropout)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class BERT(nn.Module):
    """Tokens to the loss of the masked ones and of the next sentence."""

    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(args.vocabulary, args.width)
        self.places = nn.Embedding(args.length, args.width)
        self.segments = nn.Embedding(2, args.width)
        self.norm, self.dropout = nn.LayerNorm(args.width), nn.Dropout(args.dropout)
        self.layers = nn.ModuleList(Layer(args) for _ in range(args.layers))
        self.pooler = nn.Linear(args.width, args.width)
        self.next_sentence = nn.Linear(args.width, 2)
        self.transform, self.transform_norm = nn.Linear(args.width, args.width), nn.LayerNorm(args.width)
        self.bias = nn.Parameter(torch.zeros(args.vocabulary))

    def forward(self, batch):
        tokens = batch["tokens"]
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.places(places) + self.segments(batch["segments"])
        x = self.dropout(self.norm(x))
        mask = ((1.0 - batch["is_token"]) * -1e4)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        sentence = self.next_sentence(torch.tanh(self.pooler(x[:, 0])))
        # Only the masked places are worth the product with the whole vocabulary.
        index = batch["places"].long().unsqueeze(-1).expand(-1, -1, x.shape[-1])
        masked = self.transform_norm(F.gelu(self.transform(torch.gather(x, 1, index))))
        logits = F.linear(masked, self.tokens.weight, self.bias)
        loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten().long())
        return loss + F.cross_entropy(sentence, batch["is_next"].long())


def sentences(args):
    """Random sentences, as the model's forward takes them."""

    def numbers(below, *shape):
        return torch.randint(0, below, shape, dtype=torch.int32)

    samples = [
        {
            "tokens": numbers(args.vocabulary, args.length),
            "segments": numbers(2, args.length),
            "is_token": torch.ones(args.length),
            "places": numbers(args.length, MASKED),
            "labels": numbers(args.vocabulary, MASKED),
            "is_next": numbers(2)[()],
        }
        for _ in range(args.batch_size)
    ]
    return torch.utils.data.DataLoader(samples * args.steps, batch_size=args.batch_size, drop_last=True)


def main():
    sizes = {"layers": 24, "width": 1024, "heads": 16, "filter": 4096, "vocabulary": 30522, "length": 128}
    args = options(steps=2, dropout=0.1, modes=("train", "eval"), batch_size=1024, **sizes)
    run(BERT, args, sentences, args.mode == "train", lr=1e-4, weight_decay=0.01)


if __name__ == "__main__":
    main()
