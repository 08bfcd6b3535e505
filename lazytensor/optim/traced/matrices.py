"""Optimizers that see a parameter as a matrix: Adafactor and Muon."""

import math
from collections.abc import Iterable
from typing import Any

from lazytensor.functions import matrix, reductions, shapes
from lazytensor.functions import pointwise as pw
from lazytensor.functions.creation import zeros
from lazytensor.optim.traced.optimizer import Optimizer
from lazytensor.optim.traced.settings import LEAST, check_least, complement, is_on, larger, length
from lazytensor.tensor import Tensor

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the fifth-order iteration towards the nearest orthogonal matrix (Jordan 2024)."""
TINY = 1e-7


class Adafactor(Optimizer):
    """Adam whose second moment is kept as a row and a column (Shazeer and Stern 2018).

    Raises ValueError for the settings that the original takes and refuses: beta1, clip_threshold, relative_step,
    warmup_init.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Adafactor([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | None,
        eps: tuple[float, float] = (1e-30, 1e-3),
        clip_threshold: float = 1.0,
        decay_rate: float = -0.8,
        beta1: float | None = None,
        weight_decay: float = 0.0,
        scale_parameter: bool = True,
        relative_step: bool = False,
        warmup_init: bool = False,
    ):
        # The original's arguments and messages: scripts that set them to their only value go on working.
        if lr is not None and relative_step:
            raise ValueError("Cannot combine manual `lr` and `relative_step=True` options")
        if relative_step or warmup_init:
            raise ValueError(f"`{'relative_step' if relative_step else 'warmup_init'}=True` is not supported yet")
        for name, value, only in (("beta1", beta1, None), ("clip_threshold", clip_threshold, 1.0)):
            if value != only:
                raise ValueError(f"Only `{name}={only}` is supported now. It was set to {value}.")
        check_least(lr=0.0 if lr is None else lr, weight_decay=weight_decay)
        defaults = {"lr": lr, "eps": tuple(eps), "clip_threshold": clip_threshold, "decay_rate": decay_rate}
        more = {"beta1": beta1, "weight_decay": weight_decay, "scale_parameter": scale_parameter}
        super().__init__(params, {**defaults, **more, "relative_step": relative_step, "warmup_init": warmup_init})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """The second moment, factored from two dimensions on, and the step."""
        if len(p.shape) >= 2:
            # m + n numbers instead of m * n: the reason for this optimizer.
            self.new_state(p, "exp_avg_sq_row", zeros(*p.shape[:-1], dtype=p.dtype))
            self.new_state(p, "exp_avg_sq_col", zeros(*p.shape[:-2], p.shape[-1], dtype=p.dtype))
        else:
            self.new_state(p, "exp_avg_sq")
        self.new_state(p, "step", 0.0)

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        state["step"].add_(1.0)
        # The share of the old moment grows from 0, so no correction of the start is needed.
        kept = 1.0 - pw.pow(state["step"], group["decay_rate"])
        d = _inverse_root(state, g * g + group["eps"][0], kept) * g
        # A step longer than 1 on average is scaled down; a shorter one is left.
        d = d / larger(_root_mean_square(d) / group["clip_threshold"], 1.0)
        lr = group["lr"]
        if group["scale_parameter"]:
            # Rates relative to the size of the parameter; eps lets one of zeros leave them.
            lr = larger(_root_mean_square(p), group["eps"][1]) * lr
        d = d * lr
        if is_on(group["weight_decay"]):
            # Decay by the scaled rate, past the second moment.
            p.sub_(p * (lr * group["weight_decay"]))
        p.sub_(d)


def _root_mean_square(x: Tensor) -> Tensor:
    return pw.sqrt(reductions.mean(x * x))


def _inverse_root(state: dict[str, Tensor], square: Tensor, kept: Tensor) -> Tensor:
    """Take squares into the second moment; one over its root. `kept` is the share of the old moment."""
    added = 1.0 - kept
    if "exp_avg_sq" in state:
        return pw.rsqrt(state["exp_avg_sq"].mul_(kept).add_(square * added))
    row, column = state["exp_avg_sq_row"], state["exp_avg_sq_col"]
    row.mul_(kept).add_(reductions.mean(square, -1) * added)
    column.mul_(kept).add_(reductions.mean(square, -2) * added)
    # The best approximation of rank 1 in the sense of the paper: row times column over the mean of the row.
    # Two roots instead of one of their product, which would be of the whole matrix.
    share = row / reductions.mean(row, -1, keepdim=True)
    return shapes.unsqueeze(pw.rsqrt(share), -1) * shapes.unsqueeze(pw.rsqrt(column), -2)


class Muon(Optimizer):
    """Momentum whose step in each matrix is made nearly orthogonal (Jordan 2024).

    For parameters of two and more dimensions; those of more are seen as matrices of their first dimension.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.02,
        weight_decay: float = 0.01,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_steps: int = 5,
    ):
        check_least(LEAST, lr=lr, weight_decay=weight_decay, momentum=momentum)
        more = {"momentum": momentum, "nesterov": nesterov, "ns_steps": ns_steps}
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, **more})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """The momentum. Raises ValueError for a parameter that is not a matrix."""
        if len(p.shape) < 2:
            raise ValueError(
                f"Muon is for parameters of two and more dimensions, got one of shape {tuple(p.shape)}. "
                "Give biases and norms to another optimizer, such as AdamW."
            )
        self.new_state(p, "momentum_buffer")

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        momentum = group["momentum"]
        buffer = state["momentum_buffer"]
        buffer.mul_(momentum).add_(g * complement(momentum))
        # An average rather than a sum: the length of the step is normalized away, so the factor only weighs old against
        # new.
        d = g * complement(momentum) + buffer * momentum if group["nesterov"] else buffer
        rows = p.shape[0]
        flat = orthogonalized(shapes.reshape(d, (rows, -1)), group["ns_steps"])
        # Jordan's factor: columns of length 1 spread over many rows, so the elements of a tall matrix would be small.
        d = shapes.reshape(flat, p.shape) * math.sqrt(max(1.0, rows / flat.shape[1]))
        if is_on(group["weight_decay"]):
            d = d + p * group["weight_decay"]
        p.sub_(d * group["lr"])


def orthogonalized(x: Tensor, steps: int) -> Tensor:
    """A matrix with the singular vectors of x and singular values near 1, by Newton-Schulz iteration."""
    a, b, c = NEWTON_SCHULZ
    # The products are of the smaller extent then.
    is_tall = x.shape[0] > x.shape[1]
    if is_tall:
        x = shapes.transpose(x, 0, 1)
    # The iteration converges for singular values up to 1, which the Frobenius norm bounds.
    x = x / (length(x) + TINY)
    # Five steps bring values to about 0.7..1.2, not to 1: the coefficients were chosen for a steep start, which is
    # enough here.
    for _ in range(steps):
        square = matrix.matmul(x, shapes.transpose(x, 0, 1))
        polynomial = square * b + matrix.matmul(square, square) * c
        x = x * a + matrix.matmul(polynomial, x)
    return shapes.transpose(x, 0, 1) if is_tall else x
