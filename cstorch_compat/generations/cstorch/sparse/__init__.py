"""What `cerebras.pytorch.sparse` offers: algorithms that keep parameters sparse while a model trains."""

import sys

from cstorch_compat.generations.cstorch.sparse import base, dynamic, gmp, group, init, rigl, set, static, utils
from cstorch_compat.generations.cstorch.sparse.configure import configure, map_sparsity_algorithm
from cstorch_compat.names import manifest
from cstorch_compat.sparse.algorithm import SparsityAlgorithm, Static
from cstorch_compat.sparse.dynamic import GMP, SET, DynamicSparsityAlgorithm, RigL
from cstorch_compat.sparse.group import Group

__all__ = [
    "GMP",
    "SET",
    "DynamicSparsityAlgorithm",
    "Group",
    "RigL",
    "SparsityAlgorithm",
    "Static",
    "base",
    "configure",
    "dynamic",
    "gmp",
    "group",
    "init",
    "map_sparsity_algorithm",
    "rigl",
    "set",
    "static",
    "utils",
]
manifest.explain("cerebras.pytorch.sparse", sys.modules[__name__])
