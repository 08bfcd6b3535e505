"""The precision optimization level (POL) of functions.

Levels set by the decorator are checked and can be read back, but change no value and no plan. The flag
`backends.csx.precision.optimization_level` is the default level and the one that plans use.
"""

import functools
from collections.abc import Callable
from typing import Any

from cstorch_compat.run import process
from cstorch_compat.run.setting_checks import NUM_LEVELS

_level_stack = process.RunLocal[list[int]](list)
"""The levels of the decorated functions that are running, innermost last."""


def current_pol() -> int:
    """Return the level of the innermost decorated function that is running, or the flag's outside of them.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.current_pol()
    1
    """
    return _level_stack.value[-1] if _level_stack.value else process.RUN.flags.precision.optimization_level


def pol(
    level: int | None = None, bwd_level: int | None = None, enable_fwd: bool = True, enable_bwd: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that sets the precision optimization level of a function while it runs.

    `level` None or `enable_fwd` False keeps the current level. `bwd_level` is checked and otherwise ignored, and so is
    `enable_bwd`. Raises ValueError for a level other than 0, 1 and 2.

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
            raise ValueError(
                f"POL must be None or an integer in range [0, {NUM_LEVELS}) but got {what} level {value}."
                "\n  Pass None, 0, 1 or 2."
            )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def at_level(*args: Any, **kwargs: Any) -> Any:
            # The backward level has no effect: the simulator computes gradients like other values.
            _level_stack.value.append(current_pol() if level is None or not enable_fwd else level)
            try:
                return function(*args, **kwargs)
            finally:
                _level_stack.value.pop()

        return at_level

    return decorate
