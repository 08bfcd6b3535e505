"""Which parameters are meant: patterns of names, or functions of a name and a parameter."""

import fnmatch
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from lazytensor.nn.module import Parameter

FilterCallable = Callable[[str, Any], bool]
"""Takes a name and the parameter of that name."""


def convert_glob_to_regex(f: str) -> re.Pattern[str]:
    """A pattern of names such as "fc*.weight" as a regular expression of the whole name."""
    return re.compile(fnmatch.translate(f))


def make_pattern_filter(patterns: Iterable[str]) -> FilterCallable:
    """Whether a name fits one of the patterns."""
    # Upper and lower case differ in names; plain `fnmatch` would follow the file system.
    wanted = tuple(patterns)
    return lambda name, param: any(fnmatch.fnmatchcase(name, p) for p in wanted)


def make_param_filter(param_filter: Any) -> FilterCallable:
    """A function from a pattern, a list of patterns, or a function (name, parameter) -> bool.

    Raises ValueError for a function that does not say that it is one, TypeError for anything else.
    """
    if isinstance(param_filter, str):
        return make_pattern_filter([param_filter])
    if callable(param_filter):
        return _check_signature(param_filter)
    patterns = list(param_filter)
    if not all(isinstance(p, str) for p in patterns):
        kinds = ", ".join(str(type(p)) for p in patterns)
        raise TypeError(f"filter must be a string or list of strings, got {type(param_filter)}[{kinds}]")
    return make_pattern_filter(patterns)


def _check_signature(function: Callable[..., Any]) -> FilterCallable:
    """A function whose annotations say that it takes a name and a parameter, as the original wants it."""
    said = tuple(p.annotation for p in inspect.signature(function).parameters.values())
    if said != (str, Parameter):
        raise ValueError(
            f'Unknown `param_filter`: "{function}". Valid options are a string, or a list of strings representing the '
            "filter, or a function with signature (name: str, param: torch.nn.Parameter) -> bool."
        )
    return function
