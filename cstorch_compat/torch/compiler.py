"""`torch.compile`, `torch.compiler` and `torch.jit`: tensors here are lazy, and what they compute is compiled anyway.

So a function that is to be compiled or scripted runs as it stands, with the same numbers; a module comes back in
PyTorch's wrapper, whose state dict has `_orig_mod.` in front of the names.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from lazytensor.core import source
from lazytensor.errors import OptionMissing
from lazytensor.nn.module import Module


class OptimizedModule(Module):
    """What `torch.compile` gives for a module: attributes and calls are those of the module in `_orig_mod`."""

    def __init__(self, mod: Module):
        super().__init__()
        self.__dict__["training"] = mod.training
        # Into the table, so that parameters are found below it under PyTorch's prefix.
        self._modules["_orig_mod"] = mod

    def __getattr__(self, name: str) -> Any:
        mod = self.__dict__["_modules"]["_orig_mod"]
        return mod if name == "_orig_mod" else getattr(mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" in self.__dict__ and "_orig_mod" in self.__dict__["_modules"]:
            setattr(self._orig_mod, name, value)
        else:
            super().__setattr__(name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self._orig_mod(*args, **kwargs)


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
    **_: Any,
) -> Any:
    """The function itself, or a module in its wrapper; without one a decorator. Raises RuntimeError as PyTorch does.

    `backend` may be a function of a user's: it is not called, for there is no FX graph to give it.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        return lambda model: compile(model, disable=disable)
    if not callable(model):
        raise RuntimeError(f"torch.compile expected a callable, got {type(model).__name__}")
    return OptimizedModule(model) if isinstance(model, Module) and not disable else model


def _module_compile(self: Module, *args: Any, **kwargs: Any) -> None:
    """Nothing: the module is compiled anyway."""


def identity(fn: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The function or class itself; without one a decorator that gives it back."""
    return fn if callable(fn) else lambda fn: fn


def return_false() -> bool:
    """False: nothing is being compiled, traced or scripted in PyTorch's sense."""
    return False


def do_nothing(*args: Any, **kwargs: Any) -> None:
    """Takes a setting that has no meaning here."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The one name that `torch.compile` has by default."""
    return ["inductor"]


# --- torch.jit ---


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The function, class or module itself: Python runs it, with the numbers that TorchScript would give."""
    return obj


def trace(func: Any, *args: Any, **kwargs: Any) -> Any:
    """The function or module itself: unlike a trace it goes on following the control flow of Python."""
    return func


def trace_module(mod: Module, *args: Any, **kwargs: Any) -> Module:
    """The module itself."""
    return mod


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def Attribute(value: Any, type: Any) -> Any:
    """The value."""
    return value


class ScriptModule(Module):
    """A module of TorchScript, which is a module."""


class RecursiveScriptModule(ScriptModule):
    """What `torch.jit.script` gives in PyTorch; nothing is one here."""


class ScriptFunction:
    """What `torch.jit.script` gives for a function in PyTorch; nothing is one here."""


def refuse_archive(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises OptionMissing: there is no TorchScript archive."""
    raise OptionMissing(
        "TorchScript files are neither written nor read here",
        where=source.where(),
        hint="Use torch.save(model.state_dict(), f), or torch.save(model, f) for the whole module.",
    )


@contextmanager
def optimized_execution(should_optimize: bool = True) -> Iterator[None]:
    """A block that changes nothing."""
    yield


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The method itself."""
    return fn


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, or of one of several."""
    return isinstance(obj, target_type)
