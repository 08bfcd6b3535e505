"""A language model of two GRU layers with dropout reads text in order and keeps its state from piece to piece."""

import sys

import torch
import torch.nn as nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
LETTERS, LENGTH, BATCH = 30, 24, 16
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self, width=48, hidden=96):
        super().__init__()
        self.embed, self.drop = nn.Embedding(LETTERS, width), nn.Dropout(0.1)
        self.gru = nn.GRU(width, hidden, num_layers=2, dropout=0.1)
        self.head = nn.Linear(hidden, LETTERS)

    def forward(self, x, state):
        y, state = self.gru(self.drop(self.embed(x)), state)
        return self.head(self.drop(y)), state


# A letter is the sum of the two before it, with some errors.
text = torch.randint(0, LETTERS, (STEPS * LENGTH + 1, BATCH))
for i in range(2, len(text)):
    if i % 7:
        text[i] = (text[i - 1] + text[i - 2]) % LETTERS
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
criterion = nn.CrossEntropyLoss()
state = torch.zeros(2, BATCH, 96)
for step in range(STEPS):
    piece = text[step * LENGTH : (step + 1) * LENGTH + 1]
    state = state.detach()
    logits, state = model(piece[:-1], state)
    loss = criterion(logits.reshape(-1, LETTERS), piece[1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    print("loss", repr(loss.item()))
