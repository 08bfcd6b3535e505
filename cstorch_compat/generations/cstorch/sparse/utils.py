"""What `cerebras.pytorch.sparse.utils` offers."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.sparse.masks import (
    InputGroupScoreShaper,
    OutputGroupScoreShaper,
    ScoreFlattener,
    ScoreShaper,
    make_mask_drop_minimum,
    make_mask_grow_maximum,
    make_mask_topk_sparsity,
)
from cstorch_compat.sparse.sparse_schedules import (
    Constant,
    Cosine,
    Cycling,
    Exp,
    FreqSchedule,
    HyperParameterSchedule,
    Lambda,
    Linear,
    ListSchedule,
    Power,
    UpdateSchedule,
    make_hyperparam_schedule,
    make_update_schedule,
)

__all__ = [
    "Constant",
    "Cosine",
    "Cycling",
    "Exp",
    "FreqSchedule",
    "HyperParameterSchedule",
    "InputGroupScoreShaper",
    "Lambda",
    "Linear",
    "ListSchedule",
    "OutputGroupScoreShaper",
    "Power",
    "ScoreFlattener",
    "ScoreShaper",
    "UpdateSchedule",
    "make_hyperparam_schedule",
    "make_mask_drop_minimum",
    "make_mask_grow_maximum",
    "make_mask_topk_sparsity",
    "make_update_schedule",
]
manifest.explain("cerebras.pytorch.sparse.utils", sys.modules[__name__])
