"""Loaders while a step is recorded: no processes, no random order of a million samples, and one sample for a batch."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from lazytensor.data.collate import default_collate
from lazytensor.data.dataset import Dataset, IterableDataset, TensorDataset
from lazytensor.data.loader import DataLoader
from lazytensor.data.sampler import BatchSampler, RandomSampler, SequentialSampler


class RepeatedSample(Dataset[Any]):
    """A data set of which the first sample that is asked for stands for all: a batch has one type for all of them."""

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
    """What `batches` gives for a loader, as far as types go; its own processes are not started."""
    here = copy.copy(loader)
    # A script must not set these; they are set before this loader is used.
    attributes = vars(here)
    attributes.update(num_workers=0, _kept=None)
    if type(here.batch_sampler) is BatchSampler and type(loader.sampler) is RandomSampler:
        rows: Any = loader.dataset
        sampler = SequentialSampler(rows)
        batches_of_rows = BatchSampler(sampler, loader.batch_size or 1, loader.drop_last)
        attributes.update(sampler=sampler, batch_sampler=batches_of_rows)
    # A function of the script's own may pad to the longest sample, and a data set of tensors gives a batch at once.
    is_plain = loader.collate_fn is default_collate and not isinstance(loader.dataset, IterableDataset | TensorDataset)
    if is_plain and here.batch_sampler is not None:
        attributes.update(dataset=RepeatedSample(loader.dataset))
    return batches(here)
