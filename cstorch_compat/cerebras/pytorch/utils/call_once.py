"""A decorator for functions that run only once."""

import functools
from collections.abc import Callable
from typing import Any


def call_once(error_callable: Callable[..., Any] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for a function that runs only at its first call.

    Later calls return the result of the first one, whatever their arguments. If `error_callable` is given, later calls
    call it first with their arguments, for example to raise an error. A first call that raises does not count.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        # A list, because None is a valid result.
        answers: list[Any] = []

        @functools.wraps(function)
        def once(*args: Any, **kwargs: Any) -> Any:
            if not answers:
                answers.append(function(*args, **kwargs))
            elif error_callable is not None:
                error_callable(*args, **kwargs)
            return answers[0]

        return once

    return decorate
