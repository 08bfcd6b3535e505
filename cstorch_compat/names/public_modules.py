"""The names that classes have while the shim is installed: what `print(type(x))` shows.

Types and shapes print the package of their class, so that a script sees `torch.float32` and `torch.Size([2])`.
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
"""The public place of each class, by where it is written."""
_original_names: list[tuple[Any, str, str]] = []


def set_public_names() -> None:
    """Let each class say its public place."""
    # While the shim is there and no longer: without it no `torch` could be imported to find the class, as pickle does.
    for own, public in PUBLIC_CLASS_PATHS.items():
        module, _, name = own.partition(":")
        kind = getattr(importlib.import_module(module), name)
        # Under which name it was written is known to nobody else from here on.
        _original_names.append((kind, kind.__module__, kind.__name__))
        place, _, called = public.partition(":")
        _rename_class(kind, place, called)


def restore_original_names() -> None:
    """Let each class say again where it is written."""
    while _original_names:
        _rename_class(*_original_names.pop())


def _rename_class(kind: Any, module: str, name: str) -> None:
    kind.__module__, kind.__name__, kind.__qualname__ = module, name, name
