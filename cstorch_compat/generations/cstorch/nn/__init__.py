"""What `cerebras.pytorch.nn` offers: PyTorch's losses, and parameters and buffers that are given, not made."""

import sys
from typing import Any

from cstorch_compat import manifest
from cstorch_compat.generations.cstorch.nn import functional
from lazytensor import nn
from lazytensor.nn.module import Buffer

LOSSES = tuple(name for name in nn.__all__ if name.endswith("Loss") and name != "SoftMarginLoss")
"""The original's losses give PyTorch's values and gradients in every recorded case."""


class Parameter(nn.Parameter):
    """A parameter that requires a gradient only if the tensor it is made of does."""

    def __init__(self, data: Any = None):
        super().__init__(data, requires_grad=data is not None and data.requires_grad)


Parameter.__qualname__ = "Parameter"
globals().update({name: getattr(nn, name) for name in LOSSES})
__all__ = ["Buffer", "Parameter", "functional"]
manifest.explain("cerebras.pytorch.nn", sys.modules[__name__])
