"""Seconds of a processor for steps of unusual size: many parameters, and many operations one behind the other.

    python -m tests.bench.sizes [--parameters N] [--operations N]

The first step compiles on CSX; the steps after it are what a run consists of. Updates are counted with the gradients
that they ask for, since nothing is computed before.
"""

import argparse
import statistics
import time

import cstorch_compat

cstorch_compat.install()

import cerebras.pytorch as cstorch  # noqa: E402
import torch  # noqa: E402

STEPS = 4


def shown(name, seconds):
    """Print the first step and the median of those after it."""
    print(f"{name:44} first {seconds[0]:7.3f} s, then {statistics.median(seconds[1:]):7.3f} s")


def many_parameters(count):
    """Adam on parameters of 8 elements in an eager loop; whole steps, and the updates in them."""
    params = [torch.nn.Parameter(torch.full((8,), 0.5)) for _ in range(count)]
    optimizer = torch.optim.Adam(params)
    steps, updates = [], []
    for _ in range(STEPS):
        begin = time.process_time()
        optimizer.zero_grad()
        loss = torch.cat(params).square().sum()
        loss.backward()
        before = time.process_time()
        optimizer.step()
        updates.append(time.process_time() - before)
        loss.item()
        steps.append(time.process_time() - begin)
    shown(f"{count:,} parameters, optimizer.step()", updates)
    shown(f"{count:,} parameters, the whole step", steps)


class Chain(torch.nn.Module):
    """A layer, and behind it operations one behind the other."""

    def __init__(self, count):
        super().__init__()
        self.count = count
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        """The sum over what comes out."""
        y = self.layer(x)
        for _ in range(self.count // 2):
            y = torch.tanh(y * 0.999)
        return y.sum()


def long_chain(count):
    """Whole steps with gradients on CSX; the first one with compiling and planning."""
    backend = cstorch.backend("CSX")
    with backend.device:
        model = Chain(count)
    compiled = cstorch.compile(model, backend)
    optimizer = cstorch.optim.SGD(model.parameters(), lr=0.01)
    seconds, last = [], time.process_time()

    @cstorch.trace
    def step(x):
        loss = compiled(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(4, 4)] * STEPS)
    for x in cstorch.utils.data.DataExecutor(loader, num_steps=STEPS):
        step(x)
        seconds.append(time.process_time() - last)
        last = time.process_time()
    seconds.append(time.process_time() - last)
    # What a step takes ends where the next one begins: the graph runs when the tracing of a step is over.
    shown(f"{count:,} chained operations on CSX", [sum(seconds[:2]), *seconds[2:]])


def main():
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, default=10_000)
    parser.add_argument("--operations", type=int, default=3_000)
    options = parser.parse_args()
    many_parameters(options.parameters)
    long_chain(options.operations)


if __name__ == "__main__":
    main()
