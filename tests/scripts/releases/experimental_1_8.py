"""Release 1.8: configure, compile, and a loader that counts its own steps.

python experimental_1_8.py train STEPS [CHECKPOINT] | eval CHECKPOINT
"""

import sys

import cerebras_pytorch.experimental as cstorch
import cerebras_pytorch.experimental.metrics as metrics
import torch
import torch.nn as nn
from data import batches
from torch.utils.tensorboard import SummaryWriter

CHECKPOINT_STEPS = 4


def make_model():
    return nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))


def train(model, compiled_model, steps, path):
    optimizer = cstorch.optim.configure_optimizer(optimizer_type="SGD", params=model.parameters(), lr=0.1, momentum=0.9)
    warmup = {"scheduler": "Linear", "initial_learning_rate": 0.1, "end_learning_rate": 0.3, "total_iters": 4}
    decay = {"scheduler": "CosineDecay", "initial_learning_rate": 0.3, "end_learning_rate": 0.05, "total_iters": 20}
    lr_scheduler = cstorch.optim.configure_lr_scheduler(optimizer, [warmup, decay])
    grad_scaler = cstorch.amp.GradScaler(loss_scale="dynamic")
    parts = {"model": model, "optimizer": optimizer, "lr_scheduler": lr_scheduler, "grad_scaler": grad_scaler}
    if path:
        state_dict = cstorch.load(path)
        for name, part in parts.items():
            part.load_state_dict(state_dict[name])
    loss_fn = nn.CrossEntropyLoss()
    writer = SummaryWriter(log_dir=f"events_{steps}")

    @cstorch.compile_step
    def training_step(batch):
        inputs, targets = batch
        loss = loss_fn(compiled_model(inputs), targets)
        cstorch.amp.optimizer_step(loss, optimizer, grad_scaler)
        lr_scheduler.step()
        cstorch.scalar_summary("loss", loss)
        return loss

    @cstorch.step_closure
    def post_training_step(loss, step):
        print("loss", loss.item().hex())
        for group, lr in enumerate(lr_scheduler.get_last_lr()):
            writer.add_scalar(f"lr.{group}", lr, step)
        cstorch.save_summaries(writer, step)

    @cstorch.step_closure
    def save_checkpoint(step):
        cstorch.save({name: part.state_dict() for name, part in parts.items()}, f"{steps}_{step}.mdl")

    dataloader = cstorch.utils.data.DataLoader(batches, num_steps=steps)
    for step, batch in enumerate(dataloader, start=1):
        loss = training_step(batch)
        post_training_step(loss, step)
        if step % CHECKPOINT_STEPS == 0:
            save_checkpoint(step)
    writer.close()


def evaluate(model, compiled_model, path):
    model.load_state_dict(cstorch.load(path)["model"])
    compiled_model.eval()
    accuracy = metrics.AccuracyMetric("accuracy", compute_on_system=True)
    loss_fn = nn.CrossEntropyLoss()

    @cstorch.compile_step
    def evaluation_step(batch):
        inputs, targets = batch
        outputs = compiled_model(inputs)
        accuracy(labels=targets.clone(), predictions=outputs.argmax(-1).int())
        return loss_fn(outputs, targets)

    @cstorch.step_closure
    def post_eval_step(loss):
        assert loss.item() < 10

    with torch.no_grad():
        for batch in cstorch.utils.data.DataLoader(batches, num_epochs=1):
            post_eval_step(evaluation_step(batch))
    print(f"accuracy {float(accuracy)}")


def main(task, *args):
    cstorch.configure(checkpoint_steps=CHECKPOINT_STEPS, mgmt_address="10.0.0.1", num_workers_per_csx=1)
    torch.manual_seed(0)
    model = make_model()
    compiled_model = cstorch.compile(model, backend="wse_ws")
    if task == "train":
        train(model, compiled_model, int(args[0]), args[1] if len(args) > 1 else None)
    else:
        evaluate(model, compiled_model, args[0])


main(*sys.argv[1:])
