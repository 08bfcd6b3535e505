"""Data sets: by index, as a stream, from tensors, joined, and split."""

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
from lazytensor.errors import DataError
from lazytensor.functional import indexing
from lazytensor.random import Generator

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """Samples by index. A subclass defines `__getitem__` and, for most uses, `__len__`."""

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError(f"{type(self).__name__} has to define __getitem__")

    def __add__(self, other: "Dataset[Any]") -> "Dataset[Any]":
        return ConcatDataset([self, other])


# No `__len__` by default: a length that is missing is told from one that is wrong, and `len(loader)` raises TypeError.
class IterableDataset(Dataset[T]):
    """Samples as a stream. A subclass defines `__iter__`."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} has to define __iter__")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i is the tuple of place i of every tensor. Raises DataError if their first extents differ."""

    def __init__(self, *tensors: Tensor):
        lengths = [len(t) for t in tensors]
        if len(set(lengths)) != 1:
            raise DataError(
                f"Size mismatch between tensors: the first extents are {lengths}",
                where=source.where(),
                hint="Give at least one tensor, and all with the same number of samples.",
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(indexing.getitem(t, index) for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset[T]):
    """The samples of another data set at the given indices."""

    def __init__(self, dataset: Dataset[T], indices: Sequence[int]):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        # PyTorch's older protocol of whole batches, for data sets that take a list as an index.
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        return fetch_samples(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def fetch_samples(dataset: Any, indices: Sequence[int]) -> list[Any]:
    """The samples at several indices, fetched at once where the data set offers `__getitems__`."""
    # PyTorch's protocol for data sets that read many samples faster than one by one.
    fetch = getattr(dataset, "__getitems__", None)
    return fetch(indices) if fetch is not None else [dataset[i] for i in indices]


class ConcatDataset(Dataset[T]):
    """Several data sets one after the other. Raises DataError for none at all and for a stream."""

    def __init__(self, datasets: Iterable[Dataset[T]]):
        self.datasets: list[Any] = list(datasets)
        streams = [type(d).__name__ for d in self.datasets if isinstance(d, IterableDataset)]
        if streams or not self.datasets:
            raise DataError(
                f"ConcatDataset does not support IterableDataset, and got {streams}"
                if streams
                else "datasets should not be an empty iterable",
                where=source.where(),
                hint="Join streams with ChainDataset." if streams else "Give at least one data set.",
            )
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        if not -len(self) <= index < len(self):
            # PyTorch raises ValueError for a negative index; past the end IndexError ends a `for` over the data set.
            kind = IndexError if index >= 0 else DataOptionError
            raise kind(f"index {index} is outside a data set of {len(self)} samples")
        index %= len(self)
        # On the right: a data set without samples has the same end as the one before it, and is stepped over.
        which = bisect.bisect_right(self.cumulative_sizes, index)
        sample: T = self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]
        return sample


class ChainDataset(IterableDataset[T]):
    """Several streams one after the other."""

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = datasets

    def __iter__(self) -> Iterator[T]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(len(d) for d in self.datasets)


def random_split(dataset: Dataset[T], lengths: Sequence[float], generator: Generator | None = None) -> list[Subset[T]]:
    """Parts of the given lengths, or of the given fractions if these sum to 1, drawn without replacement.

    Fractions are rounded down; what is left over goes to the parts in turn, one sample each. Bit for bit PyTorch's
    split. Raises DataOptionError if the lengths do not sum to that of the data set.
    """
    total = len(dataset)  # type: ignore[arg-type]
    # Fractions and counts share an argument: what sums to 1 is fractions, as in PyTorch, and [1] is the whole data set.
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _samples_per_fraction(lengths, total)
    if sum(lengths) != total:
        raise DataOptionError(
            f"Sum of input lengths does not equal the length of the input dataset! {list(lengths)} and {total}",
            where=source.where(),
            hint=f"Give whole numbers that sum to {total}, or fractions that sum to 1.",
        )
    # One permutation for all parts, cut in order.
    order = (generator or random.default_generator).permutation(total).tolist()
    ends = itertools.accumulate(int(n) for n in lengths)
    return [Subset(dataset, order[end - int(n) : end]) for end, n in zip(ends, lengths, strict=True)]


def _samples_per_fraction(fractions: Sequence[float], total: int) -> list[int]:
    """How many samples each fraction stands for."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise DataOptionError(
                f"Fraction at index {i} is not between 0 and 1: {fraction}", where=source.where(), hint="Correct it."
            )
    counts = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(counts)):
        # Rounding down loses less than one sample a part, so one round is enough.
        counts[i % len(counts)] += 1
    for i, count in enumerate(counts):
        if count == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=3)
    return counts
