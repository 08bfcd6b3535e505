"""Debug names of modules, which printed graphs show."""

from lazytensor.nn.module import Module
from lazytensor.nn.module_scopes import name_scopes


def add_debug_name(module: Module, root_name: str | None = None) -> None:
    """Set the debug name of `module` and all its submodules to their paths.

    Each path is prefixed with `root_name` if it is given. Without it the name of `module` itself is its class name.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    >>> cstorch.add_debug_name(model, "net")
    >>> cstorch.get_debug_name(model[0])
    'net.0'
    """
    for path, part in module.named_modules():
        # The path of the outermost module is empty; its default name is that of its class.
        name = ".".join(piece for piece in (root_name, path) if piece) or type(part).__name__
        # Write to __dict__ to bypass Module.__setattr__, which handles parameters and submodules.
        part.__dict__["_debug_name"] = name
    name_scopes(module, root_name or type(module).__name__)


def get_debug_name(module: Module) -> str:
    """Return the debug name of `module`, or its class name if `add_debug_name` did not set one.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.get_debug_name(torch.nn.Linear(2, 2))
    'Linear'
    """
    return module.__dict__.get("_debug_name") or type(module).__name__
