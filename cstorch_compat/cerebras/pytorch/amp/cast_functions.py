"""Functions of a script that run in the half type, in float32, or in the widest type of their operands.

The casts are made while a step is traced for the wafer and nowhere else, as those of products and losses are.
"""

import functools
from collections.abc import Callable
from typing import Any

from lazytensor.core import autocast, pytree
from lazytensor.core.dtype import DType, float32
from lazytensor.core.tensor import Tensor
from lazytensor.functional import pointwise as pw

Function = Callable[..., Any]


def _is_floating(x: object) -> bool:
    return isinstance(x, Tensor) and x.dtype.kind == "f"


def _cast_arguments(function: Function, choose: Callable[[list[Tensor], DType], DType]) -> Function:
    """The function with its floating tensors cast to what `choose` says of them and of the half type."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        half = autocast.half_type()
        if half is None:
            return function(*args, **kwargs)
        leaves, structure = pytree.tree_flatten((args, kwargs))
        floating = [x for x in leaves if _is_floating(x)]
        wanted = choose(floating, half) if floating else half
        cast_leaves = [pw.cast_to(x, wanted) if _is_floating(x) else x for x in leaves]
        operands, names = pytree.tree_unflatten(cast_leaves, structure)
        return function(*operands, **names)

    return wrapper


def half_function(fn: Function) -> Function:
    """Decorate a function whose tensors are to be of the half type."""
    return _cast_arguments(fn, lambda tensors, half: half)


def float_function(fn: Function) -> Function:
    """Decorate a function whose tensors are to be float32."""
    return _cast_arguments(fn, lambda tensors, half: float32)


def promote_function(fn: Function) -> Function:
    """Decorate a function whose tensors are to have the widest of their types."""
    return _cast_arguments(fn, lambda tensors, half: float32 if any(not t.dtype.is_half for t in tensors) else half)


def _register(module: Any, name: str, decorate: Callable[[Function], Function]) -> None:
    if not hasattr(module, name):
        raise ValueError(f"No function named {name} in module {module}.")
    setattr(module, name, decorate(getattr(module, name)))


def register_half_function(module: Any, name: str) -> None:
    """Replace a function of a module by its `half_function`. Raises ValueError if there is none of that name."""
    _register(module, name, half_function)


def register_float_function(module: Any, name: str) -> None:
    """Replace a function of a module by its `float_function`. Raises ValueError if there is none of that name."""
    _register(module, name, float_function)


def register_promote_function(module: Any, name: str) -> None:
    """Replace a function of a module by its `promote_function`. Raises ValueError if there is none of that name."""
    _register(module, name, promote_function)
