"""Batches from worker processes against the same batches made in the client, for a loader that is busy in Python.

    python tests/bench/input_workers.py [--workers N] [--steps N] [--rounds R]

Both are measured in turns; the figure is the median of the ratios of their rates. The loop between the batches does
nothing, so this is the most that workers can give.
"""

import argparse
import statistics
import tempfile
import time

import numpy as np

from cstorch_compat.cerebras.pytorch.utils.data import DataLoader
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from lazytensor.functional import creation

ClusterConfig = get_mirror("cerebras.pytorch.distributed").ClusterConfig


class Busy:
    """Batches of `rows` samples of 4 KB, each with some thousand steps of Python."""

    def __init__(self, rows: int):
        self.rows = rows

    def __iter__(self):
        while True:
            yield creation.tensor(np.stack([self.sample(i) for i in range(self.rows)]))

    def sample(self, i: int) -> np.ndarray:
        total = 0
        for k in range(5000):
            total = (total * 31 + k + i) % 65521
        return np.full(1024, total, np.float32)


def batches_per_second(folder: str, workers: int, steps: int) -> float:
    """The rate after the first batch, which waits for the processes to start."""
    process.RUN.backend = None
    process.make_backend("CSX", folder, cluster_config=ClusterConfig(num_workers_per_csx=workers))
    loader = DataLoader(Busy, 64)
    stream = loader.stream(steps, None)
    try:
        batches = iter(stream)
        next(batches)
        start = time.perf_counter()
        for _ in range(steps - 1):
            next(batches)
        return (steps - 1) / (time.perf_counter() - start)
    finally:
        loader.release(stream)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            own, theirs = (batches_per_second(folder, n, options.steps) for n in (1, options.workers))
            ratios.append(theirs / own)
            print(
                f"in the client {own:7.1f} batches/s, {options.workers} workers {theirs:7.1f}, ratio {ratios[-1]:.2f}"
            )
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
