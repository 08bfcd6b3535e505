"""What `cerebras.pytorch.sparse.rigl` offers."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.sparse.dynamic import DynamicSparsityAlgorithm, RigL
from cstorch_compat.sparse.masks import (
    InputGroupScoreShaper,
    OutputGroupScoreShaper,
    make_mask_drop_minimum,
    make_mask_grow_maximum,
)
from cstorch_compat.sparse.sparse_schedules import make_hyperparam_schedule

__all__ = [
    "DynamicSparsityAlgorithm",
    "InputGroupScoreShaper",
    "OutputGroupScoreShaper",
    "RigL",
    "make_hyperparam_schedule",
    "make_mask_drop_minimum",
    "make_mask_grow_maximum",
]
manifest.explain("cerebras.pytorch.sparse.rigl", sys.modules[__name__])
