"""Classes that change functions by `__torch_function__`, as libraries test for them: `torch.overrides`.

Functions of this package do not call `__torch_function__`. The functions here find objects that define it, and call it
for functions that a library has written with them.
"""

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

from cstorch_compat.torch.unavailable import make_refusal_error
from lazytensor.core.tensor import Tensor


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether an object in `relevant_args` defines `__torch_function__`, as a tensor does not.

    >>> import torch
    >>> torch.overrides.has_torch_function((torch.ones(2), 3))
    False
    """
    return any(_is_overriding(arg) for arg in relevant_args)


def _is_overriding(arg: Any) -> bool:
    return hasattr(type(arg), "__torch_function__")


def has_torch_function_unary(arg: Any) -> bool:
    """Return whether an object defines `__torch_function__`."""
    return _is_overriding(arg)


def has_torch_function_variadic(*args: Any) -> bool:
    """Return whether one of the arguments defines `__torch_function__`."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Return the result of the first `__torch_function__` of `relevant_args` that is not NotImplemented.

    It is called with `public_api`, the types that define it, and the arguments; subclasses come first. Raises TypeError
    if all are NotImplemented.
    """
    overriding: list[Any] = []
    for arg in relevant_args:
        if _is_overriding(arg) and not any(type(arg) is type(other) for other in overriding):
            # A subclass decides before its base class.
            place = next((k for k, o in enumerate(overriding) if issubclass(type(arg), type(o))), len(overriding))
            overriding.insert(place, arg)
    kinds = tuple(type(arg) for arg in overriding)
    for arg in overriding:
        result = arg.__torch_function__(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: {[*kinds]}")


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator by which `__torch_function__` of arguments replaces a function.

    `dispatcher` takes the same arguments, and returns those that may define it.
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Return whether an object is a tensor, or defines `__torch_function__`."""
    return isinstance(inp, Tensor) or _is_overriding(inp)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether a function is a method of Tensor, or the getter of a property of it."""
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(Tensor, name, None) is func


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return the functions that `__torch_function__` cannot replace. The set is empty, because none is replaced."""
    return set()


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions that `__torch_function__` replaces in PyTorch: public ones of Tensor by its class."""
    return {Tensor: [f for n, f in vars(Tensor).items() if isinstance(f, types.FunctionType) and n[0] != "_"]}


def resolve_name(f: Any) -> str | None:
    """Return the name of a method of Tensor as "torch.Tensor.add", and of another function with its module."""
    if is_tensor_method_or_property(f):
        return f"torch.Tensor.{f.__name__}"
    module, name = getattr(f, "__module__", None), getattr(f, "__name__", None)
    return f"{module}.{name}" if module and name else None


class TorchFunctionMode:
    """A context manager that replaces all functions in its block in PyTorch. Entering it raises OptionMissing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raise NotImplementedError. Subclasses define it."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        raise make_refusal_error("torch.overrides.TorchFunctionMode")

    def __exit__(self, *error: object) -> None:
        """Do nothing: the block is never entered."""


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls each function unchanged. Entering it has no effect."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return the result of the function."""
        return func(*args, **kwargs or {})

    def __enter__(self) -> "BaseTorchFunctionMode":
        return self
