"""Names of modules as printed graphs show them."""

from lazytensor.nn.module import Module
from lazytensor.nn.module_scopes import name_scopes


def add_debug_name(module: Module, root_name: str | None = None) -> None:
    """Name a module and those inside of it by their paths, below `root_name` if there is one.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    >>> cstorch.add_debug_name(model, "net")
    >>> cstorch.get_debug_name(model[0])
    'net.0'
    """
    for path, part in module.named_modules():
        # The outermost has an empty path, and a name of its class where no other was given.
        name = ".".join(piece for piece in (root_name, path) if piece) or type(part).__name__
        # Past the module's own setattr, which would look whether this is a parameter.
        part.__dict__["_debug_name"] = name
    name_scopes(module, root_name or type(module).__name__)


def get_debug_name(module: Module) -> str:
    """The name that was given, else that of the class.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.get_debug_name(torch.nn.Linear(2, 2))
    'Linear'
    """
    return module.__dict__.get("_debug_name") or type(module).__name__
