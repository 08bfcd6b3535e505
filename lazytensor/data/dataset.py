"""Datasets: map-style, iterable-style, tensors, concatenations, subsets and random splits."""

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from lazytensor import random
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.data.worker_errors import DataOptionError
from lazytensor.errors import DataError, OptionMissing
from lazytensor.functional import indexing
from lazytensor.random import Generator

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """Base class of map-style datasets. A subclass defines `__getitem__(index)` and usually `__len__`."""

    def __getitem__(self, index: Any) -> T:
        raise OptionMissing(
            f"{type(self).__name__} must define __getitem__",
            where=source.where(),
            hint="Define __getitem__(self, index) in the class.",
        )

    def __add__(self, other: "Dataset[Any]") -> "Dataset[Any]":
        return ConcatDataset([self, other])


# There is no default `__len__`, so that `len(loader)` raises TypeError.
class IterableDataset(Dataset[T]):
    """Base class of iterable-style datasets. A subclass defines `__iter__`, and `__len__` if the length is known."""

    def __iter__(self) -> Iterator[T]:
        raise OptionMissing(
            f"{type(self).__name__} must define __iter__",
            where=source.where(),
            hint="Define __iter__(self) in the class.",
        )

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """A dataset whose sample i is the tuple of element i of every tensor.

    Raises DataError if the first dimensions differ, or if there are no tensors.

    >>> import lazytensor as lt
    >>> dataset = lt.data.TensorDataset(lt.arange(4), lt.arange(4) * 10)
    >>> dataset[2]
    (tensor(2), tensor(20))
    """

    def __init__(self, *tensors: Tensor):
        lengths = [len(t) for t in tensors]
        if len(set(lengths)) != 1:
            raise DataError(
                f"Size mismatch between tensors: the first extents are {lengths}",
                where=source.where(),
                hint="Pass at least one tensor, and the same number of samples in each.",
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(indexing.getitem(t, index) for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset[T]):
    """The samples of another dataset at the given indices."""

    def __init__(self, dataset: Dataset[T], indices: Sequence[int]):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        # PyTorch's older protocol for batches: the dataset takes a list as an index.
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        return fetch_samples(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def fetch_samples(dataset: Any, indices: Sequence[int]) -> list[Any]:
    """Return the list of samples at `indices`, with one call if the dataset has the method `__getitems__`.

    The result of that method is returned unchanged. Errors of the dataset propagate.
    """
    # `__getitems__` is PyTorch's protocol for datasets that read several samples at once.
    fetch = getattr(dataset, "__getitems__", None)
    return fetch(indices) if fetch is not None else [dataset[i] for i in indices]


class ConcatDataset(Dataset[T]):
    """The concatenation of map-style datasets. Raises DataError for no datasets and for an IterableDataset."""

    def __init__(self, datasets: Iterable[Dataset[T]]):
        self.datasets: list[Any] = list(datasets)
        streams = [type(d).__name__ for d in self.datasets if isinstance(d, IterableDataset)]
        if streams or not self.datasets:
            raise DataError(
                f"ConcatDataset does not support IterableDataset, but got {streams}"
                if streams
                else "datasets should not be an empty iterable",
                where=source.where(),
                hint="Join iterable-style datasets with ChainDataset." if streams else "Pass at least one dataset.",
            )
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        if not -len(self) <= index < len(self):
            # As in PyTorch, ValueError for a negative index. IndexError after the end stops a `for` over the dataset.
            kind = IndexError if index >= 0 else DataOptionError
            raise kind(f"index {index} is out of range for a dataset of {len(self)} samples")
        index %= len(self)
        # `bisect_right` skips empty datasets, which have the same end as the dataset before.
        which = bisect.bisect_right(self.cumulative_sizes, index)
        sample: T = self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]
        return sample


class ChainDataset(IterableDataset[T]):
    """The concatenation of iterable-style datasets."""

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = datasets

    def __iter__(self) -> Iterator[T]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(len(d) for d in self.datasets)


def random_split(dataset: Dataset[T], lengths: Sequence[float], generator: Generator | None = None) -> list[Subset[T]]:
    """Split a dataset at random into subsets of the given lengths, without overlap.

    If `lengths` sum to 1 they are fractions: each is rounded down, and the remaining samples are distributed one by
    one, starting with the first subset. The split equals PyTorch's for the same `generator` state. Raises
    DataOptionError if lengths do not sum to the size of the dataset, or if a fraction is not between 0 and 1. Warns if
    a fraction gives an empty subset.
    """
    total = len(dataset)  # type: ignore[arg-type]
    # As in PyTorch, lengths that sum to 1 are fractions; [1] is the whole dataset.
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _samples_per_fraction(lengths, total)
    if sum(lengths) != total:
        raise DataOptionError(
            f"Sum of input lengths does not equal the length of the input dataset! {list(lengths)} and {total}",
            where=source.where(),
            hint=f"Pass integers that sum to {total}, or fractions that sum to 1.",
        )
    # One permutation of all samples, cut into the subsets.
    order = (generator or random.default_generator).permutation(total).tolist()
    ends = itertools.accumulate(int(n) for n in lengths)
    return [Subset(dataset, order[end - int(n) : end]) for end, n in zip(ends, lengths, strict=True)]


def _samples_per_fraction(fractions: Sequence[float], total: int) -> list[int]:
    """Return the number of samples for each fraction of `total`: rounded down, plus one for the first subsets.

    The numbers sum to `total` if the fractions sum to 1. Warns for each subset without samples. Raises DataOptionError
    if a fraction is not between 0 and 1.
    """
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise DataOptionError(
                f"Fraction at index {i} is not between 0 and 1: {fraction}",
                where=source.where(),
                hint="Use fractions between 0 and 1.",
            )
    counts = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(counts)):
        # Rounding down loses less than one sample per subset, so one round is enough.
        counts[i % len(counts)] += 1
    for i, count in enumerate(counts):
        if count == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=3)
    return counts
