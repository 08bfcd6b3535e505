"""Which parameters are meant: patterns of names, or functions of a name and a parameter."""

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import Any

from lazytensor.tensor import Tensor

FilterCallable = Callable[[str, Tensor], bool]


def convert_glob_to_regex(f: str) -> re.Pattern[str]:
    """A pattern of names such as "fc*.weight" as a regular expression of the whole name."""
    return re.compile(fnmatch.translate(f))


def matching(patterns: Iterable[str]) -> FilterCallable:
    """Whether a name fits one of the patterns."""
    # Upper and lower case differ in names; plain `fnmatch` would follow the file system.
    wanted = tuple(patterns)
    return lambda name, param: any(fnmatch.fnmatchcase(name, p) for p in wanted)


def make_param_filter(param_filter: Any) -> FilterCallable:
    """A function from a pattern, a list of patterns, or a function. Raises TypeError for anything else."""
    if isinstance(param_filter, str):
        return matching([param_filter])
    if isinstance(param_filter, list | tuple) and all(isinstance(p, str) for p in param_filter):
        return matching(param_filter)
    if callable(param_filter):
        chosen: FilterCallable = param_filter
        return chosen
    raise TypeError(f"filter must be a string, a list of strings or a callable, got {type(param_filter)}")
