"""Loss scaling as in `cerebras_torch.amp`: the next step of an optimizer unscales the gradients."""

from typing import Any

from cstorch_compat.generations.early import grad_scaler
from cstorch_compat.run.process import RunLocal
from lazytensor.core.tensor import Tensor

_latest_scaler = RunLocal[list["GradScaler"]](list)
"""A list with the scaler that was created last in this run; empty if there is none."""
_pending_scaler = RunLocal[list["GradScaler"]](list)
"""A list with the scaler that has scaled a loss since the last optimizer step; empty if there is none."""


class GradScaler(grad_scaler.GradScaler):
    """A loss scaler that scales a loss when it is called.

    The optimizer's next step unscales the gradients, checks them and updates the scale by itself. The parameters are
    those of the current `GradScaler`; `initial_loss_scale` is its `init_scale`. `mixed_precision` is only stored for
    `get_init_params`.
    """

    def __init__(
        self,
        loss_scale: str | float | None = None,
        initial_loss_scale: float | None = None,
        steps_per_increase: int | None = None,
        min_loss_scale: float | None = None,
        max_loss_scale: float | None = None,
        max_gradient_norm: float | None = None,
        mixed_precision: bool | None = None,
    ):
        super().__init__(
            loss_scale,
            initial_loss_scale,
            steps_per_increase,
            min_loss_scale,
            max_loss_scale,
            max_gradient_norm=max_gradient_norm,
        )
        self._init_params = {"loss_scale": loss_scale, "mixed_precision": mixed_precision}
        _latest_scaler.value = [self]

    def __call__(self, loss: Tensor) -> Tensor:
        """Return the scaled loss, and record that the next optimizer step has to unscale with this scaler.

        The record is global and replaces that of an earlier scaler. An optimizer step removes it.
        """
        _pending_scaler.value = [self]
        scaled: Tensor = self.scale(loss)
        return scaled

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients and run `optimizer.step`, as in releases with `amp.optimizer_step`. Return its result.

        The record of `__call__` is removed, so that `optimizer.step` does not unscale a second time. The scale is not
        updated; call `update` for that.
        """
        # This step unscales, so the next optimizer step must not.
        _pending_scaler.value = []
        return super().step(optimizer, *args, **kwargs)


def take_pending_scaler() -> GradScaler | None:
    """Return the scaler that scaled a loss since the last optimizer step, or None, and clear it."""
    return _pending_scaler.value.pop() if _pending_scaler.value else None


def state_dict() -> dict[str, Any]:
    """Return the state of the scaler that was created last, or an empty dict if there is none."""
    return _latest_scaler.value[-1].state_dict() if _latest_scaler.value else {}


def load_state_dict(state_dict: dict[str, Any]) -> None:
    """Restore the state returned by `state_dict` into the scaler that was created last.

    Do nothing for an empty state or if there is no scaler.
    """
    if _latest_scaler.value and state_dict:
        _latest_scaler.value[-1].load_state_dict(state_dict)


def get_init_params() -> dict[str, Any]:
    """Return the `loss_scale` and `mixed_precision` given to the scaler that was created last, or an empty dict."""
    return dict(_latest_scaler.value[-1]._init_params) if _latest_scaler.value else {}
