"""Workers of a loader. They are no processes yet: they take turns in this one, and a program sees the same order.

A worker has its number, its seed (the loader's plus its number) and a default generator of its own, so random numbers
that a data set draws from it are those of PyTorch's worker processes. Memory is not separate: a data set that changes
itself changes for all.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lazytensor import random
from lazytensor.random import Generator

_at_work: "WorkerInfo | None" = None


@dataclass(frozen=True)
class WorkerInfo:
    """What a data set may ask about the worker that reads it."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


@dataclass(frozen=True)
class Worker:
    """A worker and its source of random numbers."""

    info: WorkerInfo
    generator: Generator

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Everything in the block happens in this worker."""
        global _at_work
        before = _at_work, random.default_generator
        _at_work, random.default_generator = self.info, self.generator
        try:
            yield
        finally:
            _at_work, random.default_generator = before


def get_worker_info() -> WorkerInfo | None:
    """The worker that reads the data set now; None if the loader has no workers."""
    return _at_work


def hired(count: int, seed: int, dataset: Any, init: Callable[[int], Any] | None) -> list[Worker]:
    """`count` workers, each started by `init(id)` if given."""
    workers = []
    for i in range(count):
        worker = Worker(WorkerInfo(i, count, seed + i, dataset), Generator().manual_seed(seed + i))
        workers.append(worker)
        if init is not None:
            with worker.at_work():
                init(i)
    return workers
