"""`cerebras.pytorch.nn.functional`: operations that the wafer has and PyTorch has not."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.nn.wafer_functional import (
    BEGIN_BACKWARD,
    BEGIN_FORWARD,
    END_BACKWARD,
    END_FORWARD,
    bias_add,
    conditional_arange,
    enter_scope,
    exit_scope,
    matmul,
    nth_order_statistic,
    one_hot,
    scope_boundary,
    unbind,
)

__all__ = [
    "BEGIN_BACKWARD",
    "BEGIN_FORWARD",
    "END_BACKWARD",
    "END_FORWARD",
    "bias_add",
    "conditional_arange",
    "enter_scope",
    "exit_scope",
    "matmul",
    "nth_order_statistic",
    "one_hot",
    "scope_boundary",
    "unbind",
]
manifest.explain("cerebras.pytorch.nn.functional", sys.modules[__name__])
