"""The order in which workers read a data set together."""

import itertools
from collections.abc import Iterator
from typing import Any

from cstorch_compat.cerebras.pytorch.utils.data import process_role
from cstorch_compat.names.builtin_errors import reraise_as_builtin
from lazytensor.core import source
from lazytensor.data.sampler import Sampler, draw_seed
from lazytensor.data.worker_errors import check_count
from lazytensor.errors import DataError
from lazytensor.random import Generator

pad_index = object()
"""Stands in a padded batch for a sample that is not there."""


class ShareError(DataError, ValueError):
    """A batch cannot be divided as the run divides its batches."""


class DistributedSampler(Sampler[Any]):
    """Indices, or batches of them, such that all workers together read what one process would, in the same order.

    `batch_size` is that of the whole run. The batches follow each other across epochs: with `drop_last` the samples
    that do not fill one come first in the next epoch. `num_samples` is the length of an epoch, in which samples repeat
    if there are fewer of them. An epoch is shuffled by `seed` plus its number, in PyTorch's order. `start_index` counts
    samples of all epochs that are over when the next pass begins. `pad_last` fills the last batch with `pad_index`.
    A worker gets its share of every batch that feeds a step of its own; without `batch_size` every so-many-th index.
    """

    def __init__(
        self,
        data_source: Any,
        shuffle: bool = True,
        seed: int | None = None,
        start_index: int = 0,
        shard: bool = True,
        batch_size: int | None = None,
        drop_last: bool = True,
        num_samples: int | None = None,
        pad_last: bool = False,
    ):
        super().__init__(data_source)
        with reraise_as_builtin():
            if batch_size is not None:
                check_count("batch_size", batch_size)
            if num_samples is not None:
                check_count("num_samples", num_samples)
        # An epoch shorter than a batch would give none at all, so it is stretched by repeating samples.
        least = batch_size if batch_size is not None and drop_last else 0
        self.num_samples = num_samples or max(len(data_source), least)
        self.shuffle, self.shard, self.batch_size = shuffle, shard, batch_size
        self.drop_last, self.pad_last = drop_last, pad_last
        self.seed = draw_seed(None) if seed is None else seed
        self._left: list[int] = []
        self.set_state(start_index)

    def set_state(self, start_index: int) -> None:
        """Begin the next pass after so many samples."""
        # The count goes over all epochs, so that a restart needs one number.
        self._epoch, self._offset = divmod(start_index, self.num_samples)
        self._left = []

    def __len__(self) -> int:
        """The indices, or batches, of the next pass, those of all workers if it is not sharded."""
        worker = self._worker()
        if self.batch_size is None:
            count = self.num_samples - self._offset
            return count if worker is None else len(range(worker.rank, count, worker.cluster.workers))
        count = self.num_samples - self._offset + len(self._left)
        batches = count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return batches if worker is None else worker.cluster.turns(worker.rank, batches)

    def __iter__(self) -> Iterator[Any]:
        # What the epoch before could not fill a batch with comes first.
        indices = self._left + self._order(self._epoch)[self._offset :]
        self._epoch, self._offset = self._epoch + 1, 0
        worker = self._worker()
        if self.batch_size is None:
            step = 1 if worker is None else worker.cluster.workers
            return itertools.islice(indices, 0 if worker is None else worker.rank, None, step)
        return self._batches(indices, self.batch_size, worker)

    def _worker(self) -> process_role.Role | None:
        return process_role.current_role() if self.shard else None

    def _order(self, epoch: int) -> list[int]:
        """The indices of an epoch: of as many rounds as it takes, the last one drawn, and all of them shuffled."""
        size = len(self.data_source)  # type: ignore[arg-type]
        if not self.shuffle:
            return [i % size for i in range(self.num_samples)]
        generator = Generator()
        # Seeded anew for each epoch: every worker, and a restarted run, finds the same order without asking.
        generator.manual_seed(self.seed + epoch)
        if self.num_samples <= size:
            return [int(i) for i in generator.permutation(size)[: self.num_samples]]
        # Whole rounds hold every sample equally often; who is in the last, shorter one is drawn.
        rest = (self.num_samples - 1) % size + 1
        indices = [*range(size)] * ((self.num_samples - rest) // size) + generator.permutation(size).tolist()[:rest]
        return [indices[i] for i in generator.permutation(self.num_samples).tolist()]

    def _batches(self, indices: list[int], size: int, worker: process_role.Role | None) -> Iterator[Any]:
        batches: list[list[Any]] = [indices[start : start + size] for start in range(0, len(indices), size)]
        rest = len(indices) % size
        self._left = batches.pop() if rest and self.drop_last else []
        if rest and self.pad_last and not self.drop_last:
            batches[-1] += [pad_index] * (size - rest)
        if worker is None:
            yield from batches
            return
        # All systems take from each batch, so a worker reads its part of every batch that is its turn.
        first, last = _share_bounds(worker, size, {len(batch) for batch in batches})
        yield from (batch[first:last] for batch in itertools.islice(batches, *_turn_slice(worker)))


def _turn_slice(worker: process_role.Role) -> tuple[int, None, int]:
    workers = worker.cluster.workers_per_csx
    return worker.rank % workers, None, workers


def _share_bounds(worker: process_role.Role, size: int, sizes: set[int]) -> tuple[int, int]:
    """Where the share of a worker lies in a batch. Raises ShareError if the run's batches have another size."""
    shares = worker.cluster.shares or (size,)
    for batch_size in sizes | {size}:
        if batch_size != sum(shares):
            raise ShareError(
                f"Local batch sizes ({list(shares)}) do not sum up to the global batch size ({batch_size}).",
                where=source.where(),
                hint="Give the sampler the batch size of the whole run, and drop_last=True or pad_last=True.",
            )
    system = worker.cluster.system_index(worker.rank)
    return sum(shares[:system]), sum(shares[: system + 1])
