"""What `cerebras.pytorch.sparse.init` offers."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.sparse.initial_masks import checkerboard, from_zeros, make_init_method, random, topk
from cstorch_compat.sparse.masks import ScoreShaper, make_mask_topk_sparsity

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
