"""Two small runs that save as they go and go on from their last checkpoint: PyTorch's loop, and one of the wafer's."""

PLAIN = """
import pathlib
import torch
import cerebras.pytorch as cstorch
from torch.utils.data import DataLoader, Dataset

STEPS, EVERY = 12, 3


class Samples(Dataset):
    def __init__(self, first):
        self.first = first

    def __len__(self):
        return 8 * (STEPS - self.first)

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(8 * self.first + i)
        return torch.randn(16, generator=generator), i % 4


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
step = 0
if kept := sorted(pathlib.Path.cwd().glob("step_*.mdl")):
    state = cstorch.load(kept[-1])
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
data = Samples(step)
for x, y in DataLoader(data, batch_size=8, num_workers=2) if step < STEPS else ():
    torch.manual_seed(step)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    step += 1
    if step % EVERY == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        cstorch.save(state, f"step_{step:03}.mdl")
"""

WAFER = """
import pathlib
import torch
import cerebras.pytorch as cstorch

STEPS, EVERY = 12, 3


def batches():
    # Workers take turns, each with a loader of its own: what a step is given must not depend on where a run began.
    rank, workers = cstorch.distributed.get_ordinal(), cstorch.distributed.num_tasks()
    generators = [torch.Generator().manual_seed(step) for step in range(first + rank, STEPS + workers, workers)]
    return [(torch.randn(8, 16, generator=g), torch.arange(8) % 4) for g in generators]


backend = cstorch.backend("CSX", cluster_config=cstorch.distributed.ClusterConfig(num_workers_per_csx=2))
torch.manual_seed(0)
with backend.device:
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.AdamW(model.parameters(), lr=1e-2)
step = 0
if kept := sorted(pathlib.Path.cwd().glob("step_*.mdl")):
    state = cstorch.load(kept[-1])
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
first = step


@cstorch.trace
def training_step(x, y):
    loss = torch.nn.functional.cross_entropy(compiled(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


@cstorch.checkpoint_closure
def keep(step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    cstorch.save(state, f"step_{step:03}.mdl")


if first < STEPS:
    loader = cstorch.utils.data.DataLoader(batches)
    for x, y in cstorch.utils.data.DataExecutor(loader, num_steps=STEPS - first, checkpoint_steps=EVERY):
        training_step(x, y)
        step += 1
        keep(step)
"""

CACHED = """
import torch
import cerebras.pytorch as cstorch
from wse_sim.fabric import EAST, RAMP, WEST, Builder, Memory, Mesh, Received, Sent, simulate
from wse_sim.machine import WSE2

torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.words = torch.nn.Embedding(7, 16)
        self.recurrent = torch.nn.LSTM(16, 8, batch_first=True)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x, ids):
        y = torch.nn.functional.max_pool2d(torch.relu(self.convolution(x)), 2).flatten(2)
        y, _ = self.recurrent(y + self.words(ids))
        return self.head(y[:, -1])


backend = cstorch.backend("CPU")
model = Net()
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.AdamW(model.parameters(), lr=1e-2)


@cstorch.trace
def training_step(x, ids, y):
    loss = torch.nn.functional.cross_entropy(compiled(x, ids), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


batch = torch.randn(4, 1, 8, 8), torch.arange(16).reshape(4, 4) % 7, torch.arange(4) % 3
loader = cstorch.utils.data.DataLoader(lambda: [batch] * 3)
for x, ids, y in cstorch.utils.data.DataExecutor(loader, num_steps=3):
    training_step(x, ids, y)
mesh = Mesh(WSE2, 2, 1)
mesh.route(0, [0], 0, RAMP, [EAST])
mesh.route(0, [1], 0, WEST, [RAMP])
sends, takes = Builder("sends", 8), Builder("takes", 8)
sends.move(Sent(0), Memory(0), 4, asynchronous=True)
takes.move(Memory(0), Received(0), 4, asynchronous=True)
mesh.run(sends.build(), [0], 0)
mesh.run(takes.build(), [1], 0)
done = simulate(mesh).expect_finished()
cstorch.save({"model": model.state_dict(), "cycles": done.cycles}, "step_001.mdl")
"""
