"""Relatives of Adam: Adamax, NAdam, RAdam, Lamb, and the averaging ASGD."""

from collections.abc import Callable, Iterable
from typing import Any

from lazytensor.functions import pointwise as pw
from lazytensor.functions.creation import tensor
from lazytensor.optim.traced.optimizer import Optimizer
from lazytensor.optim.traced.settings import (
    LEAST,
    as_tensor,
    check_betas,
    check_least,
    complement,
    directed,
    folded_complement,
    is_on,
    larger,
    length,
    scaled,
)
from lazytensor.tensor import Tensor

NADAM_WARMUP = 0.96
"""How fast the momentum of NAdam approaches beta1 (Dozat 2016)."""


def _means(
    group: dict[str, Any],
    g: Tensor,
    state: dict[str, Tensor],
    share: Callable[[float], float] = complement,
    square_share: Callable[[float], float] = complement,
) -> tuple[Tensor, Tensor]:
    """Take a gradient into the means of gradients and of their squares.

    `share` and `square_share` compute 1 - beta1 and 1 - beta2, in float64 or in float32.
    """
    beta1, beta2 = group["betas"]
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    mean.mul_(beta1).add_(g * share(beta1))
    square.mul_(beta2).add_(g * g * square_share(beta2))
    return mean, square


