"""Parameters and marks of scopes as `cerebras.pytorch.nn` has them."""

from typing import Any, Self

from cstorch_compat.cerebras.pytorch.nn.functional import enter_scope, exit_scope
from lazytensor import nn
from lazytensor.core.tensor import Tensor


class Parameter(nn.Parameter):
    """A parameter that requires a gradient only if the tensor it is made of does."""

    def __new__(cls, data: Any = None) -> Self:
        """Return a parameter that shares the storage of `data`, or an empty one for None."""
        # PyTorch's own asks for a gradient by default; the original takes over what the data says.
        return super().__new__(cls, data, requires_grad=data is not None and data.requires_grad)


class Scope(nn.Module):
    """Marks where a scope begins in the printed graph: forward what is called, backward where it ends."""

    def __init__(self, scope_name: str):
        super().__init__()
        self.scope_name = scope_name

    def forward(self, input: Tensor) -> Tensor:
        """Give the input back, in the scope."""
        return enter_scope(input, self.scope_name)

    def exit(self, input: Tensor) -> Tensor:
        """Give the input back, outside the scope again."""
        return exit_scope(input, self.scope_name)


Parameter.__qualname__ = "Parameter"
