"""What `cerebras.pytorch.sparse.base` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.sparse_algorithm import SparsityAlgorithm
from cstorch_compat.common.sparse_init import make_init_method
from cstorch_compat.common.sparse_parameter import SparseParameter
from cstorch_compat.common.sparse_schedule import HyperParameterSchedule, make_hyperparam_schedule

__all__ = [
    "HyperParameterSchedule",
    "SparseParameter",
    "SparsityAlgorithm",
    "make_hyperparam_schedule",
    "make_init_method",
]
manifest.explain("cerebras.pytorch.sparse.base", sys.modules[__name__])
