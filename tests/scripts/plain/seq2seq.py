"""A recurrent encoder and decoder with attention reverse sequences, one GRU cell step at a time."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
LETTERS, LENGTH, BATCH, WIDTH = 20, 8, 32, 48
torch.manual_seed(0)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(LETTERS + 1, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.cell = nn.GRUCell(2 * WIDTH, WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(2 * WIDTH, LETTERS)

    def forward(self, x, y):
        memory, state = self.encoder(self.embed(x))
        state, outputs = state[0], []
        letter = torch.full((len(x),), LETTERS)
        for t in range(y.shape[1]):
            scores = torch.einsum("bw,btw->bt", self.query(state), memory)
            context = torch.einsum("bt,btw->bw", F.softmax(scores, dim=-1), memory)
            state = self.cell(torch.cat([self.embed(letter), context], dim=-1), state)
            outputs.append(self.head(torch.cat([state, context], dim=-1)))
            letter = y[:, t]
        return torch.stack(outputs, dim=1)


model = Translator()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(STEPS):
    x = torch.randint(0, LETTERS, (BATCH, LENGTH))
    y = x.flip(1)
    loss = F.cross_entropy(model(x, y).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print("loss", repr(loss.item()))
