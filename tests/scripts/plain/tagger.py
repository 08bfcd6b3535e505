"""A bidirectional LSTM tags words of sentences of different lengths, as packed sequences."""

import sys

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
WORDS, TAGS = 200, 6
torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self, width=32, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, TAGS)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embed(words), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(states)


def batch(count=16):
    lengths = torch.randint(4, 21, (count,))
    sentences = [torch.randint(1, WORDS, (int(n),)) for n in lengths]
    # A tag depends on the word and on the one before it.
    tags = [(s % 3) * 2 + (torch.roll(s, 1) > WORDS // 2) for s in sentences]
    padded = pad_sequence(sentences, batch_first=True)
    return padded, lengths, pad_sequence(tags, batch_first=True, padding_value=-100)


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss(ignore_index=-100)
for _ in range(STEPS):
    words, lengths, tags = batch()
    scores = model(words, lengths)
    loss = criterion(scores.flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()))
