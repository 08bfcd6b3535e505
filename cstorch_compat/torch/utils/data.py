"""What `import torch.utils.data` finds."""

import sys

from cstorch_compat.names import manifest
from lazytensor import data as _data

_NAMES = """Dataset IterableDataset TensorDataset Subset ConcatDataset random_split Sampler SequentialSampler
    RandomSampler SubsetRandomSampler BatchSampler DataLoader default_collate get_worker_info"""
globals().update({name: getattr(_data, name) for name in _NAMES.split()})
manifest.explain("torch.utils.data", sys.modules[__name__])
