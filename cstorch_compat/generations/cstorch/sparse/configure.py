"""What `cerebras.pytorch.sparse.configure` offers; the package has the function under the same name."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.sparse.algorithm import SparsityAlgorithm
from cstorch_compat.sparse.group import Group, configure, default_sparse_param_filter, map_sparsity_algorithm

__all__ = [
    "Group",
    "SparsityAlgorithm",
    "configure",
    "default_sparse_param_filter",
    "map_sparsity_algorithm",
]
manifest.explain("cerebras.pytorch.sparse.configure", sys.modules[__name__])
