"""What `cerebras.pytorch.sparse.static` offers."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.sparse.algorithm import SparsityAlgorithm, Static
from cstorch_compat.sparse.parameter import SparseParameter

__all__ = [
    "SparseParameter",
    "SparsityAlgorithm",
    "Static",
]
manifest.explain("cerebras.pytorch.sparse.static", sys.modules[__name__])
