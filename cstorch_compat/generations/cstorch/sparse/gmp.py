"""What `cerebras.pytorch.sparse.gmp` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.sparse_dynamic import GMP, DynamicSparsityAlgorithm
from cstorch_compat.common.sparse_mask import make_mask_topk_sparsity
from cstorch_compat.common.sparse_schedule import Constant

__all__ = [
    "Constant",
    "DynamicSparsityAlgorithm",
    "GMP",
    "make_mask_topk_sparsity",
]
manifest.explain("cerebras.pytorch.sparse.gmp", sys.modules[__name__])
