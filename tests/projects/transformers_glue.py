"""Fine-tune a tiny BERT on sentence pairs, as Hugging Face's run_glue_no_trainer does.

Packages: transformers, accelerate.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, get_scheduler


def make_pairs():
    """Return 48 sentence pairs, whose label is whether both begin with the same half of the vocabulary."""
    source = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, 100, (48, 20), generator=source)
    lengths = torch.randint(12, 21, (48,), generator=source)
    mask = torch.arange(20)[None, :] < lengths[:, None]
    types = (torch.arange(20) >= 8).long().expand(48, 20)
    labels = ((tokens[:, 0] < 52) == (tokens[:, 8] < 52)).long()
    keys = ("input_ids", "attention_mask", "token_type_ids", "labels")
    return [dict(zip(keys, row, strict=True)) for row in zip(tokens * mask, mask.long(), types, labels, strict=True)]


def main():
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=1)
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        num_labels=2,
    )
    model = BertForSequenceClassification(config)
    no_decay = ("bias", "LayerNorm.weight")
    groups = [
        {
            "params": [p for n, p in model.named_parameters() if not any(d in n for d in no_decay)],
            "weight_decay": 0.01,
        },
        {"params": [p for n, p in model.named_parameters() if any(d in n for d in no_decay)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    loader = DataLoader(make_pairs(), shuffle=True, batch_size=8)
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=2, num_training_steps=6)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    model.train()
    for k, batch in enumerate(loader):
        if k == 5:
            break
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        print(accelerator.gather(loss.detach()).mean().item())


main()
