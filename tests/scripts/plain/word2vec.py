"""Word vectors by skip-grams with negative samples, in embeddings with sparse gradients."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
WORDS, WIDTH, BATCH, NEGATIVES = 5000, 64, 256, 5
torch.manual_seed(0)


class SkipGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.centre = nn.Embedding(WORDS, WIDTH, sparse=True)
        self.context = nn.Embedding(WORDS, WIDTH, sparse=True)
        nn.init.uniform_(self.centre.weight, -0.5 / WIDTH, 0.5 / WIDTH)
        nn.init.zeros_(self.context.weight)

    def forward(self, centre, context, negatives):
        c = self.centre(centre)
        positive = (c * self.context(context)).sum(-1)
        negative = torch.bmm(self.context(negatives), c.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(positive) + F.logsigmoid(-negative).sum(-1)).mean()


# Frequent words have small numbers, and a context is near its centre.
frequency = 1 / torch.arange(1, WORDS + 1).float()
noise = frequency.pow(0.75)
model = SkipGram()
optimizer = torch.optim.SGD(model.parameters(), lr=20.0)
for _ in range(STEPS):
    centre = torch.multinomial(frequency, BATCH, replacement=True)
    context = (centre + torch.randint(1, 5, (BATCH,))) % WORDS
    negatives = torch.multinomial(noise, BATCH * NEGATIVES, replacement=True).view(BATCH, NEGATIVES)
    loss = model(centre, context, negatives)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
