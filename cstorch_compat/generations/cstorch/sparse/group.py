"""What `cerebras.pytorch.sparse.group` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.sparse_algorithm import SparsityAlgorithm
from cstorch_compat.common.sparse_group import Group

__all__ = [
    "Group",
    "SparsityAlgorithm",
]
manifest.explain("cerebras.pytorch.sparse.group", sys.modules[__name__])
