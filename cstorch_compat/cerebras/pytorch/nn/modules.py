"""The classes `Parameter` and `Scope` of `cerebras.pytorch.nn`."""

from typing import Any, Self

from cstorch_compat.cerebras.pytorch.nn.functional import enter_scope, exit_scope
from lazytensor import nn
from lazytensor.core.tensor import Tensor


class Parameter(nn.Parameter):
    """A parameter whose `requires_grad` is that of `data`. PyTorch's default is True."""

    def __new__(cls, data: Any = None) -> Self:
        """Return a parameter that shares the storage of `data`, or an empty parameter if `data` is None."""
        return super().__new__(cls, data, requires_grad=data is not None and data.requires_grad)


class Scope(nn.Module):
    """A module that marks a named scope in the printed graph. `forward` begins the scope and `exit` ends it."""

    def __init__(self, scope_name: str):
        super().__init__()
        self.scope_name = scope_name

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` unchanged, and record the begin of the scope."""
        return enter_scope(input, self.scope_name)

    def exit(self, input: Tensor) -> Tensor:
        """Return `input` unchanged, and record the end of the scope."""
        return exit_scope(input, self.scope_name)


Parameter.__qualname__ = "Parameter"
