"""Release 1.6: plain PyTorch in a Session.

python cbtorch_1_6.py train STEPS [CHECKPOINT] | eval CHECKPOINT
"""

import sys

import cerebras.framework.torch as cbtorch
import cerebras.framework.torch.core.cb_model as cm
import cerebras.models.common.pytorch.optim.AdamW as AdamW
import torch
import torch.nn as nn
from cerebras.framework.torch import amp
from cerebras.framework.torch.core import modes
from data import batches

CHECKPOINT_STEPS = 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 4)

    def forward(self, x):
        return self.fc2(torch.relu(self.norm(self.fc1(x))))


def train(model, steps, path):
    optimizer = AdamW(model.parameters(), lr=0.02, weight_decay=0.01)
    scaler = amp.GradScaler(loss_scale="dynamic")
    criterion = nn.CrossEntropyLoss()
    if path:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        amp.load_state_dict(state["amp"])
    dataloader = cbtorch.dataloader(batches())
    global_step = 0
    with cbtorch.Session(dataloader, modes.TRAIN) as session:
        while global_step < steps:
            for batch in dataloader:
                global_step += 1
                optimizer.zero_grad()
                inputs, labels = batch
                loss = criterion(model(inputs), labels)
                scaler(loss).backward()
                optimizer.step()
                session.add_step_closure(lambda loss: cm.master_print("loss", loss.item().hex()), args=(loss,))

                def save(step=global_step):
                    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}
                    cm.save(state, f"{steps}_{step}.mdl")

                if global_step % CHECKPOINT_STEPS == 0:
                    session.add_step_closure(save)
                if global_step == steps:
                    session.mark_step()
                    break


def evaluate(model, path):
    model.load_state_dict(torch.load(path)["model"])
    model.eval()
    dataloader = cbtorch.dataloader(batches())
    right = []

    @cm.step_closure
    def count(outputs, labels):
        right.append((outputs.argmax(-1) == labels).float().mean().item())

    with torch.no_grad(), cbtorch.Session(dataloader, mode=modes.EVAL):
        for inputs, labels in dataloader:
            count(model(inputs), labels)
    cm.master_print("accuracy", sum(right) / len(right))


def main(task, *args):
    cbtorch.initialize(cs_ip="10.0.0.1")
    torch.manual_seed(0)
    model = cbtorch.module(Net())
    if task == "train":
        train(model, int(args[0]), args[1] if len(args) > 1 else None)
    else:
        evaluate(model, args[0])


main(*sys.argv[1:])
