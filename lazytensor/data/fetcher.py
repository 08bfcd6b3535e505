"""Makes batches of samples: by index, or from a stream. The loader does it itself, or its workers do."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lazytensor.data.collate import Collate, default_collate, gather_samples
from lazytensor.data.dataset import IterableDataset, fetch_samples


@dataclass(frozen=True)
class FetchOptions:
    """What a batch is made of, and how."""

    dataset: Any
    collate: Collate
    is_batched: bool
    batch_size: int | None
    drop_last: bool

    @property
    def is_stream(self) -> bool:
        """Whether the samples come in an order of their own, and not by index."""
        return isinstance(self.dataset, IterableDataset)


def fetch_batch(recipe: FetchOptions, index: Any) -> Any:
    """One batch by its list of indices, or one sample by its index if there are no batches."""
    if not recipe.is_batched:
        return recipe.collate(recipe.dataset[index])
    # Data sets of tensors give a whole batch by one indexing; any other collate wants the samples one by one.
    batch = gather_samples(recipe.dataset, index) if recipe.collate is default_collate else None
    return batch if batch is not None else recipe.collate(fetch_samples(recipe.dataset, index))


def stream_batches(recipe: FetchOptions) -> Iterator[Any]:
    """The batches, or the samples, of a stream from its beginning."""
    stream = iter(recipe.dataset)
    if recipe.batch_size is None:
        yield from map(recipe.collate, stream)
        return
    while batch := list(itertools.islice(stream, recipe.batch_size)):
        if len(batch) == recipe.batch_size or not recipe.drop_last:
            yield recipe.collate(batch)
