"""Functions that are called once."""

import functools
from collections.abc import Callable
from typing import Any


def call_once(error_callable: Callable[..., Any] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: only the first call is made, later ones give its answer, or make the other call that is given."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        # A list, for None is an answer too.
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
