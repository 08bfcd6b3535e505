"""Train a small GPT on the letters of a poem with the Cerebras PyTorch API, then evaluate it.

python gpt.py [--backend CSX|CPU] [--steps N] [--checkpoint FILE] [--model_dir DIR]
"""

import argparse
import math
import os
import time

import cerebras.pytorch as cstorch
import torch
import torch.nn as nn
import torch.nn.functional as F
from cerebras.pytorch.metrics import PerplexityMetric

POEM = """
Tyger Tyger, burning bright, In the forests of the night; What immortal hand or eye, Could frame thy fearful symmetry?
In what distant deeps or skies. Burnt the fire of thine eyes? On what wings dare he aspire? What the hand, dare seize
the fire? And what shoulder, and what art, Could twist the sinews of thy heart? And when thy heart began to beat, What
dread hand? and what dread feet? What the hammer? what the chain, In what furnace was thy brain? What the anvil? what
dread grasp, Dare its deadly terrors clasp! When the stars threw down their spears And water'd heaven with their tears:
Did he smile his work to see? Did he who made the Lamb make thee? Tyger Tyger burning bright, In the forests of the
night: What immortal hand or eye, Dare frame thy fearful symmetry?
"""
LETTERS = sorted(set(POEM))
"""The poem is by William Blake, 1794."""


class Attention(nn.Module):
    """Each position looks at those before it."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.queries, self.keys, self.values = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.register_buffer("mask", torch.triu(torch.full((length, length), -1e4), diagonal=1), persistent=False)

    def split(self, x):
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x):
        queries, keys, values = (self.split(part(x)) for part in (self.queries, self.keys, self.values))
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1]) + self.mask
        mixed = F.softmax(scores, dim=-1) @ values
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """Attention and two linear layers, each added to its input."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, length)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Letters and places to the letter that comes next."""

    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(len(LETTERS), args.width)
        self.places = nn.Parameter(0.02 * torch.randn(args.length, args.width))
        self.blocks = nn.ModuleList(Block(args.width, args.heads, args.length) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, len(LETTERS), bias=False)

    def forward(self, letters):
        x = self.tokens(letters) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def input_fn(args, first_step=0):
    """A data loader over pieces of the poem, always in the same order, from the batch of a step on."""
    numbers = torch.tensor([LETTERS.index(c) for c in POEM], dtype=torch.int32)
    starts = range(0, len(POEM) - args.length - 1, args.length // 2)
    pieces = torch.stack([numbers[i : i + args.length + 1] for i in starts])
    whole_batches = len(pieces) // args.batch_size * args.batch_size
    pieces = pieces[:whole_batches].roll(-first_step * args.batch_size, 0)
    dataset = torch.utils.data.TensorDataset(pieces[:, :-1], pieces[:, 1:])
    return torch.utils.data.DataLoader(dataset, batch_size=args.batch_size, drop_last=True)


def train(model, compiled_model, args):
    """Train, and go on from a checkpoint if there is one."""
    optimizer = cstorch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.01)
    lr_scheduler = cstorch.optim.lr_scheduler.CosineDecayLR(optimizer, 0.01, 0.001, total_iters=200)
    parts = {"model": model, "optimizer": optimizer, "lr_scheduler": lr_scheduler}
    done = 0
    if args.checkpoint:
        state_dict = cstorch.load(args.checkpoint)
        for name, part in parts.items():
            part.load_state_dict(state_dict[name])
        done = state_dict["global_step"]

    @cstorch.trace
    def training_step(batch):
        inputs, targets = batch
        logits = compiled_model(inputs)
        loss = F.cross_entropy(logits.view(-1, len(LETTERS)), targets.view(-1).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lr_scheduler.step()
        return loss

    @cstorch.step_closure
    def log_loss(loss, step):
        if step % args.log_steps == 0:
            print(f"step {step:4d}  loss {loss.item():.9g}", flush=True)

    @cstorch.checkpoint_closure
    def save_checkpoint(step):
        path = os.path.join(args.model_dir, f"checkpoint_{step}.mdl")
        state_dict = {name: part.state_dict() for name, part in parts.items()}
        cstorch.save({**state_dict, "global_step": step}, path)
        print(f"saved {path}", flush=True)

    dataloader = cstorch.utils.data.DataLoader(input_fn, args, first_step=done)
    executor = cstorch.utils.data.DataExecutor(dataloader, num_steps=args.steps, checkpoint_steps=args.checkpoint_steps)
    for step, batch in enumerate(executor, start=done + 1):
        log_loss(training_step(batch), step)
        save_checkpoint(step)


def evaluate(model, compiled_model, args):
    """Print the perplexity on the poem itself."""
    model.eval()
    perplexity = PerplexityMetric("perplexity")

    @cstorch.trace
    @torch.no_grad()
    def evaluation_step(batch):
        inputs, targets = batch
        logits = compiled_model(inputs)
        loss = F.cross_entropy(logits.view(-1, len(LETTERS)), targets.view(-1).long(), reduction="sum")
        perplexity(labels=targets, loss=loss)
        return loss

    @cstorch.step_closure
    def check(loss):
        assert math.isfinite(loss.item())

    for batch in cstorch.utils.data.DataExecutor(cstorch.utils.data.DataLoader(input_fn, args)):
        check(evaluation_step(batch))
    print(f"perplexity {float(perplexity):.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="CSX", choices=["CSX", "CPU"])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--log_steps", type=int, default=20)
    parser.add_argument("--checkpoint_steps", type=int, default=100)
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--model_dir", default=time.strftime("gpt_checkpoints/run_%Y%m%d_%H%M%S"))
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(0)
    backend = cstorch.backend(args.backend)
    with backend.device:
        model = GPT(args)
    compiled_model = cstorch.compile(model, backend)
    os.makedirs(args.model_dir, exist_ok=True)
    train(model, compiled_model, args)
    evaluate(model, compiled_model, args)


if __name__ == "__main__":
    main()
