"""Loss scaling that the next step of an optimizer takes back: `cerebras_torch.amp`."""

from typing import Any

from cstorch_compat.generations.early import grad_scaler
from cstorch_compat.run.process import RunLocal
from lazytensor.core.tensor import Tensor

_latest_scaler = RunLocal[list["GradScaler"]](list)
"""The scaler that was made last."""
_pending_scaler = RunLocal[list["GradScaler"]](list)
"""The scaler that scaled a loss since the last step."""


class GradScaler(grad_scaler.GradScaler):
    """Scales the loss when it is called; the optimizer's next step unscales, checks and updates by itself."""

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
        """The scaled loss."""
        _pending_scaler.value = [self]
        scaled: Tensor = self.scale(loss)
        return scaled

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale, then run the step, as releases with `amp.optimizer_step` do."""
        # Its step unscales; without this the next optimizer would do so a second time.
        _pending_scaler.value = []
        return super().step(optimizer, *args, **kwargs)


def take_pending_scaler() -> GradScaler | None:
    """The scaler whose scaled loss the step at hand answers for; it is no longer owing then."""
    return _pending_scaler.value.pop() if _pending_scaler.value else None


def state_dict() -> dict[str, Any]:
    """The state of the scaler that was made last; empty without one."""
    return _latest_scaler.value[-1].state_dict() if _latest_scaler.value else {}


def load_state_dict(state_dict: dict[str, Any]) -> None:
    """Restore what `state_dict` gave."""
    if _latest_scaler.value and state_dict:
        _latest_scaler.value[-1].load_state_dict(state_dict)


def get_init_params() -> dict[str, Any]:
    """What the scaler was made with; empty without one."""
    return dict(_latest_scaler.value[-1]._init_params) if _latest_scaler.value else {}
