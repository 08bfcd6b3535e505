"""Rules that follow the gradient itself, its average over time or its sign: SGD, ASGD, Rprop."""

from typing import Any

import numpy as np

from lazytensor.optim.eager.eager_optimizer import Optimizer, Params, State, counted, refuse_negative, started
from lazytensor.tensor import Tensor


class SGD(Optimizer):
    """p -= lr * d, where d is the gradient or its momentum buffer, which starts as the first gradient."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        refuse_negative("learning rate", lr)
        refuse_negative("momentum value", momentum)
        refuse_negative("weight_decay value", weight_decay)
        # The look-ahead g + momentum * buffer is the next buffer only if gradients enter it whole.
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults: dict[str, Any] = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
        }
        defaults |= {"nesterov": nesterov, "maximize": maximize, "foreach": foreach}
        super().__init__(params, {**defaults, "differentiable": differentiable, "fused": fused})

    def rule(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> np.ndarray:
        """Weight decay, momentum, step."""
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        momentum = group["momentum"]
        if momentum:
            # Only later gradients are dampened: the first one fills the buffer whole.
            before = s.get("momentum_buffer")
            s["momentum_buffer"] = buffer = g if before is None else momentum * before + (1 - group["dampening"]) * g
            # No rate inside of the buffer, unlike Sutskever's: a new rate acts at once on everything the buffer holds.
            g = g + momentum * buffer if group["nesterov"] else buffer
        # The buffer may be the gradient's own array in the first step: nothing here writes in place.
        stepped: np.ndarray = p - group["lr"] * g
        return stepped


class ASGD(Optimizer):
    """Gradient descent with a decaying rate, and the average of the parameters over time in the state (`ax`)."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        refuse_negative("learning rate", lr)
        refuse_negative("weight_decay value", weight_decay)
        defaults: dict[str, Any] = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        defaults |= {"foreach": foreach, "maximize": maximize}
        super().__init__(params, {**defaults, "differentiable": differentiable, "capturable": capturable})

    def rule(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> np.ndarray:
        """Decay and step; then the average and the rates of the next step."""
        # Rates are state, made by the step before for this one: PyTorch's files hold them, and a loaded one goes on
        # with its own.
        lr, lambd = group["lr"], group["lambd"]
        eta, mu, average = s.get("eta", lr), s.get("mu", 1.0), started(s, "ax", p)
        t = counted(s)
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        # `lambd` decays with the falling rate, `weight_decay` through the gradient: PyTorch has both.
        p = p * (1 - lambd * eta) - eta * g
        s["eta"] = lr / (1 + lambd * lr * t) ** group["alpha"]
        s["mu"] = 1 / max(1.0, t - group["t0"])
        # Up to t0 the average is the parameter itself: mu stays 1.
        s["ax"] = p if mu == 1.0 else average + (p - average) * mu
        return p


class Rprop(Optimizer):
    """Steps of a size of their own for each element, which grow while the sign of the gradient stays."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse_negative("learning rate", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults: dict[str, Any] = {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes), "foreach": foreach}
        defaults |= {"maximize": maximize, "differentiable": differentiable, "capturable": capturable}
        super().__init__(params, defaults)

    def rule(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> np.ndarray:
        """Where the sign turned, the element rests for one step."""
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        previous, size = started(s, "prev", p), started(s, "step_size", p, group["lr"])
        counted(s)
        # Only signs count: the size of a gradient moves nothing.
        turn = np.sign(g * previous)
        # In the parameter's type, since NumPy makes double of plain numbers.
        factor = np.where(turn > 0, grow, np.where(turn < 0, shrink, 1)).astype(p.dtype)
        # A gradient of 0 in the state makes the next product 0, so the step after a turn keeps its size.
        s["prev"] = g = np.where(turn < 0, p.dtype.type(0), g)
        s["step_size"] = np.clip(size * factor, p.dtype.type(least), p.dtype.type(most))
        stepped: np.ndarray = p - np.sign(g) * s["step_size"]
        return stepped
