"""DataLoader: iterate over a dataset in batches."""

import itertools
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from lazytensor.core import source
from lazytensor.data.collate import Collate, default_collate, default_convert
from lazytensor.data.dataset import Dataset, IterableDataset
from lazytensor.data.fetcher import FetchOptions, fetch_batch, stream_batches
from lazytensor.data.sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed
from lazytensor.data.worker import LoaderWorkerSetup
from lazytensor.data.worker_errors import DataOptionError, OptionTypeError
from lazytensor.data.worker_pool import WorkerBatches, WorkerPool, default_context
from lazytensor.errors import OptionInvalid
from lazytensor.random import Generator

T = TypeVar("T", covariant=True)


_FIXED_ATTRIBUTES = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))
"""Attributes of a loader that cannot be changed after its creation."""


class DataLoader(Generic[T]):
    """An iterable over the batches of a dataset, with the arguments of `torch.utils.data.DataLoader`.

    For the same seed, `shuffle=True` gives exactly PyTorch's order. With `num_workers` > 0, batches are made in that
    many processes, which are spawned on macOS and Windows and forked on other systems, unless `multiprocessing_context`
    or `multiprocessing.set_start_method` says otherwise. Order and random numbers are PyTorch's. A worker that dies or
    exceeds `timeout` seconds raises WorkerError. An object that cannot be pickled for a process that is not forked
    raises DataError, which is also pickle's error. `pin_memory`, `pin_memory_device` and `in_order` are accepted but
    have no effect. As in PyTorch, each iteration draws a seed from `generator`, even without workers. Invalid options
    raise DataOptionError or OptionTypeError.

    >>> import lazytensor as lt
    >>> dataset = lt.data.TensorDataset(lt.arange(5))
    >>> [batch.tolist() for batch, in lt.data.DataLoader(dataset, batch_size=2)]
    [[0, 1], [2, 3], [4]]
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
        # Check all options first, so that an invalid loader draws no random number and starts no process.
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        is_stream = isinstance(dataset, IterableDataset)
        _check_order(is_stream, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.num_workers, self.multiprocessing_context = num_workers, multiprocessing_context
        self.dataset, self.drop_last, self.generator = dataset, drop_last, generator
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.persistent_workers, self.in_order = worker_init_fn, persistent_workers, in_order
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.sampler: Any = _default_sampler(dataset, bool(shuffle), generator) if sampler is None else sampler
        self.batch_sampler: Any = batch_sampler
        # `batch_size=None` disables batching: samples are fetched one by one.
        if batch_sampler is None and batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        # As in PyTorch, `batch_size` is None if the user passes a batch sampler.
        self.batch_size = batch_size if batch_sampler is None else None
        self.collate_fn: Collate = collate_fn or (default_convert if self.batch_sampler is None else default_collate)
        self._kept: WorkerBatches | None = None
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. `multiprocessing_context` becomes a context, or None for the default.

        Raises DataOptionError or OptionTypeError if it is invalid. Raises ValueError, after the creation of the loader,
        for an attribute that determines its batches, such as `batch_size` or `sampler`.
        """
        if name in _FIXED_ATTRIBUTES and "_is_made" in self.__dict__:
            raise OptionInvalid(
                f"{name} attribute should not be set after {type(self).__name__} is initialized",
                where=source.where(),
                hint="Pass the value to a new DataLoader.",
            )
        if name == "multiprocessing_context":
            value = _resolve_context(self.num_workers, value)
        super().__setattr__(name, value)

    def __len__(self) -> int:
        """Return the number of batches, or of samples if there are no batches.

        For an iterable-style dataset it is computed from the length of the dataset; several workers may give more
        batches. Raises TypeError for an iterable-style dataset without a length.
        """
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        # For an iterable-style dataset this is an estimate: several workers may give more batches.
        total = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return total
        return total // self.batch_size if self.drop_last else -(-total // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        # As in PyTorch, no new seed is drawn for persistent workers, which continue with their generators.
        if self._kept is not None and self._kept.is_open:
            return self._kept.begin(self._order())
        # Draw the seed before the sampler draws, because the order of draws determines the random numbers.
        seed = draw_seed(self.generator)
        is_batched = self.batch_sampler is not None
        recipe = FetchOptions(self.dataset, self.collate_fn, is_batched, self.batch_size, self.drop_last)
        if self.num_workers:
            return self._iterate_with_workers(recipe, seed)
        return stream_batches(recipe) if recipe.is_stream else map(partial(fetch_batch, recipe), self._order())

    def _iterate_with_workers(self, recipe: FetchOptions, seed: int) -> WorkerBatches:
        """Start the workers and return an iterator over their batches.

        Persistent workers are kept for the next iteration; others end with this one.
        """
        posts = [
            LoaderWorkerSetup(i, self.num_workers, seed, recipe, self.worker_init_fn) for i in range(self.num_workers)
        ]
        # Start new processes for each iteration, with fresh copies of the dataset, unless workers are persistent.
        crew = WorkerPool(posts, self.multiprocessing_context or default_context())
        batches = WorkerBatches(crew, self.prefetch_factor or 1, self.timeout, self.persistent_workers)
        if self.persistent_workers:
            self._kept = batches
        return batches.begin(self._order())

    def _order(self) -> Iterator[Any]:
        """Return an iterator over the indices to fetch; for an iterable-style dataset, None without end."""
        if isinstance(self.dataset, IterableDataset):
            return itertools.repeat(None)
        return iter(self.sampler if self.batch_sampler is None else self.batch_sampler)


