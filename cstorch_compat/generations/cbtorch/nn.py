"""The modules of `cerebras_torch.nn`."""

from typing import Any

from cstorch_compat.cerebras.pytorch.root import name_scope
from lazytensor.nn.module import Module


class StripPadding(Module):
    """A module that returns its input, because batches are not padded."""

    def forward(self, x: Any) -> Any:
        """Return `x`."""
        return x


class Scope(Module):
    """A module that calls another module under the scope `scope_name` in printed graphs."""

    def __init__(self, module: Module, scope_name: str):
        super().__init__()
        self.module, self.scope_name = module, scope_name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the wrapped module."""
        with name_scope(self.scope_name):
            return self.module(*args, **kwargs)
