"""Train a tiny causal language model with transformers.Trainer, which uses accelerate.

Packages: transformers, accelerate.
"""

import contextlib
import io
import os
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Blocks(torch.utils.data.Dataset):
    """40 blocks of 16 tokens."""

    def __init__(self):
        self.tokens = torch.randint(0, 64, (40, 16), generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, k):
        return {"input_ids": self.tokens[k], "labels": self.tokens[k]}


class ExactTrainer(Trainer):
    """A trainer that prints the loss of each step in full."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = super().compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        print(loss.item(), file=sys.__stdout__)
        return loss


def main():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2)
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=4,
            max_steps=5,
            learning_rate=1e-2,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            log_level="error",
            use_cpu=True,
        )
        trainer = ExactTrainer(model, arguments, train_dataset=Blocks())
        with contextlib.redirect_stdout(io.StringIO()):
            trainer.train()


main()
