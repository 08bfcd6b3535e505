"""Rules that divide by the size of past gradients, without moments: Adagrad, RMSprop, Adadelta."""

from typing import Any

import numpy as np

from lazytensor.functions.creation import full_like
from lazytensor.ir.graph import leaf
from lazytensor.optim.eager.eager_optimizer import (
    NUMBER,
    Optimizer,
    Params,
    State,
    counted,
    refuse_negative,
    started,
)
from lazytensor.tensor import Tensor, wrap


class Adagrad(Optimizer):
    """Each element's rate falls with the root of the sum of its squared gradients (Duchi et al. 2011)."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        refuse_negative("learning rate", lr)
        refuse_negative("lr_decay value", lr_decay)
        refuse_negative("weight_decay value", weight_decay)
        refuse_negative("initial_accumulator_value value", initial_accumulator_value)
        refuse_negative("epsilon value", eps)
        defaults: dict[str, Any] = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        defaults |= {"initial_accumulator_value": initial_accumulator_value, "foreach": foreach}
        super().__init__(params, {**defaults, "maximize": maximize, "differentiable": differentiable, "fused": fused})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        # The other optimizers make their state in the first step.
        if p not in self.state:
            total = full_like(p, group["initial_accumulator_value"])
            self.state[p] = {"step": wrap(leaf(np.zeros((), np.float32), NUMBER)), "sum": total}

    def rule(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> np.ndarray:
        """The sum of squares, and a step by the decayed rate."""
        total = started(s, "sum", p, group["initial_accumulator_value"])
        # PyTorch counts from 0 here: the first step has the whole rate.
        rate = group["lr"] / (1 + (counted(s) - 1) * group["lr_decay"])
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        # The sum never falls, so rates only go down.
        s["sum"] = total = total + g * g
        stepped: np.ndarray = p - rate * (g / (np.sqrt(total) + group["eps"]))
        return stepped


class RMSprop(Optimizer):
    """Division by the root of a running mean of squares (Hinton's lectures; centered: Graves 2013)."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse_negative("learning rate", lr)
        refuse_negative("epsilon value", eps)
        refuse_negative("momentum value", momentum)
        refuse_negative("weight_decay value", weight_decay)
        refuse_negative("alpha value", alpha)
        defaults: dict[str, Any] = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered}
        defaults |= {"weight_decay": weight_decay, "capturable": capturable, "foreach": foreach}
        super().__init__(params, {**defaults, "maximize": maximize, "differentiable": differentiable})

    def rule(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> np.ndarray:
        """The mean of squares, less the square of the mean if centered; momentum on the quotient."""
        alpha = group["alpha"]
        counted(s)
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        s["square_avg"] = square = alpha * started(s, "square_avg", p) + (1 - alpha) * (g * g)
        if group["momentum"]:
            s["momentum_buffer"] = buffer = started(s, "momentum_buffer", p)
        # The variance instead of the mean square: what is constant in the gradient no longer slows its own steps.
        if group["centered"]:
            mean = started(s, "grad_avg", p)
            s["grad_avg"] = mean = mean + (g - mean) * (1 - alpha)
            square = square - mean * mean
        # eps outside of the root, as in all of PyTorch's but Adadelta; TensorFlow's RMSprop has it inside, and other
        # numbers.
        step = g / (np.sqrt(square) + group["eps"])
        # The rate multiplies what leaves the buffer, not what enters: a schedule acts on all of the past at once.
        if group["momentum"]:
            s["momentum_buffer"] = step = group["momentum"] * buffer + step
        stepped: np.ndarray = p - group["lr"] * step
        return stepped


class Adadelta(Optimizer):
    """Division by past gradients and multiplication by past steps, so that units agree (Zeiler 2012)."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse_negative("learning rate", lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        refuse_negative("epsilon value", eps)
        refuse_negative("weight_decay value", weight_decay)
        defaults: dict[str, Any] = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        defaults |= {"capturable": capturable, "foreach": foreach}
        super().__init__(params, {**defaults, "differentiable": differentiable})

    def rule(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> np.ndarray:
        """The two running means, and the step between their updates."""
        rho, eps = group["rho"], group["eps"]
        counted(s)
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        s["square_avg"] = square = rho * started(s, "square_avg", p) + (1 - rho) * (g * g)
        # The mean of steps before this one, as the paper has it: the step is not known yet.
        past = started(s, "acc_delta", p)
        # eps inside of both roots: it is what lets the very first step, with no past, be more than zero.
        step = np.sqrt(past + eps) / np.sqrt(square + eps) * g
        s["acc_delta"] = rho * past + (1 - rho) * (step * step)
        stepped: np.ndarray = p - group["lr"] * step
        return stepped
