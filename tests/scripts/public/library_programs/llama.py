"""A tiny Llama of transformers with grouped key and value heads: 20 steps, then ten tokens by greedy search."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=97,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
model = LlamaForCausalLM(config)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
tokens = torch.randint(3, 97, (4, 4, 24))
for step in range(20):
    batch = tokens[step % 4]
    loss = model(input_ids=batch, labels=batch).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.6f}")
model.eval()
with torch.no_grad():
    written = model.generate(tokens[0, :1, :8], max_new_tokens=10, do_sample=False)
print("tokens", *written[0, 8:].tolist())
