"""The APIs of `torch.compile`, `torch.compiler` and `torch.jit`. They return functions unchanged.

Tensors are lazy, and their operations are compiled in any case, so the results do not change. `torch.compile` of a
module returns PyTorch's wrapper, whose state dict has the prefix `_orig_mod.`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from cstorch_compat.torch.futures import Future
from lazytensor.core import source
from lazytensor.errors import OptionMissing, ShapeError
from lazytensor.nn.module import Module


class OptimizedModule(Module):
    """The wrapper that `torch.compile` returns for a module.

    Attributes and calls are those of the module in `_orig_mod`.
    """

    def __init__(self, mod: Module):
        super().__init__()
        self.__dict__["training"] = mod.training
        # Register it as a submodule, so that parameters have PyTorch's prefix.
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
        """Return the result of the wrapped module."""
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
    """Return a function unchanged, or a module in an `OptimizedModule`. Without `model`, return a decorator.

    With `disable` a module is returned unchanged. The other options have no effect. A custom `backend` function is not
    called, because there is no FX graph. Raises RuntimeError if both `mode` and `options` are given, or if `model` is
    not callable.
    """
    if mode is not None and options is not None:
        raise ShapeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
            f" Got mode={mode!r} and options={options!r}.",
            where=source.where(),
            hint="Omit one of the two.",
        )
    if model is None:
        return lambda model: compile(model, disable=disable)
    if not callable(model):
        raise ShapeError(
            f"torch.compile expected a callable, got {type(model).__name__}",
            where=source.where(),
            hint="Pass a module or a function.",
        )
    return OptimizedModule(model) if isinstance(model, Module) and not disable else model


def _module_compile(self: Module, *args: Any, **kwargs: Any) -> None:
    """Do nothing. The operations of the module are compiled in any case."""


def identity(fn: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return the function or class `fn` unchanged. Without one, return a decorator that does so."""
    return fn if callable(fn) else lambda fn: fn


def return_false() -> bool:
    """Return False: nothing is compiled, traced or scripted in PyTorch's sense."""
    return False


def do_nothing(*args: Any, **kwargs: Any) -> None:
    """Accept a setting that has no effect."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return the name of the default backend, ["inductor"]."""
    return ["inductor"]


# --- torch.jit ---


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the function, class or module unchanged. Python runs it with the same results as TorchScript."""
    return obj


def trace(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the function or module unchanged. Unlike a PyTorch trace, it still follows Python's control flow."""
    return func


def trace_module(mod: Module, *args: Any, **kwargs: Any) -> Module:
    """Return the module unchanged."""
    return mod


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return `the_value`."""
    return the_value


def Attribute(value: Any, type: Any) -> Any:
    """Return `value`."""
    return value


class ScriptModule(Module):
    """The base class of TorchScript modules, which behaves like `Module`."""


class RecursiveScriptModule(ScriptModule):
    """The class of scripted modules in PyTorch. No object here is an instance of it."""


class ScriptFunction:
    """The class of scripted functions in PyTorch. No object here is an instance of it."""


def refuse_archive(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise OptionMissing, because TorchScript files are not supported."""
    raise OptionMissing(
        "TorchScript files can be neither written nor read in this version",
        where=source.where(),
        hint="Use torch.save(model.state_dict(), f), or torch.save(model, f) for the whole module.",
    )


@contextmanager
def optimized_execution(should_optimize: bool = True) -> Iterator[None]:
    """Return a context manager without effect."""
    yield


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method unchanged."""
    return fn


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Return whether `obj` is an instance of a type, or of one of several types."""
    return isinstance(obj, target_type)


class ListOfNumbers:
    """The type of an argument that is a list, or one number for all elements: `BroadcastingList2[int]`."""

    def __class_getitem__(cls, element: Any) -> type:
        """Return this class for any type of elements."""
        return cls


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call `func(*args, **kwargs)` at once, and return a future with its result. Errors are raised at once too."""
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future) -> Any:
    """Return the result of a future."""
    return future.wait()
