"""NumPy's names of arguments, which PyTorch's functions and methods take besides their own: `axis=` for `dim=`."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

NUMPY_ARGUMENT_NAMES = {"axis": "dim", "keepdims": "keepdim"}
FIRST_OPERAND_NAMES, SECOND_OPERAND_NAMES = ("input", "x", "a", "x1"), ("other", "x2")
"""What the first two operands may be called, PyTorch's own name first."""


def alternative_names(function: Callable[..., Any]) -> dict[str, str]:
    """What the parameters of a function are called by PyTorch and NumPy, and what they are called here."""
    code = cast(Any, _unwrap(function)).__code__
    positional = code.co_varnames[: code.co_argcount]
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    # By place, so an operand may be called anything inside; one that has one of these names keeps it.
    names = {
        new: old
        for news, old in zip((FIRST_OPERAND_NAMES, SECOND_OPERAND_NAMES), positional, strict=False)
        for new in news
        if new not in known
    }
    return {**names, **{new: old for new, old in NUMPY_ARGUMENT_NAMES.items() if old in known and new not in known}}


def accept_alternative_names(function: F) -> F:
    """A method that takes the other names too; the same one if it has no parameter with another name."""
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
    """Give keywords the names that they have here."""
    for name in table.keys() & kwargs.keys():
        kwargs[table[name]] = kwargs.pop(name)


def _unwrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a wrapper was put around."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
