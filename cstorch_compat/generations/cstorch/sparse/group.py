"""What `cerebras.pytorch.sparse.group` offers."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.sparse.algorithm import SparsityAlgorithm
from cstorch_compat.sparse.group import Group

__all__ = [
    "Group",
    "SparsityAlgorithm",
]
manifest.explain("cerebras.pytorch.sparse.group", sys.modules[__name__])
