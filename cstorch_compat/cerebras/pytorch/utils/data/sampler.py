"""A sampler that divides the samples of a data set among the workers of a run."""

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
"""The placeholder for a missing sample in a padded batch."""


class ShareError(DataError, ValueError):
    """The error for a sampler whose batch size differs from that of the run."""


class DistributedSampler(Sampler[Any]):
    """A sampler of indices, or batches of indices, that divides them among the workers of a run.

    All workers together read the samples of a single process, in the same order.

    - `shuffle`, `seed`: shuffle each epoch with the seed `seed` + epoch, in PyTorch's order. A `seed` of None draws
      one.
    - `start_index`: the number of samples, over all epochs, to skip.
    - `shard`: divide the samples among workers; if False, each worker reads all of them.
    - `batch_size`: the batch size of the whole run; None yields single indices.
    - `drop_last`: yield full batches only; the remaining samples come first in the next epoch.
    - `num_samples`: the length of an epoch; samples repeat if there are fewer. The default is the data set's length, or
      `batch_size` if that is larger and `drop_last` is True.
    - `pad_last`: fill the last batch with `pad_index` if `drop_last` is False.

    With batches, a worker gets its system's share of each batch whose step it feeds. Without batches it gets every N-th
    index, where N is the number of workers.
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
        # An epoch shorter than a batch would give no batch, so it is extended by repeating samples.
        least = batch_size if batch_size is not None and drop_last else 0
        self.num_samples = num_samples or max(len(data_source), least)
        self.shuffle, self.shard, self.batch_size = shuffle, shard, batch_size
        self.drop_last, self.pad_last = drop_last, pad_last
        self.seed = draw_seed(None) if seed is None else seed
        self._left: list[int] = []
        self.set_state(start_index)

    def set_state(self, start_index: int) -> None:
        """Begin the next pass after `start_index` samples, counted over all epochs.

        Samples left from the last epoch are forgotten.
        """
        self._epoch, self._offset = divmod(start_index, self.num_samples)
        self._left = []

    def __len__(self) -> int:
        """Return the number of indices or batches that the next pass yields for this worker.

        Without sharding, or in the client, it is the total number.
        """
        worker = self._worker()
        if self.batch_size is None:
            count = self.num_samples - self._offset
            return count if worker is None else len(range(worker.rank, count, worker.cluster.workers))
        count = self.num_samples - self._offset + len(self._left)
        batches = count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return batches if worker is None else worker.cluster.turns(worker.rank, batches)

    def __iter__(self) -> Iterator[Any]:
        # Samples that did not fill a batch of the previous epoch come first.
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
        """Return the indices of an epoch.

        If it is longer than the data set, the last, shorter round is drawn at random.
        """
        size = len(self.data_source)  # type: ignore[arg-type]
        if not self.shuffle:
            return [i % size for i in range(self.num_samples)]
        generator = Generator()
        # The seed depends only on the epoch, so that every worker, and a restarted run, computes the same order.
        generator.manual_seed(self.seed + epoch)
        if self.num_samples <= size:
            return [int(i) for i in generator.permutation(size)[: self.num_samples]]
        # Whole rounds contain every sample equally often. The samples of the last, shorter round are drawn.
        rest = (self.num_samples - 1) % size + 1
        indices = [*range(size)] * ((self.num_samples - rest) // size) + generator.permutation(size).tolist()[:rest]
        return [indices[i] for i in generator.permutation(self.num_samples).tolist()]

    def _batches(self, indices: list[int], size: int, worker: process_role.Role | None) -> Iterator[Any]:
        """Yield batches of `size` indices, or the worker's part of those whose steps it feeds.

        `worker` None yields whole batches. With `drop_last`, the indices that do not fill a batch are kept for the next
        epoch. With `pad_last` the last batch is filled up with the padding index; otherwise it is shorter.
        """
        batches: list[list[Any]] = [indices[start : start + size] for start in range(0, len(indices), size)]
        rest = len(indices) % size
        self._left = batches.pop() if rest and self.drop_last else []
        if rest and self.pad_last and not self.drop_last:
            batches[-1] += [pad_index] * (size - rest)
        if worker is None:
            yield from batches
            return
        # Each system gets a part of every batch, so a worker reads its part of the batches whose steps it feeds.
        first, last = _share_bounds(worker, size, {len(batch) for batch in batches})
        yield from (batch[first:last] for batch in itertools.islice(batches, *_turn_slice(worker)))


def _turn_slice(worker: process_role.Role) -> tuple[int, None, int]:
    workers = worker.cluster.workers_per_csx
    return worker.rank % workers, None, workers


def _share_bounds(worker: process_role.Role, size: int, sizes: set[int]) -> tuple[int, int]:
    """Return the start and end of a worker's share in a batch, as indices into the batch; the end is exclusive.

    `size` is the sampler's batch size, and `sizes` are those of its batches. Raises ShareError if one of them is not
    the batch size of the run.
    """
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
