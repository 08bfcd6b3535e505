"""What the scripts of published runs share: extents as options, random texts, and the loop over training steps."""

import argparse

import cerebras.pytorch as cstorch
import torch


def options(steps=1, dropout=None, modes=(), **extents):
    """The command line of a script: each extent by its name, the steps, and dropout and modes where it has them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=steps)
    if dropout is not None:
        parser.add_argument("--dropout", type=float, default=dropout)
    if modes:
        parser.add_argument("--mode", default=modes[0], choices=modes)
    for name, extent in extents.items():
        parser.add_argument(f"--{name}", type=int, default=extent)
    return parser.parse_args()


def texts(args):
    """Random tokens, and those that come next."""
    tokens = torch.randint(0, args.vocabulary, (args.batch_size, args.length + 1), dtype=torch.int32)
    dataset = torch.utils.data.TensorDataset(tokens[:, :-1], tokens[:, 1:])
    return torch.utils.data.DataLoader(dataset, batch_size=args.batch_size, drop_last=True)


def by_heads(x, heads):
    """[batch, length, width] as [batch, heads, length, width of a head]."""
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


def run(model_of, args, input_fn=texts, is_training=True, **hyperparameters):
    """Train the model `model_of(args)` with AdamW for as many steps as `args` says, or evaluate it; print each loss.

    `input_fn(args)` gives a loader; the model takes one of its batches, and gives the loss.
    """
    torch.manual_seed(0)
    backend = cstorch.backend("CSX")
    with backend.device:
        model = model_of(args)
    compiled_model = cstorch.compile(model, backend)
    optimizer = cstorch.optim.AdamW(model.parameters(), **hyperparameters) if is_training else None
    model.train(is_training)

    @cstorch.trace
    def step(batch):
        with torch.set_grad_enabled(is_training):
            loss = compiled_model(batch)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss

    @cstorch.step_closure
    def log_loss(loss):
        print(f"loss {loss.item():.5f}")

    dataloader = cstorch.utils.data.DataLoader(input_fn, args)
    for batch in cstorch.utils.data.DataExecutor(dataloader, num_steps=args.steps):
        log_loss(step(batch))
