"""What `cerebras.pytorch.sparse.dynamic` offers."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.sparse.algorithm import SparsityAlgorithm
from cstorch_compat.sparse.dynamic import DynamicSparsityAlgorithm
from cstorch_compat.sparse.parameter import SparseParameter
from cstorch_compat.sparse.sparse_schedules import make_update_schedule

__all__ = [
    "DynamicSparsityAlgorithm",
    "SparseParameter",
    "SparsityAlgorithm",
    "make_update_schedule",
]
manifest.explain("cerebras.pytorch.sparse.dynamic", sys.modules[__name__])
