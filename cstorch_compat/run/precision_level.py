"""The precision optimization level of functions: checked and remembered; the simulator knows one precision only.

Outside decorated functions it is the flag `backends.csx.precision.optimization_level`.
"""

import functools
from collections.abc import Callable
from typing import Any

from cstorch_compat.run import process
from cstorch_compat.run.setting_checks import NUM_LEVELS

_level_stack = process.RunLocal[list[int]](list)
"""Of the decorated functions that are running, the innermost last."""


def current_pol() -> int:
    """The level of the function that is running.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.current_pol()
    1
    """
    return _level_stack.value[-1] if _level_stack.value else process.RUN.flags.precision.optimization_level


def pol(
    level: int | None = None, bwd_level: int | None = None, enable_fwd: bool = True, enable_bwd: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that sets the level of a function. Raises ValueError for one that is not 0, 1 or 2.

    >>> import torch, cerebras.pytorch as cstorch
    >>> @cstorch.pol(2)
    ... def doubled(x):
    ...     return 2 * x
    ...
    >>> doubled(torch.ones(2))
    tensor([2., 2.])
    """
    for what, value in (("forward", level), ("backward", bwd_level)):
        if value is not None and (not isinstance(value, int) or not 0 <= value < NUM_LEVELS):
            raise ValueError(f"POL must be None or an integer in range [0, {NUM_LEVELS}) but got {what} level {value}.")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def at_level(*args: Any, **kwargs: Any) -> Any:
            # Backward levels are checked and not kept: the simulator computes gradients as it computes the rest.
            _level_stack.value.append(current_pol() if level is None or not enable_fwd else level)
            try:
                return function(*args, **kwargs)
            finally:
                _level_stack.value.pop()

        return at_level

    return decorate
