"""What `cerebras.pytorch.sparse.init` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.sparse_init import checkerboard, from_zeros, make_init_method, random, topk
from cstorch_compat.common.sparse_mask import ScoreShaper, make_mask_topk_sparsity

__all__ = [
    "ScoreShaper",
    "checkerboard",
    "from_zeros",
    "make_init_method",
    "make_mask_topk_sparsity",
    "random",
    "topk",
]
manifest.explain("cerebras.pytorch.sparse.init", sys.modules[__name__])
