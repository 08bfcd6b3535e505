"""Lazy tensors with PyTorch's names: operations are recorded as a graph and computed when somebody looks."""

from typing import Any

from lazytensor import autograd, gradients, nn, optim, trace
from lazytensor.dtype import (
    bfloat16,
    bool_,
    cbfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
)
from lazytensor.functions.methods import FAMILIES
from lazytensor.functions.outputs import spelled
from lazytensor.functions.promotion import default_dtype, result_type, set_default_dtype
from lazytensor.functions.typeinfo import finfo, iinfo
from lazytensor.functions.widening import published
from lazytensor.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from lazytensor.random import Generator, manual_seed
from lazytensor.tensor import Device, Size, Tensor, is_grad_enabled

__version__ = "0.1.0"
globals().update(
    {name: spelled(published(name, getattr(family, name))) for family in FAMILIES for name in family.PUBLIC.split()}
)
PUBLIC = tuple(
    name for name in globals() if not name.startswith("_") and name not in ("Any", "FAMILIES", "spelled", "published")
)
"""Every name above: what the PyTorch mirror offers under the same spelling."""


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module 'lazytensor' has no attribute {name!r}")
