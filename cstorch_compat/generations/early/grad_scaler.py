"""Loss scaling of releases 1.8 to 2.1, with other defaults, and an optimizer step without a scaler."""

from typing import Any

from cstorch_compat.cerebras.pytorch.amp import amp_state
from cstorch_compat.cerebras.pytorch.amp import grad_scaler as scaler
from lazytensor.core.dtype import bfloat16, float16
from lazytensor.core.tensor import Tensor

OVERFLOW_TOLERANCE = 0.05
"""The default fraction of steps that may overflow before the scale is halved. It is 0.0 from release 2.2 on."""


class GradScaler(scaler.GradScaler):
    """A loss scaler that tolerates overflows in 5 % of the steps before it halves the scale.

    A `loss_scale` of 0.0, the default of release 1.8, means no scaling.
    """

    def __init__(
        self,
        loss_scale: str | float | None = None,
        init_scale: float | None = None,
        steps_per_increase: int | None = None,
        min_loss_scale: float | None = None,
        max_loss_scale: float | None = None,
        overflow_tolerance: float = OVERFLOW_TOLERANCE,
        max_gradient_norm: float | None = None,
    ):
        super().__init__(
            loss_scale or None,
            init_scale,
            steps_per_increase,
            min_loss_scale,
            max_loss_scale,
            overflow_tolerance,
            max_gradient_norm,
        )


def optimizer_step(
    loss: Tensor,
    optimizer: Any,
    grad_scaler: GradScaler | None = None,
    max_gradient_norm: float | None = None,
    max_gradient_value: float | None = None,
    max_gradient_val: float | None = None,
) -> None:
    """Run one optimizer step as in the current release: zero gradients, run backward, clip, update, zero gradients.

    `grad_scaler` may be None for no scaling. `max_gradient_norm` limits the global norm, and `max_gradient_value` the
    absolute value of each element. `max_gradient_val` is another name of `max_gradient_value` and takes precedence.
    Raises ValueError if `loss` is not a tensor, if the norm limit is negative, or if both limits are given.
    """
    limit = max_gradient_value if max_gradient_val is None else max_gradient_val
    amp_state.optimizer_step(loss, optimizer, grad_scaler or GradScaler(), max_gradient_norm, limit)


def use_bfloat16(value: bool = True) -> None:
    """Set the half type to bfloat16, or to float16 if `value` is False."""
    amp_state.set_half_dtype(bfloat16 if value else float16)
