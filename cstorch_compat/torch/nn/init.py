"""Initializers under the names that PyTorch deprecated. They issue a warning and call those with an underscore."""

import warnings
from collections.abc import Callable
from typing import Any

from lazytensor.nn import init

DEPRECATED_NAMES = """uniform normal constant eye dirac xavier_uniform xavier_normal kaiming_uniform kaiming_normal
orthogonal
    sparse""".split()
"""The public names of this module, which the table of names reads."""


def _make_deprecated(name: str) -> Callable[..., Any]:
    successor = getattr(init, name + "_")

    def fill(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return successor(*args, **kwargs)

    fill.__name__ = fill.__qualname__ = name
    fill.__doc__ = f"Call `{name}_` with the same arguments, and return its result. Issues a FutureWarning."
    return fill


_DEPRECATED_FUNCTIONS = {name: _make_deprecated(name) for name in DEPRECATED_NAMES}


def __getattr__(name: str) -> Any:
    if name in _DEPRECATED_FUNCTIONS:
        return _DEPRECATED_FUNCTIONS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
