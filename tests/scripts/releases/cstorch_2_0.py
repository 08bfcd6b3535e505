"""Release 2.0: trace, an optimizer and a schedule of one's own, and an evaluation in the same process.

python cstorch_2_0.py train STEPS [CHECKPOINT]
"""

import sys

import cerebras_pytorch as cstorch
import torch
import torch.nn as nn
from cerebras_pytorch.metrics import AccuracyMetric
from data import batches

CHECKPOINT_STEPS = 4


class Momentum(cstorch.optim.Optimizer):
    """Gradient descent with momentum, its state made before the first step."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr}, enable_global_step=True)

    def preinitialize(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["velocity"] = cstorch.zeros_like(p)

    def state_names_to_sparsify(self):
        return ["velocity"]

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    velocity = self.state[p]["velocity"]
                    velocity.mul_(0.9).add_(p.grad)
                    p.add_(-group["lr"] * velocity)
                    self.increment_global_step(p)


class Halving(cstorch.optim.lr_scheduler.LRScheduler):
    """Half the rate after every ten steps."""

    def __init__(self, optimizer, initial_learning_rate):
        self.rate = initial_learning_rate
        super().__init__(optimizer, total_iters=None)

    def _get_closed_form_lr(self):
        return self.rate * torch.pow(torch.tensor(0.5), torch.floor(self.last_epoch / 10))


def train(model, compiled_model, steps, path):
    optimizer = Momentum(model.parameters(), lr=0.1)
    lr_scheduler = Halving(optimizer, 0.1)
    parts = {"model": model, "optimizer": optimizer, "lr_scheduler": lr_scheduler}
    if path:
        state_dict = cstorch.load(path)
        for name, part in parts.items():
            part.load_state_dict(state_dict[name])
    loss_fn = nn.CrossEntropyLoss()

    @cstorch.trace
    def training_step(batch):
        inputs, targets = batch
        loss = loss_fn(compiled_model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lr_scheduler.step()
        return loss

    @cstorch.step_closure
    def log(loss):
        print("loss", loss.item().hex())

    @cstorch.checkpoint_closure
    def save_checkpoint(step):
        cstorch.save({name: part.state_dict() for name, part in parts.items()}, f"{steps}_{step}.mdl")

    executor = cstorch.utils.data.DataExecutor(
        cstorch.utils.data.DataLoader(batches),
        num_steps=steps,
        checkpoint_steps=CHECKPOINT_STEPS,
        cs_config=cstorch.utils.CSConfig(num_csx=1),
    )
    for step, batch in enumerate(executor, start=1):
        log(training_step(batch))
        save_checkpoint(step)


def evaluate(model, compiled_model):
    model.eval()
    accuracy = AccuracyMetric("accuracy")

    @cstorch.trace
    @torch.no_grad()
    def evaluation_step(batch):
        inputs, targets = batch
        outputs = compiled_model(inputs)
        accuracy(labels=targets, predictions=outputs.argmax(-1))
        return nn.functional.cross_entropy(outputs, targets)

    @cstorch.step_closure
    def collect(loss):
        assert loss.item() < 10

    dataloader = cstorch.utils.data.DataLoader(batches)
    for batch in cstorch.utils.data.DataExecutor(dataloader, num_steps=len(dataloader)):
        collect(evaluation_step(batch))
    print(f"accuracy {float(accuracy)}")


def main(task, steps, path=None):
    assert task == "train"
    backend = cstorch.backend("CSX", compile_dir="compiled")
    torch.manual_seed(0)
    with backend.device:
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    compiled_model = cstorch.compile(model, backend)
    train(model, compiled_model, int(steps), path)
    evaluate(model, compiled_model)


main(*sys.argv[1:])
