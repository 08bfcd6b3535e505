"""Train a small MLP on handwritten digits with the Cerebras PyTorch API, then evaluate the last checkpoint.

python mnist.py [--backend CSX|CPU] [--epochs N] [--data_dir DIR] [--model_dir DIR]

`lazywafer example mnist` writes 1,797 digits in MNIST's format to ./digits; --data_dir names a folder with other files.
"""

import argparse
import os
import time

import cerebras.pytorch as cstorch
import torch
import torch.nn as nn
import torch.nn.functional as F
from cerebras.pytorch.metrics import AccuracyMetric
from torchvision import datasets, transforms

BATCH_SIZE = 64


class MNIST(nn.Module):
    """784 pixels, 256 hidden units, 10 digits."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 256)
        self.fc2 = nn.Linear(256, 10)

    def forward(self, x):
        x = torch.flatten(x, 1)
        return self.fc2(F.relu(self.fc1(x)))


def input_fn(data_dir, train):
    """A data loader over the digits; every worker calls this for itself."""
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    dataset = datasets.MNIST(data_dir, train=train, transform=transform, download=True)
    return torch.utils.data.DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=train, drop_last=True)


def train(model, compiled_model, args):
    """Train for some epochs and return the path of the last checkpoint."""
    model.train()
    optimizer = cstorch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    dataloader = cstorch.utils.data.DataLoader(input_fn, args.data_dir, train=True)
    num_steps = args.epochs * len(dataloader)
    executor = cstorch.utils.data.DataExecutor(dataloader, num_steps=num_steps, checkpoint_steps=num_steps // 2)
    saved = []

    @cstorch.trace
    def training_step(batch):
        inputs, targets = batch
        optimizer.zero_grad()
        loss = loss_fn(compiled_model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    @cstorch.step_closure
    def log_loss(loss, step):
        if step % 20 == 0 or step == 1:
            print(f"step {step:4d}  loss {loss.item():.5f}", flush=True)

    @cstorch.checkpoint_closure
    def save_checkpoint(step):
        path = os.path.join(args.model_dir, f"checkpoint_{step}.mdl")
        cstorch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "global_step": step}, path)
        saved.append(path)
        print(f"saved {path}", flush=True)

    for step, batch in enumerate(executor, start=1):
        loss = training_step(batch)
        log_loss(loss, step)
        save_checkpoint(step)
    return saved[-1]


def evaluate(model, compiled_model, args, checkpoint):
    """Load a checkpoint and print the accuracy on the digits that were kept back."""
    model.load_state_dict(cstorch.load(checkpoint)["model"])
    model.eval()
    accuracy = AccuracyMetric("accuracy")
    dataloader = cstorch.utils.data.DataLoader(input_fn, args.data_dir, train=False)
    executor = cstorch.utils.data.DataExecutor(dataloader)

    @cstorch.trace
    @torch.no_grad()
    def evaluation_step(batch):
        inputs, targets = batch
        outputs = compiled_model(inputs)
        accuracy(labels=targets, predictions=outputs.argmax(-1))
        return F.cross_entropy(outputs, targets)

    losses = []

    @cstorch.step_closure
    def collect(loss):
        losses.append(loss.item())

    for batch in executor:
        collect(evaluation_step(batch))
    print(f"evaluation loss {sum(losses) / len(losses):.5f}, accuracy {float(accuracy):.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="CSX", choices=["CSX", "CPU"])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--data_dir", default="digits")
    parser.add_argument("--model_dir", default="mnist_checkpoints")
    args = parser.parse_args()

    torch.manual_seed(0)
    backend = cstorch.backend(args.backend)
    with backend.device:
        model = MNIST()
    compiled_model = cstorch.compile(model, backend)
    args.model_dir = os.path.join(args.model_dir, time.strftime("run_%Y%m%d_%H%M%S"))
    os.makedirs(args.model_dir)
    checkpoint = train(model, compiled_model, args)
    evaluate(model, compiled_model, args, checkpoint)


if __name__ == "__main__":
    main()