def _default_sampler(dataset: Any, is_shuffled: bool, generator: Generator | None) -> Any:
    """Return the sampler for a dataset: random if `is_shuffled`, else sequential.

    For an iterable-style dataset, return an endless iterator of None.
    """
    if isinstance(dataset, IterableDataset):
        return itertools.repeat(None)
    return RandomSampler(dataset, generator=generator) if is_shuffled else SequentialSampler(dataset)


def _option_error(what: str, hint: str) -> DataOptionError:
    return DataOptionError(what, where=source.where(), hint=hint)


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, is_persistent: bool) -> None:
    """Raise DataOptionError for an invalid option of worker processes.

    Numbers must not be negative, and `prefetch_factor` must be positive. `prefetch_factor` and `persistent_workers`
    require workers.
    """
    if num_workers < 0:
        raise _option_error(f"num_workers option should be non-negative, but is {num_workers}", "Use num_workers=0.")
    if timeout < 0:
        raise _option_error(f"timeout option should be non-negative, but is {timeout}", "Remove this option.")
    if num_workers == 0 and prefetch_factor is not None:
        raise _option_error("prefetch_factor applies to worker processes, but num_workers is 0", "Remove this option.")
    if num_workers > 0 and prefetch_factor is not None and prefetch_factor <= 0:
        raise _option_error(
            f"prefetch_factor option should be above 0, but is {prefetch_factor}", "Remove this option."
        )
    if num_workers == 0 and is_persistent:
        raise _option_error("persistent_workers option needs num_workers > 0", "Remove this option.")


def _resolve_context(num_workers: int, wanted: Any) -> Any:
    """Return the `wanted` multiprocessing context; None for None.

    `wanted` is a context or the name of a start method. Raises DataOptionError for an unknown name, and for any but
    None if there are no workers; raises OptionTypeError for another type.
    """
    methods = multiprocessing.get_all_start_methods()
    if wanted is None:
        return None
    if num_workers == 0:
        raise _option_error(
            "multiprocessing_context applies to worker processes, but num_workers is 0", "Remove this option."
        )
    if isinstance(wanted, str) and wanted not in methods:
        raise _option_error(
            f"multiprocessing_context should be one of {methods}, but is {wanted!r}", "Use one of these."
        )
    if isinstance(wanted, BaseContext):
        return wanted
    if not isinstance(wanted, str):
        raise OptionTypeError(
            f"multiprocessing_context should be a context or the name of a start method, but is {wanted!r}",
            where=source.where(),
            hint=f"Use one of {methods}.",
        )
    return multiprocessing.get_context(wanted)


def _check_order(
    is_stream: bool, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    """Raise DataOptionError for options of order and batching that exclude each other.

    With an iterable-style dataset, `shuffle`, `sampler` and `batch_sampler` must be unset. `sampler` excludes
    `shuffle`; `batch_sampler` excludes all other options; no batches (`batch_size` None) exclude `drop_last`.
    """
    options = {"shuffle": shuffle, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in options.items():
        if is_stream and value is not None and value is not False:
            raise _option_error(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}",
                "Remove this option: an iterable-style dataset determines its order itself.",
            )
    if sampler is not None and shuffle:
        raise _option_error("sampler option is mutually exclusive with shuffle", "Remove one of the two options.")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise _option_error(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last",
            "Remove the other options.",
        )
    if batch_size is None and drop_last:
        raise _option_error(
            "batch_size=None disables batching and is mutually exclusive with drop_last",
            "Remove drop_last, or set batch_size.",
        )
