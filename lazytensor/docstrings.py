"""Set names and docstrings of functions and classes that are generated from tables."""

from collections.abc import Callable
from typing import Any


def with_example(text: str, example: str) -> str:
    """Return `text` followed by `example`, a doctest that uses the package as `lt`.

    Return only `text` if `example` is empty.
    """
    return f"{text}\n\n>>> import lazytensor as lt\n{example}" if example else text


def documented(function: Callable[..., Any], name: str, text: str, example: str = "") -> Callable[..., Any]:
    """Set the name and the docstring `with_example(text, example)` of `function`, and return it."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = with_example(text, example)
    return function
