"""A tiny ViT of transformers that classifies images: 20 steps of AdamW."""

import torch
from transformers import ViTConfig, ViTForImageClassification

torch.manual_seed(0)
config = ViTConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    image_size=16,
    patch_size=4,
    num_labels=5,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
model = ViTForImageClassification(config)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
images, labels = torch.randn(4, 4, 3, 16, 16), torch.randint(5, (4, 4))
for step in range(20):
    loss = model(pixel_values=images[step % 4], labels=labels[step % 4]).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.6f}")
