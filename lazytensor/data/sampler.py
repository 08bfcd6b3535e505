"""Samplers: the order in which the samples of a data set are read. The random ones give PyTorch's orders.

How PyTorch draws was worked out from its answers: a random order without a generator of its own takes one 63-bit seed
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
from lazytensor.random import Generator

T = TypeVar("T", covariant=True)
DRAWS_PER_BLOCK = 32
"""Indices that sampling with replacement draws at once; it decides how far a shared generator has run after a break."""


def draw_seed(generator: Generator | None) -> int:
    """A seed of 63 bits, which takes two words of the generator."""
    # PyTorch draws an int64 over its whole positive range, as `torch.empty((), dtype=torch.int64).random_()` does.
    return int(random.resolve_generator(generator).integers(0, 1 << 63, ()))


class Sampler(Generic[T]):
    """Indices in some order. A subclass defines `__iter__`, and `__len__` if there is an end."""

    def __init__(self, data_source: Sized | None = None):
        self.data_source = data_source

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} has to define __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    data_source: Sized

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A random order, begun anew when `num_samples` exceeds the data; with `replacement`, independent draws."""

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
        """How many indices it gives; by default as many as there are samples."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        # A seed and not the default generator itself: what the loop draws between two batches does not change the
        # order.
        generator = self.generator or Generator().manual_seed(draw_seed(None))
        yield from self._draw_with_replacement(generator) if self.replacement else self._orders(generator)

    def _draw_with_replacement(self, generator: Generator) -> Iterator[int]:
        # In blocks, as PyTorch draws: the numbers are the same as in one draw, and a loop that breaks off leaves the
        # generator where PyTorch's stands.
        for start in range(0, self.num_samples, DRAWS_PER_BLOCK):
            count = min(DRAWS_PER_BLOCK, self.num_samples - start)
            yield from generator.integers(0, len(self.data_source), (count,)).tolist()

    def _orders(self, generator: Generator) -> Iterator[int]:
        n = len(self.data_source)
        whole, rest = divmod(self.num_samples, n)
        for _ in range(whole):
            yield from generator.permutation(n).tolist()
        # PyTorch shuffles once more even if nothing is left to give, and whoever shares the generator sees it.
        if rest:
            yield from generator.permutation(n)[:rest].tolist()
        else:
            generator.words(n - 1)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in a random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None):
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        # From the default generator itself, unlike RandomSampler: PyTorch draws no seed here.
        for i in random.resolve_generator(self.generator).permutation(len(self.indices)).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices with the given probabilities, up to a factor; without replacement each at most once."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ):
        check_count("num_samples", num_samples)
        check_flag("replacement", replacement)
        # Double, as PyTorch keeps them: float32 sums of many weights would shift the bounds.
        self.weights = np.asarray(weights, np.float64)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator
        self._check()

    def _check(self) -> None:
        w, fault = self.weights, ""
        if w.ndim != 1:
            fault = f"weights should be a 1d sequence but given weights have shape {w.shape}"
        elif not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
            fault = "weights should be finite, not negative and not all zero"
        elif not self.replacement and self.num_samples > np.count_nonzero(w):
            fault = f"{self.num_samples} samples cannot be drawn without replacement from {np.count_nonzero(w)}"
        if fault:
            raise DataOptionError(fault, where=source.where(), hint="Give one weight for each sample.")

    def __iter__(self) -> Iterator[int]:
        draw = self._with_replacement if self.replacement else self._without_replacement
        yield from draw(random.resolve_generator(self.generator)).tolist()

    def _with_replacement(self, generator: Generator) -> np.ndarray:
        # A uniform number falls into a place's part of the line with the place's probability.
        bounds = np.cumsum(self.weights)
        places = np.searchsorted(bounds / bounds[-1], generator.uniform((self.num_samples,), dt.float64), "right")
        # A number just below 1 can round up to the end of the last place that has a weight.
        within: np.ndarray = np.minimum(places, np.flatnonzero(self.weights)[-1])
        return within

    def _without_replacement(self, generator: Generator) -> np.ndarray:
        # The first of several waiting times with rates w is that of i with probability w[i] / sum(w), and so on.
        waits = -np.log1p(-generator.uniform(self.weights.shape, dt.float64))
        with np.errstate(divide="ignore"):
            rates = self.weights / waits
        return np.argsort(-rates, kind="stable")[: self.num_samples]

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler; the last may be shorter unless `drop_last`."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool):
        check_count("batch_size", batch_size)
        check_flag("drop_last", drop_last)
        self.sampler: Any = sampler
        self.batch_size, self.drop_last = batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        # A short batch can only be the last, so nothing comes after one that is dropped.
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
