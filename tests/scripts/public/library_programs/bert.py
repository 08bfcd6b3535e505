"""A tiny BERT of transformers that classifies sequences: 20 steps of AdamW with a warm-up, dropout included."""

import torch
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

torch.manual_seed(0)
config = BertConfig(
    vocab_size=97,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=32,
    num_labels=3,
)
model = BertForSequenceClassification(config)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = get_linear_schedule_with_warmup(optimizer, 5, 20)
tokens, labels = torch.randint(97, (4, 4, 24)), torch.randint(3, (4, 4))
mask = torch.ones(4, 24, dtype=torch.long)
mask[1, 16:] = 0
for step in range(20):
    out = model(input_ids=tokens[step % 4], attention_mask=mask, labels=labels[step % 4])
    optimizer.zero_grad()
    out.loss.backward()
    optimizer.step()
    schedule.step()
    print(f"loss {out.loss.item():.6f}")
