"""A tiny GPT-2 of transformers: 20 steps of AdamW on synthetic text."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=97, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
model = GPT2LMHeadModel(config)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
tokens = torch.randint(97, (4, 4, 24))
for step in range(20):
    batch = tokens[step % 4]
    loss = model(input_ids=batch, labels=batch).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"loss {loss.item():.6f}")
