"""Adam and AdamW as the Cerebras optimizers compute them."""

from collections.abc import Iterable
from typing import Any

from lazytensor.functions import pointwise as pw
from lazytensor.optim.traced.optimizer import Optimizer
from lazytensor.optim.traced.settings import LEAST, check_betas, check_least, complement, is_on, larger
from lazytensor.tensor import Tensor


class AdamBase(Optimizer):
    """Moments of the gradient with bias correction.

    The powers of beta are state, 0-d and one ahead: they start at beta, so that the first step divides by 1 - beta.
    """

    def __init__(self, params: Iterable[Any], lr: float, betas: tuple[float, float], eps: float, extra: dict[str, Any]):
        # The vendor's words in the vendor's order; the interval of betas is said to be closed and is not.
        check_least(LEAST, lr=lr)
        check_betas(betas, " - should be in [0.0, 1.0]")
        check_least(LEAST, eps=eps)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, **extra})

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """Both moments, their maximum if wanted, and the powers of both betas."""
        # All state before the first step: a step's program has its state as inputs and outputs, so none can appear
        # later.
        self.new_state(p, "exp_avg")
        self.new_state(p, "exp_avg_sq")
        if group["amsgrad"]:
            self.new_state(p, "max_exp_avg_sq")
        if group["correct_bias"]:
            # For each parameter, although all have the same: checkpoints of the vendor's hold them so.
            for i in (0, 1):
                self.new_state(p, f"beta{i + 1}_power", float(group["betas"][i]))

    def direction(self, group: dict[str, Any], g: Tensor, state: dict[str, Tensor]) -> Tensor:
        """The step before the learning rate: first moment over root of the second."""
        beta1, beta2 = group["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.mul_(beta1).add_(g, alpha=complement(beta1))
        square.mul_(beta2).add_(g * g * complement(beta2))
        if group["amsgrad"]:
            state["max_exp_avg_sq"].copy_(larger(state["max_exp_avg_sq"], square))
            square = state["max_exp_avg_sq"]
        # The vendor's order: eps meets the root before the correction, where torch.optim corrects first.
        d: Tensor = mean / (pw.sqrt(square) + group["eps"])
        # AdamW with correct_bias=False, as BERT was trained: the first steps are too long by the missing correction.
        if "beta1_power" not in state:
            return d
        power1, power2 = state["beta1_power"], state["beta2_power"]
        scale = pw.sqrt(1.0 - power2) / (1.0 - power1)
        # Powers as state rather than beta ** step: a step has no number inside of a compiled graph.
        power1.mul_(beta1)
        power2.mul_(beta2)
        corrected: Tensor = d * scale
        return corrected

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        # Two ways of decay under two names, since Adam and AdamW share this rule; each class leaves one of them 0.
        if is_on(group["l2_regularization_rate"]):
            g = g + p * group["l2_regularization_rate"]
        d = self.direction(group, g, state)
        if is_on(group["weight_decay"]):
            # Past the moments but within the rate.
            d = d + p * group["weight_decay"]
        p.sub_(d * group["lr"])


class Adam(AdamBase):
    """Adam; weight_decay is added to the gradient (L2).

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Adam([weight], lr=0.1)
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
        # The vendor's default; PyTorch has 1e-8, which float16 rounds to 0.
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ):
        extra = {"l2_regularization_rate": weight_decay, "correct_bias": True, "amsgrad": amsgrad, "weight_decay": 0.0}
        super().__init__(params, lr, betas, eps, extra)


class AdamW(AdamBase):
    """Adam with weight decay that bypasses the moments.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.AdamW([weight], lr=0.1, weight_decay=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.8900, 0.8900])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        correct_bias: bool = True,
        amsgrad: bool = False,
    ):
        extra = {"weight_decay": weight_decay, "l2_regularization_rate": 0.0}
        super().__init__(params, lr, betas, eps, {**extra, "correct_bias": correct_bias, "amsgrad": amsgrad})
