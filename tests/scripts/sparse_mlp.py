"""A sparse MLP on the wafer: RigL moves its weights about; saved half-way, it goes on as if it had never stopped.

Run as `sparse_mlp.py --steps 12 --save run.mdl`, or `sparse_mlp.py --steps 6 --load half.mdl --save run.mdl`.
"""

import argparse

import cerebras.pytorch as cstorch
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--save")
parser.add_argument("--load")
args = parser.parse_args()

torch.manual_seed(0)
backend = cstorch.backend("CSX")
model = nn.Sequential(nn.Linear(16, 32, bias=False), nn.ReLU(), nn.Linear(32, 4))
compiled = cstorch.compile(model, backend)
sparsity = cstorch.sparse.configure(
    {
        "algorithm": "rigl",
        "sparsity": 0.75,
        "update": {"freq": 3, "stop": 100},
        "drop_fraction": {"type": "cosine", "init": 0.3, "half_period": 100},
        "init_method": "topk",
    }
)
model.apply(sparsity)
optimizer = cstorch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.01)
optimizer.apply(sparsity)
if args.load:
    state = cstorch.load(args.load)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    sparsity.load_state_dict(state["sparsity"])


def batches():
    random = torch.Generator().manual_seed(1)
    for _ in range(3):
        x = torch.randn(32, 16, generator=random)
        yield x, x[:, :4].argmax(1)


@cstorch.trace
def training_step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(compiled(x), y)
    loss.backward()
    optimizer.step()
    return loss


@cstorch.step_closure
def log(loss):
    print("loss", repr(loss.item()))


@cstorch.checkpoint_closure
def save():
    step = executor.user_iteration
    parts = {"model": model, "optimizer": optimizer, "sparsity": sparsity}
    cstorch.save({k: v.state_dict() for k, v in parts.items()}, f"{args.save}.{step}")
    share = model[0].weight_mask.float().mean().item()
    print("kept", share)


executor = cstorch.utils.data.DataExecutor(
    cstorch.utils.data.DataLoader(lambda: list(batches())), num_steps=args.steps, checkpoint_steps=6
)
for x, y in executor:
    log(training_step(x, y))
    save()
