"""Parameter filters: functions that select parameters by patterns of their names."""

import fnmatch
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from lazytensor.nn.module import Parameter

FilterCallable = Callable[[str, Any], bool]
"""A function of a parameter's name and the parameter that returns whether it is selected."""


def convert_glob_to_regex(f: str) -> re.Pattern[str]:
    """Return a glob pattern such as "fc*.weight" as a compiled regular expression that matches whole names."""
    return re.compile(fnmatch.translate(f))


def make_pattern_filter(patterns: Iterable[str]) -> FilterCallable:
    """Return a filter that selects the parameters whose name matches one of the glob patterns. Case matters."""
    # fnmatchcase, because plain `fnmatch` ignores case on some file systems.
    wanted = tuple(patterns)
    return lambda name, param: any(fnmatch.fnmatchcase(name, p) for p in wanted)


def make_param_filter(param_filter: Any) -> FilterCallable:
    """Return the filter for a glob pattern, a list of patterns, or a function (name, parameter) -> bool.

    Raises ValueError for a function whose parameters are not annotated as `str` and `torch.nn.Parameter`, and TypeError
    for an iterable with other items than strings.
    """
    if isinstance(param_filter, str):
        return make_pattern_filter([param_filter])
    if callable(param_filter):
        return _check_signature(param_filter)
    patterns = list(param_filter)
    if not all(isinstance(p, str) for p in patterns):
        kinds = ", ".join(str(type(p)) for p in patterns)
        raise TypeError(
            f"filter must be a string or list of strings, got {type(param_filter)}[{kinds}]"
            "\n  Pass a pattern of names, or a list of them."
        )
    return make_pattern_filter(patterns)


def _check_signature(function: Callable[..., Any]) -> FilterCallable:
    """Return `function` if its parameters are annotated as a name and a parameter. Otherwise raise ValueError."""
    said = tuple(p.annotation for p in inspect.signature(function).parameters.values())
    if said != (str, Parameter):
        raise ValueError(
            f'Unknown `param_filter`: "{function}". Valid options are a string, or a list of strings representing the '
            "filter, or a function with signature (name: str, param: torch.nn.Parameter) -> bool."
            "\n  Pass one of these options."
        )
    return function
