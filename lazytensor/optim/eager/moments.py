"""Rules with a first and a second moment of the gradient: Adam, AdamW, Adamax, NAdam, RAdam."""

import math
from typing import Any

import numpy as np

from lazytensor.optim.eager.eager_optimizer import Optimizer, Params, State, counted, refuse_negative, started
from lazytensor.optim.traced.settings import check_betas
from lazytensor.tensor import Tensor

Betas = tuple[float, float]


def _settings(lr: Any, betas: Any, eps: float, weight_decay: float, **others: Any) -> dict[str, Any]:
    """Checked settings that all of them share. Raises ValueError for those that make no sense."""
    refuse_negative("learning rate", lr)
    refuse_negative("epsilon value", eps)
    check_betas(betas, "", is_numbered=True)
    refuse_negative("weight_decay value", weight_decay)
    # A tuple, whatever was given: settings are compared and saved.
    return {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, **others}


def _decayed(group: dict[str, Any], p: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parameter and gradient after weight decay of the one kind or the other."""
    rate = group["weight_decay"]
    if not rate:
        return p, g
    # Times the rate, as in PyTorch's AdamW: a schedule lowers the decay too. The paper has them apart.
    if group.get("decoupled_weight_decay"):
        return p * (1 - group["lr"] * rate), g
    return p, g + rate * p


def _moments(group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> tuple[np.ndarray, np.ndarray]:
    """Both running means, updated."""
    beta1, beta2 = group["betas"]
    mean = started(s, "exp_avg", p)
    # PyTorch's `lerp_`, whose rounding differs from beta * mean + (1 - beta) * g.
    s["exp_avg"] = mean = mean + (g - mean) * (1 - beta1)
    s["exp_avg_sq"] = square = beta2 * started(s, "exp_avg_sq", p) + (1 - beta2) * (g * g)
    return mean, square


class Adam(Optimizer):
    """Moments with bias correction (Kingma and Ba 2015); weight decay is added to the gradient."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        defaults = _settings(lr, betas, eps, weight_decay, amsgrad=amsgrad, maximize=maximize, foreach=foreach)
        defaults |= {"capturable": capturable, "differentiable": differentiable, "fused": fused}
        # Last: PyTorch's AdamW is Adam with this setting, and its state dicts list it so.
        defaults["decoupled_weight_decay"] = decoupled_weight_decay
        super().__init__(params, defaults)

    def rule(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> np.ndarray:
        """Moments, corrected for their start at zero; with amsgrad the largest second moment so far divides."""
        beta1, beta2 = group["betas"]
        t = counted(s)
        p, g = _decayed(group, p, g)
        mean, square = _moments(group, p, g, s)
        # The largest before its correction, as PyTorch has it: the correction of this step meets a maximum of an
        # earlier one.
        if group["amsgrad"]:
            s["max_exp_avg_sq"] = square = np.maximum(started(s, "max_exp_avg_sq", p), square)
        # In PyTorch's order: the root is corrected before eps is added, so eps weighs the same at every step.
        divisor = np.sqrt(square) / math.sqrt(1 - beta2**t) + group["eps"]
        # The correction of the mean goes to the rate: one product less, and PyTorch's rounding.
        stepped: np.ndarray = p - group["lr"] / (1 - beta1**t) * (mean / divisor)
        return stepped


class AdamW(Adam):
    """Adam with weight decay that bypasses the moments (Loshchilov and Hutter 2019)."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


class Adamax(Optimizer):
    """Adam with the largest gradient so far, fading, instead of the second moment."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = _settings(lr, betas, eps, weight_decay, foreach=foreach, maximize=maximize)
        super().__init__(params, {**defaults, "differentiable": differentiable, "capturable": capturable})

    def rule(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> np.ndarray:
        """The mean over the fading maximum."""
        beta1, beta2 = group["betas"]
        t = counted(s)
        p, g = _decayed(group, p, g)
        mean = started(s, "exp_avg", p)
        s["exp_avg"] = mean = mean + (g - mean) * (1 - beta1)
        # No correction of the start: a maximum is not drawn towards zero as a mean is. eps goes to the gradient only.
        s["exp_inf"] = largest = np.maximum(beta2 * started(s, "exp_inf", p), np.abs(g) + group["eps"])
        stepped: np.ndarray = p - group["lr"] / (1 - beta1**t) * (mean / largest)
        return stepped


class NAdam(Optimizer):
    """Adam with Nesterov's look ahead (Dozat 2016)."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse_negative("momentum_decay value", momentum_decay)
        defaults = _settings(lr, betas, eps, weight_decay, momentum_decay=momentum_decay)
        defaults |= {"decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach}
        super().__init__(params, {**defaults, "capturable": capturable, "differentiable": differentiable})

    def rule(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> np.ndarray:
        """The gradient and the mean, each with its own part of the momentum schedule."""
        beta1, beta2 = group["betas"]
        t, decay = counted(s), group["momentum_decay"]
        p, g = _decayed(group, p, g)
        # Dozat's schedule: momentum grows from beta1 / 2 towards beta1; 0.96 is the paper's.
        now, ahead = (beta1 * (1 - 0.5 * 0.96 ** (k * decay)) for k in (t, t + 1))
        # The product is a float32 tensor in PyTorch, and rounds as one.
        s["mu_product"] = product = float(np.float32(s.get("mu_product", 1.0) * now))
        mean, square = _moments(group, p, g, s)
        # Here PyTorch corrects inside of the root; for Adam outside. Equal on paper, not in the last bit.
        divisor = np.sqrt(square / (1 - beta2**t)) + group["eps"]
        # Two updates one after the other, since PyTorch rounds the parameter in between.
        p = p - group["lr"] * (1 - now) / (1 - product) * (g / divisor)
        stepped: np.ndarray = p - group["lr"] * ahead / (1 - product * ahead) * (mean / divisor)
        return stepped


class RAdam(Optimizer):
    """Adam that trusts the second moment only once enough of it is known (Liu et al. 2020)."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = _settings(lr, betas, eps, weight_decay, maximize=maximize, foreach=foreach)
        defaults |= {"capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, {**defaults, "differentiable": differentiable})

    def rule(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> np.ndarray:
        """With a long enough average the rectified adaptive step, else the corrected mean alone."""
        beta1, beta2 = group["betas"]
        t = counted(s)
        p, g = _decayed(group, p, g)
        mean, square = _moments(group, p, g, s)
        step = mean / (1 - beta1**t)
        # The length of the average if it were a plain mean of the last squares; the paper asks for more
        # than 4 of them, PyTorch for more than 5.
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * t * beta2**t / (1 - beta2**t)
        if length > 5:
            trust = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            # eps joins the root before the correction, other than in Adam, where it comes after it.
            step = step * math.sqrt(trust) * (math.sqrt(1 - beta2**t) / (np.sqrt(square) + group["eps"]))
        stepped: np.ndarray = p - group["lr"] * step
        return stepped
