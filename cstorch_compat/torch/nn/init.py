"""Initializers under the names that PyTorch deprecated, and its private helpers for initializers.

The deprecated ones issue a warning and call those with an underscore.
"""

import warnings
from collections.abc import Callable
from typing import Any

from lazytensor.core.tensor import Tensor
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

_no_grad_fill_, _no_grad_zero_ = init.constant_, init.zeros_
_no_grad_normal_, _no_grad_uniform_, _no_grad_trunc_normal_ = init.normal_, init.uniform_, init.trunc_normal_


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """Return fan_in or fan_out of a weight, as `mode` names it. Raises ValueError for another mode."""
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {modes}")
    return init._calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def __getattr__(name: str) -> Any:
    if name in _DEPRECATED_FUNCTIONS:
        return _DEPRECATED_FUNCTIONS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
