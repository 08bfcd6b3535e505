"""Stochastic gradient descent with momentum."""

from collections.abc import Iterable
from typing import Any

from lazytensor.optim.traced.optimizer import Optimizer
from lazytensor.optim.traced.settings import check_least, descend, directed
from lazytensor.tensor import Tensor


class SGD(Optimizer):
    """p -= lr * d with d = momentum * d + (1 - dampening) * (gradient + weight_decay * p).

    The momentum buffer starts at zero and dampening applies from the first step on, as in the Cerebras optimizer;
    PyTorch's first step takes the gradient undampened.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.SGD([weight], lr=0.1, momentum=0.9)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.8000, 0.8000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        maximize: bool = False,
    ):
        check_least(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """A momentum buffer, if there is momentum."""
        # A setting of the group: groups without momentum keep no buffer, and save none.
        if group["momentum"]:
            self.new_state(p, "momentum_buffer")

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        d = directed(group, p, g)
        momentum = group["momentum"]
        if momentum:
            buffer = state["momentum_buffer"]
            buffer.mul_(momentum).add_(d, alpha=1 - group["dampening"])
            d = d + buffer * momentum if group["nesterov"] else buffer
        descend(p, d, group["lr"])
