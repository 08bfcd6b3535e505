"""What `cerebras.pytorch.sparse.base` offers."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.sparse.algorithm import SparsityAlgorithm
from cstorch_compat.sparse.initial_masks import make_init_method
from cstorch_compat.sparse.parameter import SparseParameter
from cstorch_compat.sparse.sparse_schedules import HyperParameterSchedule, make_hyperparam_schedule

__all__ = [
    "HyperParameterSchedule",
    "SparseParameter",
    "SparsityAlgorithm",
    "make_hyperparam_schedule",
    "make_init_method",
]
manifest.explain("cerebras.pytorch.sparse.base", sys.modules[__name__])
