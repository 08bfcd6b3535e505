"""The public names of classes while the shim is installed, as `print(type(x))` shows them.

Dtypes and shapes print the package of their class, so a script sees `torch.float32` and `torch.Size([2])`.
"""

import importlib
from typing import Any

PUBLIC_CLASS_PATHS = {
    "lazytensor.core.tensor:Tensor": "torch:Tensor",
    "lazytensor.core.device:Size": "torch:Size",
    "lazytensor.core.device:Device": "torch:device",
    "lazytensor.core.dtype:DType": "torch:dtype",
    "lazytensor.nn.module:Parameter": "torch.nn.parameter:Parameter",
    "lazytensor.optim.eager.eager_optimizer:Optimizer": "torch.optim.optimizer:Optimizer",
}
"""The public module and name of each class, by the module and name of its definition."""
_original_names: list[tuple[Any, str, str]] = []
"""The classes that were renamed, with their original module and name."""


def set_public_names() -> None:
    """Give each class in PUBLIC_CLASS_PATHS its public module and name. `restore_original_names` undoes this."""
    # Only while the shim is installed: without it, pickle could not import the class from `torch`.
    for own, public in PUBLIC_CLASS_PATHS.items():
        module, _, name = own.partition(":")
        kind = getattr(importlib.import_module(module), name)
        _original_names.append((kind, kind.__module__, kind.__name__))
        place, _, called = public.partition(":")
        _rename_class(kind, place, called)


def restore_original_names() -> None:
    """Restore the modules and names that `set_public_names` has changed."""
    while _original_names:
        _rename_class(*_original_names.pop())


def _rename_class(kind: Any, module: str, name: str) -> None:
    """Set module and name of a class."""
    kind.__module__, kind.__name__, kind.__qualname__ = module, name, name
