"""Names and docstrings of functions and classes that a factory makes from rows of data."""

from collections.abc import Callable
from typing import Any


def with_example(text: str, example: str) -> str:
    """Return `text` followed by `example`, a doctest that calls the package `lt`; `text` if there is no example."""
    return f"{text}\n\n>>> import lazytensor as lt\n{example}" if example else text


def documented(function: Callable[..., Any], name: str, text: str, example: str = "") -> Callable[..., Any]:
    """Return `function` itself, after giving it `name` and the docstring `with_example(text, example)`."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = with_example(text, example)
    return function