class Adamax(Optimizer):
    """Adam with the largest gradient so far in place of the mean of squares.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Adamax([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ):
        # Which checks explain themselves (LEAST) and which do not differs from class to class in the vendor's code too.
        check_least(LEAST, lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        more = {"eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, {"lr": lr, "betas": tuple(betas), **more})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """Mean, largest, and the power of beta1, which is one ahead."""
        self.new_state(p, "exp_avg")
        self.new_state(p, "exp_inf")
        self.new_state(p, "beta1_power", float(group["betas"][0]))

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        g = directed(group, p, g)
        beta1, beta2 = group["betas"]
        mean, largest, power = state["exp_avg"], state["exp_inf"], state["beta1_power"]
        mean.mul_(beta1).add_(g * complement(beta1))
        # eps goes to the gradient, so that the divisor is never 0, and fades with the maximum.
        largest.copy_(larger(largest * beta2, pw.abs(g) + group["eps"]))
        # Two divisions and a product, as the original: each rounds.
        p.sub_(mean / largest / (1.0 - power) * group["lr"])
        # After its use: the state is one ahead.
        power.mul_(beta1)


class NAdam(Optimizer):
    """Adam with Nesterov momentum that warms up (Dozat 2016).

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.NAdam([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.8950, 0.8950])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
    ):
        check_least(lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        check_betas(betas)
        more = {"eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay}
        super().__init__(params, {"lr": lr, "betas": tuple(betas), **more})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """Product of the momenta, both moments and the step, in the order in which checkpoints have them."""
        self.new_state(p, "mu_product", 1.0)
        self.new_state(p, "exp_avg")
        self.new_state(p, "exp_avg_sq")
        self.new_state(p, "step", 0.0)

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        step, product = state["step"], state["mu_product"]
        step.add_(1.0)
        # The momenta of this step and of the next, which Nesterov's look ahead already uses.
        mu, after = _warmed(group, step), _warmed(group, step + 1.0)
        product.mul_(mu)
        g = directed(group, p, g)
        mean, square = _means(group, g, state, square_share=folded_complement)
        spread = 1.0 - pw.pow(group["betas"][1], step)
        root = pw.sqrt(square / spread) + group["eps"]
        # Dozat has product * after; the Cerebras optimizer counts the momentum of this step twice.
        ahead = after * mean / (1.0 - product * mu * after)
        now = g * (1.0 - mu) / (1.0 - product)
        p.add_(scaled(ahead + now, group["lr"]) / root)


def _warmed(group: dict[str, Any], step: Tensor) -> Tensor:
    """The momentum of a step."""
    rise = pw.pow(NADAM_WARMUP, step * group["momentum_decay"])
    momentum: Tensor = (1.0 - rise * 0.5) * group["betas"][0]
    return momentum


class RAdam(Optimizer):
    """Adam whose first steps do without the second moment while its variance is large (Liu et al. 2020).

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.RAdam([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.8000, 0.8000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ):
        check_least(LEAST, lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """Both moments and the step."""
        self.new_state(p, "exp_avg")
        self.new_state(p, "exp_avg_sq")
        self.new_state(p, "step", 0.0)

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        g = directed(group, p, g)
        beta1, beta2 = group["betas"]
        step = state["step"]
        step.add_(1.0)
        mean, square = _means(group, g, state, folded_complement, folded_complement)
        power = pw.pow(beta2, step)
        # The length that the average has in the end; `terms` is what it has by now, as in the paper.
        most = 2 / folded_complement(beta2) - 1
        terms = most - step * 2.0 * power / (1.0 - power)
        product = (terms - 4.0) * (terms - 2.0) * most
        ratio = product / (terms * ((most - 4) * (most - 2)))
        root = pw.sqrt(1.0 - power) / (pw.sqrt(square) + group["eps"])
        # Both ways are computed and one is chosen: a compiled step has no branches on values. The root of a negative
        # ratio is a NaN that is not chosen.
        is_certain = terms > 5.0
        d = mean / (1.0 - pw.pow(beta1, step))
        p.sub_(d * pw.where(is_certain, pw.sqrt(ratio), 1.0) * pw.where(is_certain, root, 1.0) * group["lr"])


class Lamb(Optimizer):
    """Adam whose step in each layer is as long as its weights demand (You et al. 2020); no bias correction.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Lamb([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    LONGEST = 10.0
    """The norm of the weights counts up to here."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
        adam: bool = False,
    ):
        check_least(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        more = {"eps": eps, "weight_decay": weight_decay, "adam": adam}
        super().__init__(params, {"lr": lr, "betas": tuple(betas), **more})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """Both moments."""
        self.new_state(p, "exp_avg")
        self.new_state(p, "exp_avg_sq")

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        mean, square = _means(group, g, state)
        d = mean / (pw.sqrt(square) + group["eps"])
        if is_on(group["weight_decay"]):
            d = d + p * group["weight_decay"]
        if not group["adam"]:
            # You et al. call this bound phi: very large weights do not make the steps ever larger.
            weights = pw.clamp(length(p), 0.0, self.LONGEST)
            norm = length(d)
            # Weights or steps that are zero have no ratio, and would make NaN of the layer.
            ratio = pw.where(norm > 0.0, weights / norm, 1.0)
            d = d * pw.where(weights > 0.0, ratio, 1.0)
        p.sub_(d * group["lr"])


class ASGD(Optimizer):
    """Gradient descent whose average over the steps after t0 is kept beside the parameters (Polyak and Juditsky).

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.ASGD([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.8000, 0.8000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        maximize: bool = False,
    ):
        check_least(lr=lr, weight_decay=weight_decay)
        more = {"t0": t0, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, **more})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """Rate, weight of the newest value in the average, the average, and the step."""
        # Rates are state, since they change with the step, which has no number inside of a compiled graph.
        self.new_state(p, "eta", float(group["lr"]))
        self.new_state(p, "mu", 1.0)
        self.new_state(p, "ax")
        self.new_state(p, "step", 0.0)

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        g = directed(group, p, g)
        eta, mu, average, step = (state[name] for name in ("eta", "mu", "ax", "step"))
        step.add_(1.0)
        p.mul_(1.0 - eta * group["lambd"])
        p.add_(g * -eta)
        # Before mu is computed: the weight in this step's average was decided by the step before.
        average.copy_(pw.where(mu == 1.0, p, average + (p - average) * mu))
        growth = step * (group["lr"] * group["lambd"]) + 1.0
        # A tensor, since a number over a tensor is a product with the reciprocal.
        eta.copy_(pw.div(as_tensor(group["lr"]), pw.pow(growth, group["alpha"])))
        mu.copy_(1.0 / pw.maximum(tensor(1.0), step - group["t0"]))
