"""Make batches, by index or from an iterable. The loader or its workers use these functions."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lazytensor.data.collate import Collate, default_collate, gather_samples
from lazytensor.data.dataset import IterableDataset, fetch_samples


@dataclass(frozen=True)
class FetchOptions:
    """The dataset, the collate function and the batch options of a loader.

    - `is_batched`: whether samples are grouped in batches.
    - `batch_size`, `drop_last`: used for iterable-style datasets only.
    """

    dataset: Any
    collate: Collate
    is_batched: bool
    batch_size: int | None
    drop_last: bool

    @property
    def is_stream(self) -> bool:
        """Whether the dataset is iterable-style."""
        return isinstance(self.dataset, IterableDataset)


def fetch_batch(recipe: FetchOptions, index: Any) -> Any:
    """Return the batch of the list `index`; without batches, return the sample with the index `index`.

    The collate function is applied to the list of samples, or to the single sample. With `default_collate`, a
    TensorDataset is indexed once for the whole batch, which gives the same result.
    """
    if not recipe.is_batched:
        return recipe.collate(recipe.dataset[index])
    # For tensors and the default collate function, index the whole batch at once.
    batch = gather_samples(recipe.dataset, index) if recipe.collate is default_collate else None
    return batch if batch is not None else recipe.collate(fetch_samples(recipe.dataset, index))


def stream_batches(recipe: FetchOptions) -> Iterator[Any]:
    """Yield the batches, or the samples if `batch_size` is None, of an iterable-style dataset from its start.

    The collate function is applied to each. The last batch may be shorter; it is left out if `drop_last`.
    """
    stream = iter(recipe.dataset)
    if recipe.batch_size is None:
        yield from map(recipe.collate, stream)
        return
    while batch := list(itertools.islice(stream, recipe.batch_size)):
        if len(batch) == recipe.batch_size or not recipe.drop_last:
            yield recipe.collate(batch)
