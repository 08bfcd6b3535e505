"""What `cerebras.pytorch.nn` offers: PyTorch's losses, and parameters and buffers that are given, not made."""

import sys
from typing import Any

from cstorch_compat.generations.cstorch.nn import functional
from cstorch_compat.names import manifest
from cstorch_compat.nn.dice import DiceCELoss, DiceLoss
from lazytensor import nn
from lazytensor.nn.module import Buffer
from lazytensor.tensor import Tensor

LOSSES = tuple(name for name in nn.__all__ if name.endswith("Loss") and name != "SoftMarginLoss")
"""The original's losses give PyTorch's values and gradients in every recorded case; it refuses one that works here,
MultiMarginLoss without reduction."""


class Parameter(nn.Parameter):
    """A parameter that requires a gradient only if the tensor it is made of does."""

    def __init__(self, data: Any = None):
        super().__init__(data, requires_grad=data is not None and data.requires_grad)


class Scope(nn.Module):
    """Marks where a scope begins in the printed graph: forward what is called, backward where it ends."""

    def __init__(self, scope_name: str):
        super().__init__()
        self.scope_name = scope_name

    def forward(self, input: Tensor) -> Tensor:
        """Give the input back, in the scope."""
        return functional.enter_scope(input, self.scope_name)

    def exit(self, input: Tensor) -> Tensor:
        """Give the input back, outside the scope again."""
        return functional.exit_scope(input, self.scope_name)


Parameter.__qualname__ = "Parameter"
globals().update({name: getattr(nn, name) for name in LOSSES})
__all__ = ["Buffer", "DiceCELoss", "DiceLoss", "Parameter", "Scope", "functional"]
manifest.explain("cerebras.pytorch.nn", sys.modules[__name__])
