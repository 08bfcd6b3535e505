"""What `cerebras.pytorch.sparse.set` offers."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.sparse.dynamic import SET, DynamicSparsityAlgorithm
from cstorch_compat.sparse.masks import make_mask_drop_minimum, make_mask_grow_maximum
from cstorch_compat.sparse.sparse_schedules import make_hyperparam_schedule

__all__ = [
    "DynamicSparsityAlgorithm",
    "SET",
    "make_hyperparam_schedule",
    "make_mask_drop_minimum",
    "make_mask_grow_maximum",
]
manifest.explain("cerebras.pytorch.sparse.set", sys.modules[__name__])
