"""Data loaders while a step is recorded: no worker processes, no shuffling, and one sample for a whole batch."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from lazytensor.data.collate import default_collate
from lazytensor.data.dataset import Dataset, IterableDataset, TensorDataset
from lazytensor.data.loader import DataLoader
from lazytensor.data.sampler import BatchSampler, RandomSampler, SequentialSampler


class RepeatedSample(Dataset[Any]):
    """A data set that returns its first requested sample for every index.

    A batch needs only the types of its samples.
    """

    def __init__(self, dataset: Any):
        self.dataset = dataset
        self._sample: Any = None
        self._has_sample = False

    def __getitem__(self, index: Any) -> Any:
        if not self._has_sample:
            self._sample, self._has_sample = self.dataset[index], True
        return self._sample

    def __len__(self) -> int:
        return len(self.dataset)


def first_batches(loader: DataLoader[Any], batches: Callable[[DataLoader[Any]], Iterator[Any]]) -> Iterator[Any]:
    """Yield the batches of a copy of `loader`. Their types are correct, their values need not be.

    `batches` is the original `DataLoader.__iter__`. The copy has no worker processes and reads in sequential order. It
    reads one sample for all, unless the loader has its own collate function or the data set is iterable or a
    TensorDataset.
    """
    here = copy.copy(loader)
    # Write to `__dict__`, because DataLoader does not allow setting these after construction.
    attributes = vars(here)
    attributes.update(num_workers=0, _kept=None)
    if type(here.batch_sampler) is BatchSampler and type(loader.sampler) is RandomSampler:
        rows: Any = loader.dataset
        sampler = SequentialSampler(rows)
        batches_of_rows = BatchSampler(sampler, loader.batch_size or 1, loader.drop_last)
        attributes.update(sampler=sampler, batch_sampler=batches_of_rows)
    # A custom collate function may pad to the longest sample, and a TensorDataset returns whole batches.
    is_plain = loader.collate_fn is default_collate and not isinstance(loader.dataset, IterableDataset | TensorDataset)
    if is_plain and here.batch_sampler is not None:
        attributes.update(dataset=RepeatedSample(loader.dataset))
    return batches(here)
