"""What `cerebras.pytorch.sparse.gmp` offers."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.sparse.dynamic import GMP, DynamicSparsityAlgorithm
from cstorch_compat.sparse.masks import make_mask_topk_sparsity
from cstorch_compat.sparse.sparse_schedules import Constant

__all__ = [
    "Constant",
    "DynamicSparsityAlgorithm",
    "GMP",
    "make_mask_topk_sparsity",
]
manifest.explain("cerebras.pytorch.sparse.gmp", sys.modules[__name__])
