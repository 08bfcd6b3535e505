"""Settings of optimizers, their validation, and the description of an optimizer's state (`Slot`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazytensor.core import storage
from lazytensor.core.tensor import Tensor

Settings = Mapping[str, Any]
"""The settings of a group of parameters."""

NAMES = {"lr": "learning rate", "eps": "epsilon value", "momentum": "momentum value"}
"""Names of settings in error messages; the default is the name followed by "value"."""
LEAST = " - should be >= 0.0"
"""The end of error messages of some of the vendor's optimizers."""
NUMBERED_BETA = "Invalid beta parameter at index {i}: {beta}"
BETA = "Invalid beta parameter: {beta} - should be in [0.0, 1.0)"
CLOSED_BETA = "Invalid beta parameter: {beta} - should be in [0.0, 1.0]"
"""Error messages for betas outside of [0, 1). The wrong interval in the last one is that of the vendor's message."""


def checked(
    arguments: Settings,
    checks: str,
    order: str = "",
    *,
    hint: str = "",
    beta_error: str = NUMBERED_BETA,
    takes_nan: bool = False,
) -> dict[str, Any]:
    """Return the settings of an optimizer from the arguments of its constructor, in the order of state dicts.

    - `arguments`: the `locals()` of the constructor.
    - `checks`: the settings to check, in the order in which they are checked, separated by spaces.
    - `order`: the order of the result, separated by spaces; the default is that of the arguments.
    - `hint`, `beta_error`: the end of the error for a negative number, and the error for betas.
    - `takes_nan`: whether NaN is accepted.

    Lists and arrays become tuples. Raises ValueError for betas outside of [0, 1), rho outside of [0, 1], etas that do
    not satisfy 0 < etas[0] < 1 < etas[1], Nesterov momentum without momentum or with dampening, and any other setting
    that is negative. Tensors are accepted without a check, because their values may not exist yet.
    """
    for name in checks.split():
        if name in _SPECIAL_CHECKS:
            _SPECIAL_CHECKS[name](arguments, beta_error)
        else:
            _check_number(name, arguments[name], hint, takes_nan)
    names = order.split() or [name for name in arguments if name not in ("self", "params", "__class__")]
    # Convert to tuples, because settings are compared and saved.
    return {name: tuple(v) if isinstance(v := arguments[name], list | np.ndarray) else v for name in names}


def _value_error(text: str, *, hint: str) -> ValueError:
    """Return the error for a setting. It is a ValueError itself, as the vendor's, with the hint in the next line."""
    return ValueError(f"{text}\n  {hint}")


def _check_number(name: str, value: Any, hint: str, takes_nan: bool) -> None:
    if not isinstance(value, Tensor) and (value < 0 if takes_nan else not value >= 0.0):
        raise _value_error(
            f"Invalid {NAMES.get(name, f'{name} value')}: {value}{hint}",
            hint="Pass a number of at least 0.",
        )


def _check_betas(arguments: Settings, error: str) -> None:
    for i, beta in enumerate(arguments["betas"]):
        if not 0.0 <= beta < 1.0:
            raise _value_error(error.format(i=i, beta=beta), hint="Pass betas of at least 0 and below 1.")


def _check_nesterov(arguments: Settings, _: str) -> None:
    # Nesterov's g + momentum * buffer equals the next buffer only without dampening.
    if arguments["nesterov"] and (arguments["momentum"] <= 0 or arguments["dampening"] != 0):
        raise _value_error(
            "Nesterov momentum requires a momentum and zero dampening"
            f", but got {arguments['momentum']} and {arguments['dampening']}",
            hint="Pass a momentum above 0 and dampening=0, or nesterov=False.",
        )


def _check_rho(arguments: Settings, _: str) -> None:
    if not 0.0 <= arguments["rho"] <= 1.0:
        raise _value_error(f"Invalid rho value: {arguments['rho']}", hint="Pass a rho between 0 and 1.")


def _check_etas(arguments: Settings, _: str) -> None:
    shrink, grow = arguments["etas"]
    if not 0.0 < shrink < 1.0 < grow:
        raise _value_error(
            f"Invalid eta values: {shrink}, {grow}",
            hint="Pass a first value between 0 and 1, and a second one above 1.",
        )


_SPECIAL_CHECKS: dict[str, Callable[[Settings, str], None]] = {
    "betas": _check_betas,
    "nesterov": _check_nesterov,
    "rho": _check_rho,
    "etas": _check_etas,
}


@dataclass(frozen=True)
class Slot:
    """A piece of state that an optimizer keeps for each parameter.

    - `name`: its key in the state dict.
    - `start`: its initial value, for each element; or a function of the settings that returns it.
    - `is_number`: whether it is a float32 scalar; other state has the shape and type of the parameter.
    - `needs`: the setting that must be on for this state to exist; "" if it always exists.
    - `is_late`: whether PyTorch's optimizer has it only after the first step, whose rule creates it.
    """

    name: str
    start: float | Callable[[Settings], float] = 0.0
    is_number: bool = False
    needs: str = ""
    is_late: bool = False

    def is_used(self, settings: Settings) -> bool:
        """Return whether an optimizer with these settings has this state."""
        return not self.needs or bool(settings[self.needs])

    def start_of(self, settings: Settings) -> float:
        """Return the initial value."""
        return float(self.start(settings) if callable(self.start) else self.start)


STEP = Slot("step", is_number=True)
"""The number of steps."""


def complement(beta: float) -> float:
    """Return 1 - beta in float64; inside a step that is traced for the wafer, in float32 as `folded_complement`."""
    if storage.thread_state.current is None or storage.thread_state.current.readable:
        return 1.0 - beta
    return folded_complement(beta)


def folded_complement(beta: float) -> float:
    """Return 1 - beta in float32, as the front end folds it (0.100000024 for 0.9)."""
    return float(np.float32(1) - np.float32(beta))
