"""NumPy's names of arguments, which PyTorch's functions and methods take besides their own: `axis=` for `dim=`."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

OF_NUMPY = {"axis": "dim", "keepdims": "keepdim"}
FIRST, SECOND = ("input", "x", "a", "x1"), ("other", "x2")
"""What the first two operands may be called, PyTorch's own name first."""


def other_names(function: Callable[..., Any]) -> dict[str, str]:
    """What the parameters of a function are called by PyTorch and NumPy, and what they are called here."""
    code = cast(Any, _inner(function)).__code__
    positional = code.co_varnames[: code.co_argcount]
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    # By place, so an operand may be called anything inside; one that has one of these names keeps it.
    names = {
        new: old for news, old in zip((FIRST, SECOND), positional, strict=False) for new in news if new not in known
    }
    return {**names, **{new: old for new, old in OF_NUMPY.items() if old in known and new not in known}}


def renaming(function: F) -> F:
    """A method that takes the other names too; the same one if it has no parameter with another name."""
    table = {new: old for new, old in other_names(function).items() if new not in FIRST}
    if not table:
        return function

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            rename(table, kwargs)
        return function(*args, **kwargs)

    return cast(F, renamed)


def rename(table: dict[str, str], kwargs: dict[str, Any]) -> None:
    """Give keywords the names that they have here."""
    for name in table.keys() & kwargs.keys():
        kwargs[table[name]] = kwargs.pop(name)


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a wrapper was put around."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
