"""What `cerebras.pytorch.sparse.dynamic` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.sparse_algorithm import SparsityAlgorithm
from cstorch_compat.common.sparse_dynamic import DynamicSparsityAlgorithm
from cstorch_compat.common.sparse_parameter import SparseParameter
from cstorch_compat.common.sparse_schedule import make_update_schedule

__all__ = [
    "DynamicSparsityAlgorithm",
    "SparseParameter",
    "SparsityAlgorithm",
    "make_update_schedule",
]
manifest.explain("cerebras.pytorch.sparse.dynamic", sys.modules[__name__])
