"""Members of Module that only PyTorch scripts need: no-ops, refusals and compositions.

Importing this module attaches them to Module. Members that lazytensor defines are not replaced.
"""

from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.torch import tensor_members
from lazytensor.core import source
from lazytensor.core.storage import new_storage
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OperandInvalid, OptionInvalid, ShapeError
from lazytensor.functional.creation import empty_like
from lazytensor.nn.module import Module

# Libraries call the hooks in these tables. Nothing can register such a hook.
_global_parameter_registration_hooks: dict[int, Callable[..., Any]] = {}
_global_buffer_registration_hooks: dict[int, Callable[..., Any]] = {}
_global_module_registration_hooks: dict[int, Callable[..., Any]] = {}
DEVICE_METHODS = ("cuda", "xpu", "mtia", "ipu")


def _parameters_and_buffers(module: Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def share_memory(module: Module) -> Module:
    """Mark all parameters and buffers as shared with processes that are started, and return the module."""
    for t in _parameters_and_buffers(module):
        tensor_members.share_memory_(t)
    return module


def to_empty(module: Module, *, device: Any, recurse: bool = True) -> Module:
    """Give the parameters and buffers new storage with undefined values on `device`, and return the module.

    The tensor objects stay the same. `recurse` has no effect: submodules are always included.
    """
    for t in _parameters_and_buffers(module):
        fresh = empty_like(t, device=device)
        # The tensor objects stay the same, because optimizers and shared layers refer to them.
        t.cell, t.view_ops, t.device, t._seen = new_storage(fresh.node), (), fresh.device, None
    return module


def type_(module: Module, dst_type: Any) -> Module:
    """Convert all parameters and buffers to a dtype, and return the module."""
    return module.to(dst_type)


def compile_(module: Module, *args: Any, **kwargs: Any) -> None:
    """Do nothing. The operations of a module are compiled in any case."""


def set_submodule(module: Module, target: str, module_: Module, strict: bool = False) -> None:
    """Set the submodule at the path `target`, such as "layers.0", to `module_`.

    A missing last name is created unless `strict` is True. Raises ValueError for an empty path, and AttributeError if
    the parent does not exist, or if the submodule does not exist and `strict` is True.
    """
    if not target:
        raise OptionInvalid(
            "Cannot set the submodule without a target name!",
            where=source.where(),
            hint='Pass a name such as "layers.0".',
        )
    path, _, name = target.rpartition(".")
    owner = module.get_submodule(path)
    if strict and not hasattr(owner, name):
        raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
    setattr(owner, name, module_)


def _make_refusing_move(name: str) -> Callable[..., Module]:
    def moved(module: Module, *args: Any, **kwargs: Any) -> Module:
        # As in PyTorch, a module without tensors can be moved to any device.
        if any(True for _ in _parameters_and_buffers(module)):
            raise OperandInvalid(
                tensor_members.NO_DEVICE_MESSAGE.format(name.upper()),
                where=source.where(),
                hint='Keep the module on the CPU, or use cstorch.backend("CSX").',
            )
        return module

    moved.__name__ = moved.__qualname__ = name
    moved.__doc__ = (
        f"Raise AssertionError, as PyTorch does in a build without support for {name}.\n\n"
        "A module without parameters and buffers is returned unchanged. Other arguments are ignored."
    )
    return moved


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a module with uninitialized parameters. No random numbers are drawn.

    Raises RuntimeError if `module_cls` is not a Module class.
    """
    if not issubclass(module_cls, Module):
        raise ShapeError(f"Expected a Module; got {module_cls}", where=source.where(), hint="Pass a module.")
    # Created on the meta device, so that no random numbers are drawn.
    device = kwargs.pop("device", "cpu")
    return to_empty(module_cls(*args, device="meta", **kwargs), device=device)


def _attach() -> None:
    members = {"share_memory": share_memory, "to_empty": to_empty, "type": type_, "compile": compile_}
    members |= {"set_submodule": set_submodule, **{name: _make_refusing_move(name) for name in DEVICE_METHODS}}
    for name, function in members.items():
        if name not in vars(Module):
            setattr(Module, name, function)


_attach()
