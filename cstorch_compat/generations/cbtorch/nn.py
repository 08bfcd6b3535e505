"""Modules of `cerebras_torch.nn`, which name operations in printed graphs."""

from typing import Any

from cstorch_compat.cerebras.pytorch.root import name_scope
from lazytensor.nn.module import Module


class StripPadding(Module):
    """Gives its input back: batches are not padded here."""

    def forward(self, x: Any) -> Any:
        """The input, of any shape."""
        return x


class Scope(Module):
    """Calls a module under a name of its own in printed graphs."""

    def __init__(self, module: Module, scope_name: str):
        super().__init__()
        self.module, self.scope_name = module, scope_name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        with name_scope(self.scope_name):
            return self.module(*args, **kwargs)
