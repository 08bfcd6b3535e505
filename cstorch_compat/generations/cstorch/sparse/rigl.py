"""What `cerebras.pytorch.sparse.rigl` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.sparse_dynamic import DynamicSparsityAlgorithm, RigL
from cstorch_compat.common.sparse_mask import (
    InputGroupScoreShaper,
    OutputGroupScoreShaper,
    make_mask_drop_minimum,
    make_mask_grow_maximum,
)
from cstorch_compat.common.sparse_schedule import make_hyperparam_schedule

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
