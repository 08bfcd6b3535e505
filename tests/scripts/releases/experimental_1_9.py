"""Release 1.9: a backend and an executor, steps still marked by compile_step.

python experimental_1_9.py train STEPS [CHECKPOINT] | eval CHECKPOINT
"""

import sys

import cerebras_pytorch.experimental as cstorch
import torch
import torch.nn as nn
from data import batches

CHECKPOINT_STEPS = 4


def train(model, compiled_model, cs_config, steps, path):
    optimizer = cstorch.optim.configure_optimizer("AdamW", model.parameters(), lr=0.02, correct_bias=True)
    lr_scheduler = cstorch.optim.configure_lr_scheduler(optimizer, 0.02)
    if path:
        state_dict = cstorch.load(path)
        model.load_state_dict(state_dict["model"])
        optimizer.load_state_dict(state_dict["optimizer"])
        lr_scheduler.load_state_dict(state_dict["lr_scheduler"])
    loss_fn = nn.CrossEntropyLoss()

    @cstorch.compile_step
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
        parts = {"model": model, "optimizer": optimizer, "lr_scheduler": lr_scheduler}
        cstorch.save({name: part.state_dict() for name, part in parts.items()}, f"{steps}_{step}.mdl")

    writer = cstorch.utils.tensorboard.SummaryWriter(log_dir=f"events_{steps}")
    dataloader = cstorch.utils.data.DataLoader(batches)
    executor = cstorch.utils.data.DataExecutor(
        dataloader, num_steps=steps, checkpoint_steps=CHECKPOINT_STEPS, cs_config=cs_config, writer=writer
    )
    for step, batch in enumerate(executor, start=1):
        loss = training_step(batch)
        cstorch.summarize_scalar("loss", loss)
        log(loss)
        save_checkpoint(step)
    writer.close()


def evaluate(model, compiled_model, cs_config, path):
    model.load_state_dict(cstorch.load(path)["model"])
    compiled_model.eval()
    accuracy = cstorch.metrics.AccuracyMetric("accuracy", compute_on_system=True)

    @cstorch.compile_step
    def evaluation_step(batch):
        inputs, targets = batch
        outputs = compiled_model(inputs)
        accuracy(labels=targets, predictions=outputs.argmax(-1))
        return nn.functional.cross_entropy(outputs, targets)

    @cstorch.step_closure
    def collect(loss):
        assert loss.item() < 10

    dataloader = cstorch.utils.data.DataLoader(batches)
    with torch.no_grad():
        for batch in cstorch.utils.data.DataExecutor(dataloader, num_steps=len(dataloader), cs_config=cs_config):
            collect(evaluation_step(batch))
    print(f"accuracy {float(accuracy)}")


def main(task, *args):
    backend = cstorch.backend("CSX", artifact_dir="artifacts", max_checkpoints=3)
    cstorch.amp.use_bfloat16(True)
    torch.manual_seed(0)
    with backend.device:
        model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    compiled_model = cstorch.compile(model, backend)
    cs_config = cstorch.utils.CSConfig(num_csx=1, num_workers_per_csx=1, max_wgt_servers=1)
    cs_config.precision_opt_level = 1
    if task == "train":
        train(model, compiled_model, cs_config, int(args[0]), args[1] if len(args) > 1 else None)
    else:
        evaluate(model, compiled_model, cs_config, args[0])


main(*sys.argv[1:])
