"""Rates for each element from the history of its gradient: Adagrad, Adadelta, RMSprop, Rprop."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from lazytensor.functions import pointwise as pw
from lazytensor.functions.creation import full_like
from lazytensor.optim.traced.optimizer import Optimizer
from lazytensor.optim.traced.settings import (
    check_betas,
    check_least,
    complement,
    descend,
    directed,
    is_on,
    scaled,
)
from lazytensor.tensor import Tensor


class Adagrad(Optimizer):
    """p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(sum of g squared) + eps)  (Duchi, Hazan and Singer 2011).

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Adagrad([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        # The vendor's default; PyTorch has 1e-10.
        eps: float = 1e-6,
        maximize: bool = False,
    ):
        check_least(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps)
        check_least(initial_accumulator_value=initial_accumulator_value)
        defaults = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        more = {"initial_accumulator_value": initial_accumulator_value, "maximize": maximize}
        super().__init__(params, {**defaults, **more})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """The sum of squares, and the number of steps."""
        self.new_state(p, "sum", full_like(p, float(group["initial_accumulator_value"])))
        self.new_state(p, "step", 0.0)

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        g = directed(group, p, g)
        state["step"].add_(1)
        total = state["sum"]
        # Before the division: the gradient of this step counts among the past.
        total.add_(g * g)
        # The decay divides the gradient, also if it is 0, in the order of the original.
        d = g / ((state["step"] - 1) * group["lr_decay"] + 1)
        p.add_(scaled(d, group["lr"]) / (pw.sqrt(total) + group["eps"]))


class Adadelta(Optimizer):
    """p -= lr * d with d = sqrt(mean of d squared + eps) / sqrt(mean of g squared + eps) * g  (Zeiler 2012).

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Adadelta([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9997, 0.9997])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        maximize: bool = False,
    ):
        check_least(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """The two means."""
        self.new_state(p, "square_avg")
        self.new_state(p, "acc_delta")

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        g = directed(group, p, g)
        rho, eps = group["rho"], group["eps"]
        square, moved = state["square_avg"], state["acc_delta"]
        square.mul_(rho).add_(g * g * complement(rho))
        # eps inside of both roots, unlike the others: without it nothing would ever start to move.
        spread = pw.sqrt(square + eps)
        d = pw.sqrt(moved + eps) / spread * g
        moved.mul_(rho).add_(d * d * complement(rho))
        descend(p, d, group["lr"])


class RMSprop(Optimizer):
    """p -= lr * g / (root of the mean of g squared + eps), with momentum; centered takes the variance instead.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.RMSprop([weight], lr=0.01)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
    ):
        check_least(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        more = {"eps": eps, "centered": centered, "weight_decay": weight_decay}
        super().__init__(params, {"lr": lr, "momentum": momentum, "alpha": alpha, **more})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """The mean of squares; with momentum its buffer; if centered the mean of gradients."""
        self.new_state(p, "square_avg")
        if group["momentum"]:
            self.new_state(p, "momentum_buffer")
        if group["centered"]:
            self.new_state(p, "grad_avg")

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        g = directed(group, p, g)
        alpha = group["alpha"]
        square = state["square_avg"]
        square.mul_(alpha).add_(g * g * complement(alpha))
        spread = square
        if group["centered"]:
            mean = state["grad_avg"]
            mean.mul_(alpha).add_(g * complement(alpha))
            # The variance; rounding can make it slightly negative, which eps outside of the root does not mend. PyTorch
            # has the same.
            spread = square + mean * mean * -1.0
        d = g / (pw.sqrt(spread) + group["eps"])
        if group["momentum"]:
            # The rate is applied behind the buffer, so a schedule acts on all of the past at once.
            d = state["momentum_buffer"].mul_(group["momentum"]).add_(d)
        descend(p, d, group["lr"])


class Rprop(Optimizer):
    """Steps that grow while the gradient keeps its sign and shrink when it turns (Riedmiller and Braun 1993).

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Rprop([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        # The vendor's first step; PyTorch's is 0.01.
        lr: float = 0.001,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
    ):
        check_least(lr=lr)
        super().__init__(params, {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes)})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """The gradient before, and the step of each element, which starts at lr."""
        self.new_state(p, "prev")
        self.new_state(p, "step_size", full_like(p, float(group["lr"])))

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        shrink, grow = group["etas"]
        # Only its sign is used. Of tiny half-type gradients the product can underflow to 0, which counts as no turn.
        agreement = g * state["prev"]
        factor = pw.where(agreement > 0, grow, pw.where(agreement < 0, shrink, 1.0))
        state["step_size"].mul_(factor).clamp_(*group["step_sizes"])
        # Where the sign has turned nothing moves, and the next step takes it as new.
        g = pw.where(agreement < 0, 0.0, g)
        p.sub_(pw.sign(g) * state["step_size"])
        # With the zeros: an element that rested goes on without shrinking again.
        state["prev"].copy_(g)


class Lion(Optimizer):
    """p -= lr * sign(beta1 * m + (1 - beta1) * g), with decay of the weights themselves (Chen et al. 2023).

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Lion([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ):
        check_least(lr=lr, weight_decay=weight_decay)
        check_betas(betas, "", is_numbered=True)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "weight_decay": weight_decay})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """The mean of gradients."""
        self.new_state(p, "exp_avg")

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        beta1, beta2 = group["betas"]
        mean = state["exp_avg"]
        if is_on(group["weight_decay"]):
            p.mul_(_left(group["lr"], group["weight_decay"]))
        # The direction is taken with one decay and the mean goes on with the other.
        d = pw.sign(mean * beta1 + g * complement(beta1))
        descend(p, d, group["lr"])
        mean.mul_(beta2).add_(g * complement(beta2))


def _left(lr: Any, decay: Any) -> Any:
    """Return 1 - lr * decay in float32, so that a constant rate and a scheduled one round alike.

    Either may be a 0-d tensor that a schedule computes.
    """
    if isinstance(lr, Tensor) or isinstance(decay, Tensor):
        return 1.0 - lr * decay
    return float(np.float32(1) - np.float32(lr) * np.float32(decay))
