"""Members of Module that are no-ops, refusals or compositions here."""

from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.torch import tensor_members
from lazytensor.core.storage import new_storage
from lazytensor.core.tensor import Tensor
from lazytensor.functional.creation import empty_like
from lazytensor.nn.module import Module

DEVICE_METHODS = ("cuda", "xpu", "mtia", "ipu")


def _parameters_and_buffers(module: Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def share_memory(module: Module) -> Module:
    """Note that all parameters and buffers are to be shared with processes that are started."""
    for t in _parameters_and_buffers(module):
        tensor_members.share_memory_(t)
    return module


def to_empty(module: Module, *, device: Any, recurse: bool = True) -> Module:
    """Move to a device without the values; nobody promises what they are."""
    for t in _parameters_and_buffers(module):
        fresh = empty_like(t, device=device)
        # The tensor stays the same object, which optimizers and shared layers hold.
        t.cell, t.view_ops, t.device, t._seen = new_storage(fresh.node), (), fresh.device, None
    return module


def type_(module: Module, dst_type: Any) -> Module:
    """Convert all parameters and buffers."""
    return module.to(dst_type)


def compile_(module: Module, *args: Any, **kwargs: Any) -> None:
    """Nothing: what a module computes is compiled anyway."""


def set_submodule(module: Module, target: str, module_: Module, strict: bool = False) -> None:
    """Put a module at a path. Raises ValueError for an empty one, AttributeError where nothing leads there."""
    if not target:
        raise ValueError("Cannot set the submodule without a target name!")
    path, _, name = target.rpartition(".")
    # By attribute, as the module itself was put there.
    owner = module.get_submodule(path)
    if strict and not hasattr(owner, name):
        raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
    setattr(owner, name, module_)


def _make_refusing_move(name: str) -> Callable[..., Module]:
    def moved(module: Module, *args: Any, **kwargs: Any) -> Module:
        # A module without tensors has nothing to move, as in PyTorch.
        if any(True for _ in _parameters_and_buffers(module)):
            raise AssertionError(tensor_members.NO_DEVICE_MESSAGE.format(name.upper()))
        return module

    moved.__name__ = moved.__qualname__ = name
    moved.__doc__ = "Raises AssertionError, as a CPU build does."
    return moved


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A module without its initial values: nothing is drawn for it that the generator would go on from.

    Raises RuntimeError for a class that takes no device.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    # Made without values first, so that nothing is drawn that is thrown away.
    device = kwargs.pop("device", "cpu")
    return to_empty(module_cls(*args, device="meta", **kwargs), device=device)


def _attach() -> None:
    members = {"share_memory": share_memory, "to_empty": to_empty, "type": type_, "compile": compile_}
    members |= {"set_submodule": set_submodule, **{name: _make_refusing_move(name) for name in DEVICE_METHODS}}
    for name, function in members.items():
        if name not in vars(Module):
            setattr(Module, name, function)


_attach()
