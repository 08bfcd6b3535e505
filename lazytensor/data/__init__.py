"""Datasets, samplers and the data loader, with the API of `torch.utils.data`."""

from lazytensor.data.collate import default_collate, default_convert
from lazytensor.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from lazytensor.data.loader import DataLoader
from lazytensor.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from lazytensor.data.worker import WorkerInfo, get_worker_info
from lazytensor.data.worker_errors import (
    DataOptionError,
    OptionTypeError,
    SampleTypeError,
    SlowWorkerWarning,
    WorkerError,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "DataOptionError",
    "Dataset",
    "IterableDataset",
    "OptionTypeError",
    "RandomSampler",
    "SampleTypeError",
    "Sampler",
    "SequentialSampler",
    "SlowWorkerWarning",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerError",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
