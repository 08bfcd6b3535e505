"""NumPy's argument names, which PyTorch's functions and methods accept too: `axis=` for `dim=`."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

NUMPY_ARGUMENT_NAMES = {"axis": "dim", "keepdims": "keepdim"}
FIRST_OPERAND_NAMES, SECOND_OPERAND_NAMES = ("input", "x", "a", "x1"), ("other", "x2")
"""The accepted names of the first and the second operand, PyTorch's name first."""


def alternative_names(function: Callable[..., Any]) -> dict[str, str]:
    """Return a map from other names of parameters of `function` to those in its signature.

    FIRST_OPERAND_NAMES and SECOND_OPERAND_NAMES stand for the first two positional parameters, "axis" for "dim" and
    "keepdims" for "keepdim". A name that is itself in the signature is left out.
    """
    code = cast(Any, _unwrap(function)).__code__
    positional = code.co_varnames[: code.co_argcount]
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    # By position, since the functions here name their operands differently. A parameter that has one of the names keeps
    # it.
    names = {
        new: old
        for news, old in zip((FIRST_OPERAND_NAMES, SECOND_OPERAND_NAMES), positional, strict=False)
        for new in news
        if new not in known
    }
    return {**names, **{new: old for new, old in NUMPY_ARGUMENT_NAMES.items() if old in known and new not in known}}


def accept_alternative_names(function: F) -> F:
    """Return the method `function` wrapped to accept NumPy's and PyTorch's parameter names; itself if none differ.

    The names of the first operand are excluded, since that is the tensor.
    """
    table = {new: old for new, old in alternative_names(function).items() if new not in FIRST_OPERAND_NAMES}
    if not table:
        return function

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            rename_arguments(table, kwargs)
        return function(*args, **kwargs)

    return cast(F, renamed)


def rename_arguments(table: dict[str, str], kwargs: dict[str, Any]) -> None:
    """Replace keys of `kwargs` by the names that `table` gives them, in place."""
    for name in table.keys() & kwargs.keys():
        kwargs[table[name]] = kwargs.pop(name)


def _unwrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the innermost function that `function` wraps."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
