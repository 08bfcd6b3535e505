"""DataLoader: reads a data set in some order and gives batches."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from lazytensor import source
from lazytensor.data.collate import Collate, default_collate, default_convert, gathered
from lazytensor.data.dataset import Dataset, IterableDataset, samples
from lazytensor.data.errors import DataOptionError
from lazytensor.data.sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed
from lazytensor.data.worker import Worker, hired
from lazytensor.random import Generator

T = TypeVar("T", covariant=True)


class DataLoader(Generic[T]):
    """Batches of a data set; `shuffle=True` gives PyTorch's order for the same seed, bit for bit.

    Workers are no processes yet: with `num_workers` above 0 the batches are made in this process, in the same order
    and with the same random numbers (see `lazytensor.data.worker`). `pin_memory`, `pin_memory_device`, `timeout`,
    `multiprocessing_context`, `prefetch_factor` and `in_order` are accepted and change nothing. Each pass draws a seed
    for the workers from `generator`, also when there are none, since PyTorch does.
    """

    def __init__(
        self,
        dataset: Dataset[T],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Collate | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        is_stream = isinstance(dataset, IterableDataset)
        _check_order(is_stream, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset, self.num_workers, self.drop_last, self.generator = dataset, num_workers, drop_last, generator
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.persistent_workers, self.in_order = persistent_workers, in_order
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.sampler: Any = sampler
        if sampler is None and is_stream:
            self.sampler = itertools.repeat(None)
        elif sampler is None:
            self.sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)  # type: ignore[arg-type]
        self.batch_sampler: Any = batch_sampler
        if batch_sampler is None and batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_size = batch_size if batch_sampler is None else None
        self.collate_fn: Collate = collate_fn or (default_convert if self.batch_sampler is None else default_collate)
        self._kept: list[Worker] | None = None

    def __len__(self) -> int:
        """The number of batches. Raises TypeError for a stream without a length."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        total = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return total
        return total // self.batch_size if self.drop_last else -(-total // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        if self._kept is not None:
            return self._in_turns(self._kept)
        seed = draw_seed(self.generator)
        if not self.num_workers:
            return self._batches()
        workers = hired(self.num_workers, seed, self.dataset, self.worker_init_fn)
        if self.persistent_workers:
            self._kept = workers
        return self._in_turns(workers)

    def _batches(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            return self._from_stream()
        return map(self._fetch, self.sampler if self.batch_sampler is None else self.batch_sampler)

    def _in_turns(self, workers: list[Worker]) -> Iterator[Any]:
        """Batch i from worker i modulo their number; a stream is read by each of them to its end."""
        if isinstance(self.dataset, IterableDataset):
            yield from self._streams_in_turns(workers)
            return
        order = self.sampler if self.batch_sampler is None else self.batch_sampler
        for worker, index in zip(itertools.cycle(workers), order, strict=False):
            with worker.at_work():
                batch = self._fetch(index)
            yield batch

    def _streams_in_turns(self, workers: list[Worker]) -> Iterator[Any]:
        busy = [(worker, self._from_stream()) for worker in workers]
        ended = object()
        while busy:
            for worker, batches in list(busy):
                with worker.at_work():
                    batch = next(batches, ended)
                if batch is ended:
                    busy.remove((worker, batches))
                else:
                    yield batch

    def _from_stream(self) -> Iterator[Any]:
        stream = iter(self.dataset)  # type: ignore[call-overload]
        if self.batch_size is None:
            yield from map(self.collate_fn, stream)
            return
        while batch := list(itertools.islice(stream, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def _fetch(self, index: Any) -> Any:
        """One batch by its list of indices, or one sample by its index if there are no batches."""
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[index])
        found = gathered(self.dataset, index) if self.collate_fn is default_collate else None
        return found if found is not None else self.collate_fn(samples(self.dataset, index))


def _refused(what: str, todo: str) -> DataOptionError:
    return DataOptionError(what, where=source.where(), todo=todo)


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, is_persistent: bool) -> None:
    if num_workers < 0:
        raise _refused(f"num_workers option should be non-negative, and is {num_workers}", "Use num_workers=0.")
    if timeout < 0:
        raise _refused(f"timeout option should be non-negative, and is {timeout}", "Leave it out.")
    if num_workers == 0 and prefetch_factor is not None:
        raise _refused("prefetch_factor says how far workers run ahead, and num_workers is 0", "Leave it out.")
    if num_workers > 0 and prefetch_factor is not None and prefetch_factor < 0:
        raise _refused(f"prefetch_factor option should be non-negative, and is {prefetch_factor}", "Leave it out.")
    if num_workers == 0 and is_persistent:
        raise _refused("persistent_workers option needs num_workers > 0", "Leave it out.")


def _check_order(
    is_stream: bool, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    given = {"shuffle": shuffle, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if is_stream and value is not None and value is not False:
            raise _refused(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}",
                "A stream has its own order; leave the option out.",
            )
    if sampler is not None and shuffle:
        raise _refused("sampler option is mutually exclusive with shuffle", "Leave out one of them.")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise _refused(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last",
            "Leave the others out.",
        )
    if batch_size is None and drop_last:
        raise _refused("batch_size=None makes no batches and is mutually exclusive with drop_last", "Leave out one.")
