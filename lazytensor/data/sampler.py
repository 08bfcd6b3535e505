"""Samplers: the order in which the samples of a dataset are read. Random samplers reproduce PyTorch's orders.

The way in which PyTorch draws was derived from its output: a random order without a generator takes one 63-bit seed
from the default generator and shuffles with a new generator of that seed.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from lazytensor import random
from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.data.worker_errors import DataOptionError, check_count, check_flag
from lazytensor.errors import OptionMissing
from lazytensor.random import Generator

T = TypeVar("T", covariant=True)
DRAWS_PER_BLOCK = 32
"""Number of indices that sampling with replacement draws at once, as in PyTorch. It determines the state of a shared
generator after a loop that stops early.
"""


def draw_seed(generator: Generator | None) -> int:
    """Return a random 63-bit seed, which takes two words of `generator` (the default generator if None)."""
    # As `torch.empty((), dtype=torch.int64).random_()`, which draws from all non-negative int64 numbers.
    return int(random.resolve_generator(generator).integers(0, 1 << 63, ()))


class Sampler(Generic[T]):
    """Base class of samplers: an iterable of indices. A subclass defines `__iter__`, and `__len__` if it is finite."""

    def __init__(self, data_source: Sized | None = None):
        self.data_source = data_source

    def __iter__(self) -> Iterator[T]:
        raise OptionMissing(
            f"{type(self).__name__} must define __iter__",
            where=source.where(),
            hint="Define __iter__(self) in the class.",
        )


class SequentialSampler(Sampler[int]):
    """The indices 0, 1, 2, ... of a dataset."""

    data_source: Sized

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The indices of a dataset in random order.

    If `num_samples` exceeds the size of the dataset, further permutations follow. With `replacement`, the indices are
    drawn independently.
    """

    data_source: Sized

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ):
        super().__init__(data_source)
        self.replacement, self.generator, self._num_samples = replacement, generator, num_samples
        check_flag("replacement", replacement)
        check_count("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """The number of indices; by default the size of the dataset."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        # A new generator with a seed from the default generator, so that numbers drawn in the loop do not change the
        # order.
        generator = self.generator or Generator().manual_seed(draw_seed(None))
        yield from self._draw_with_replacement(generator) if self.replacement else self._orders(generator)

    def _draw_with_replacement(self, generator: Generator) -> Iterator[int]:
        """Yield `num_samples` independent random indices, drawn in blocks of DRAWS_PER_BLOCK as PyTorch does."""
        # Draw in blocks, as PyTorch does, so that the generator has PyTorch's state after a loop that stops early.
        for start in range(0, self.num_samples, DRAWS_PER_BLOCK):
            count = min(DRAWS_PER_BLOCK, self.num_samples - start)
            yield from generator.integers(0, len(self.data_source), (count,)).tolist()

    def _orders(self, generator: Generator) -> Iterator[int]:
        """Yield `num_samples` indices: as many random permutations as needed, the last one cut off.

        As in PyTorch, one more permutation is drawn from the generator even if nothing remains.
        """
        n = len(self.data_source)
        whole, rest = divmod(self.num_samples, n)
        for _ in range(whole):
            yield from generator.permutation(n).tolist()
        # PyTorch draws another permutation even if nothing remains, which changes the state of a shared generator.
        if rest:
            yield from generator.permutation(n)[:rest].tolist()
        else:
            generator.words(n - 1)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None):
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        # Unlike in RandomSampler, PyTorch uses the default generator directly here.
        for i in random.resolve_generator(self.generator).permutation(len(self.indices)).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Random indices drawn with probabilities proportional to `weights`; each at most once unless `replacement`."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ):
        check_count("num_samples", num_samples)
        check_flag("replacement", replacement)
        # float64, as in PyTorch: sums of many weights in float32 would be inexact.
        self.weights = np.asarray(weights, np.float64)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator
        self._check()

    def _check(self) -> None:
        """Raise DataOptionError unless the weights are a vector of finite, non-negative numbers that are not all zero.

        Raises it too for more samples without replacement than non-zero weights.
        """
        w, fault = self.weights, ""
        if w.ndim != 1:
            fault = f"weights should be a 1d sequence but given weights have shape {w.shape}"
        elif not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
            fault = "weights should be finite, not negative and not all zero"
        elif not self.replacement and self.num_samples > np.count_nonzero(w):
            fault = (
                f"{self.num_samples} samples cannot be drawn without replacement from {np.count_nonzero(w)} "
                "nonzero weights"
            )
        if fault:
            raise DataOptionError(
                fault,
                where=source.where(),
                hint="Pass one finite, non-negative weight for each sample, or draw fewer samples.",
            )

    def __iter__(self) -> Iterator[int]:
        draw = self._with_replacement if self.replacement else self._without_replacement
        yield from draw(random.resolve_generator(self.generator)).tolist()

    def _with_replacement(self, generator: Generator) -> np.ndarray:
        """Return `num_samples` independent random indices, as int64. An index with weight zero is never drawn."""
        # Inverse transform sampling: find the interval of the cumulative weights that a uniform number falls into.
        bounds = np.cumsum(self.weights)
        places = np.searchsorted(bounds / bounds[-1], generator.uniform((self.num_samples,), dt.float64), "right")
        # A number just below 1 may be rounded up beyond the last index with a weight.
        within: np.ndarray = np.minimum(places, np.flatnonzero(self.weights)[-1])
        return within

    def _without_replacement(self, generator: Generator) -> np.ndarray:
        """Return `num_samples` different random indices, as int64, in the order in which they are drawn."""
        # Of exponential waiting times with rates w, that of index i is the shortest with probability w[i] / sum(w).
        waits = -np.log1p(-generator.uniform(self.weights.shape, dt.float64))
        with np.errstate(divide="ignore"):
            rates = self.weights / waits
        return np.argsort(-rates, kind="stable")[: self.num_samples]

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler. The last list may be shorter; it is left out if `drop_last`."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool):
        check_count("batch_size", batch_size)
        check_flag("drop_last", drop_last)
        self.sampler: Any = sampler
        self.batch_size, self.drop_last = batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        # Only the last batch can be shorter.
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
