"""Decorators that cast the tensor arguments of a function to the half type, float32, or their widest type.

The casts are made only where automatic casts are active, such as in a step that is traced for the wafer. Elsewhere the
functions run unchanged.
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
    """Return `function` with its floating-point tensor arguments cast to the dtype that `choose` returns.

    `choose` gets the list of these tensors and the half type of the automatic casts. Tensors in nested containers are
    cast too. If automatic casts are off, the arguments are passed unchanged.
    """

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
    """Decorate a function so that its floating-point tensor arguments are cast to the half type."""
    return _cast_arguments(fn, lambda tensors, half: half)


def float_function(fn: Function) -> Function:
    """Decorate a function so that its floating-point tensor arguments are cast to float32."""
    return _cast_arguments(fn, lambda tensors, half: float32)


def promote_function(fn: Function) -> Function:
    """Decorate a function so that its floating-point tensor arguments are cast to their widest type.

    This is the half type if all of them have a half type, else float32.
    """
    return _cast_arguments(fn, lambda tensors, half: float32 if any(not t.dtype.is_half for t in tensors) else half)


def _register(module: Any, name: str, decorate: Callable[[Function], Function]) -> None:
    if not hasattr(module, name):
        raise ValueError(f"No function named {name} in module {module}.\n  Pass the name of a function of this module.")
    setattr(module, name, decorate(getattr(module, name)))


def register_half_function(module: Any, name: str) -> None:
    """Replace `module.<name>` by its `half_function`. Raises ValueError if the module has no such attribute."""
    _register(module, name, half_function)


def register_float_function(module: Any, name: str) -> None:
    """Replace `module.<name>` by its `float_function`. Raises ValueError if the module has no such attribute."""
    _register(module, name, float_function)


def register_promote_function(module: Any, name: str) -> None:
    """Replace `module.<name>` by its `promote_function`. Raises ValueError if the module has no such attribute."""
    _register(module, name, promote_function)
