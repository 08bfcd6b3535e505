"""Release 2.4: the custom training loop of its pages, with a schedule, gradient scaling, a metric and summaries.

python cstorch_2_4.py train STEPS [CHECKPOINT]
"""

import sys

import cerebras.pytorch as cstorch
import torch
import torch.nn as nn
import torch.nn.functional as F
from cerebras.pytorch.utils import tensorboard
from data import batches

CHECKPOINT_STEPS = 4


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.fc2(F.silu(self.fc1(x)))


def train(model, compiled_model, steps, path):
    optimizer = cstorch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.01)
    lr_scheduler = cstorch.optim.lr_scheduler.SequentialLR(
        optimizer,
        schedulers=[
            cstorch.optim.lr_scheduler.LinearLR(optimizer, 0.005, 0.05, total_iters=3),
            cstorch.optim.lr_scheduler.CosineDecayLR(optimizer, 0.05, 0.01, total_iters=20),
        ],
        milestones=[3],
    )
    grad_scaler = cstorch.amp.GradScaler(loss_scale="dynamic")
    parts = {"model": model, "optimizer": optimizer, "lr_scheduler": lr_scheduler, "grad_scaler": grad_scaler}
    if path:
        state_dict = cstorch.load(path)
        for name, part in parts.items():
            part.load_state_dict(state_dict[name])

    @cstorch.trace
    def training_step(inputs, targets):
        loss = F.cross_entropy(compiled_model(inputs), targets)
        cstorch.amp.optimizer_step(loss, optimizer, grad_scaler)
        lr_scheduler.step()
        return loss

    writer = tensorboard.SummaryWriter(f"events_{steps}")

    @cstorch.step_closure
    def log(loss, step):
        print("loss", loss.item().hex())
        writer.add_scalar("loss", loss.item(), step)

    @cstorch.checkpoint_closure
    def save_checkpoint(step):
        cstorch.save({name: part.state_dict() for name, part in parts.items()}, f"{steps}_{step}.mdl")

    executor = cstorch.utils.data.DataExecutor(
        cstorch.utils.data.DataLoader(batches, 16), num_steps=steps, checkpoint_steps=CHECKPOINT_STEPS
    )
    for inputs, targets in executor:
        log(training_step(inputs, targets), executor.user_iteration)
        save_checkpoint(executor.user_iteration)
    writer.close()


def evaluate(model, compiled_model):
    model.eval()
    accuracy = cstorch.metrics.AccuracyMetric("accuracy")

    @cstorch.trace
    @torch.no_grad()
    def evaluation_step(inputs, targets):
        outputs = compiled_model(inputs)
        accuracy(labels=targets, predictions=outputs.argmax(-1))
        return F.cross_entropy(outputs, targets)

    @cstorch.step_closure
    def collect(loss):
        assert loss.item() < 10

    for inputs, targets in cstorch.utils.data.DataExecutor(cstorch.utils.data.DataLoader(batches, 16)):
        collect(evaluation_step(inputs, targets))
    print(f"accuracy {float(accuracy)}")


def main(task, steps, path=None):
    assert task == "train"
    cluster_config = cstorch.distributed.ClusterConfig(num_csx=1)
    backend = cstorch.backend("CSX", cluster_config=cluster_config)
    torch.manual_seed(0)
    with backend.device:
        model = Model()
    compiled_model = cstorch.compile(model, backend)
    train(model, compiled_model, int(steps), path)
    evaluate(model, compiled_model)


main(*sys.argv[1:])
