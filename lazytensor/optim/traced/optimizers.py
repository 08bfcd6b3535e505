"""The vendor's optimizers: signatures, defaults, state and checks; `rules` has the update rules.

All state exists before the first step, because the program of a step has it as inputs and outputs. The order of `slots`
is that of checkpoints.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from lazytensor.core.tensor import Tensor
from lazytensor.functional.creation import zeros
from lazytensor.optim import matrix_rules, rules
from lazytensor.optim.settings import (
    BETA,
    CLOSED_BETA,
    LEAST,
    NUMBERED_BETA,
    STEP,
    Slot,
    checked,
)
from lazytensor.optim.traced.optimizer import Optimizer

MEAN, SQUARE, LARGEST_SQUARE = Slot("exp_avg"), Slot("exp_avg_sq"), Slot("max_exp_avg_sq", needs="amsgrad")

# As in the vendor's code, error messages differ between the classes.
_checked = partial(checked, beta_error=BETA, takes_nan=True)


def _beta_power(i: int, needs: str = "") -> Slot:
    """Return the slot of a power of beta number `i`, stored one step ahead: the first step divides by 1 - beta."""
    # One per parameter, although all are equal, as in the vendor's checkpoints.
    return Slot(f"beta{i + 1}_power", lambda settings: settings["betas"][i], is_number=True, needs=needs)


class SGD(Optimizer):
    """Stochastic gradient descent: p -= lr * d with d = momentum * d + (1 - dampening) * (gradient + weight_decay * p).

    As in the Cerebras optimizer, the momentum buffer is initially zero and dampening applies from the first step on. In
    PyTorch, the first step uses the gradient without dampening.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.SGD([weight], lr=0.1, momentum=0.9)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.8000, 0.8000])
    """

    rule = staticmethod(rules.sgd)
    slots = (Slot("momentum_buffer", needs="momentum"),)

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
        super().__init__(params, _checked(locals(), "lr momentum weight_decay nesterov"))


class AdamBase(Optimizer):
    """Base class of Adam and AdamW: moments of the gradient with bias correction."""

    rule = staticmethod(partial(rules.adam, system="Cerebras"))
    slots = (MEAN, SQUARE, LARGEST_SQUARE, _beta_power(0, "correct_bias"), _beta_power(1, "correct_bias"))

    def __init__(self, params: Iterable[Any], lr: float, betas: tuple[float, float], eps: float, extra: dict[str, Any]):
        settings = {"lr": lr, "betas": betas, "eps": eps}
        super().__init__(params, _checked(settings, "lr betas eps", hint=LEAST, beta_error=CLOSED_BETA) | extra)


class Adam(AdamBase):
    """Adam; weight decay is added to the gradient (L2).

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
        # The vendor's default. PyTorch's 1e-8 would be rounded to 0 in float16.
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ):
        extra = {"l2_regularization_rate": weight_decay, "correct_bias": True, "amsgrad": amsgrad, "weight_decay": 0.0}
        super().__init__(params, lr, betas, eps, extra)


class AdamW(AdamBase):
    """Adam with decoupled weight decay. `correct_bias=False` disables the bias correction.

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


class Adamax(Optimizer):
    """Adam with a decaying maximum of gradients in place of the mean of squares.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Adamax([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    rule = staticmethod(partial(rules.adamax, system="Cerebras"))
    slots = (MEAN, Slot("exp_inf"), _beta_power(0))

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ):
        super().__init__(params, _checked(locals(), "lr eps weight_decay betas", hint=LEAST))


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

    rule = staticmethod(partial(rules.nadam, system="Cerebras"))
    slots = (Slot("mu_product", 1.0, is_number=True), MEAN, SQUARE, STEP)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
    ):
        super().__init__(params, _checked(locals(), "lr eps weight_decay momentum_decay betas"))


class RAdam(Optimizer):
    """Adam whose first steps do not use the second moment, while its variance is large (Liu et al. 2020).

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.RAdam([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.8000, 0.8000])
    """

    rule = staticmethod(partial(rules.radam, system="Cerebras"))
    slots = (MEAN, SQUARE, STEP)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ):
        super().__init__(params, _checked(locals(), "lr eps weight_decay betas", hint=LEAST))


class Lamb(Optimizer):
    """Adam with the step of each layer scaled to the norm of its weights (You et al. 2020), without bias correction.

    `adam=True` disables the scaling.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Lamb([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    rule = staticmethod(rules.lamb)
    slots = (MEAN, SQUARE)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
        adam: bool = False,
    ):
        super().__init__(params, _checked(locals(), "lr eps weight_decay betas"))


class ASGD(Optimizer):
    """Averaged SGD with a decreasing rate (Polyak and Juditsky 1992).

    The state `ax` is the average of the parameter over the steps after `t0`.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.ASGD([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.8000, 0.8000])
    """

    rule = staticmethod(rules.asgd)
    slots = (
        Slot("eta", lambda settings: settings["lr"], is_number=True),
        Slot("mu", 1.0, is_number=True),
        Slot("ax"),
        STEP,
    )

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
        super().__init__(params, _checked(locals(), "lr weight_decay"))


class Adagrad(Optimizer):
    """Adagrad: p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(sum of g squared) + eps) (Duchi, Hazan and Singer 2011).

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Adagrad([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    rule = staticmethod(partial(rules.adagrad, system="Cerebras"))
    slots = (Slot("sum", lambda settings: settings["initial_accumulator_value"]), STEP)
    ORDER = "lr lr_decay eps weight_decay initial_accumulator_value maximize"

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
        super().__init__(
            params, _checked(locals(), "lr lr_decay weight_decay eps initial_accumulator_value", self.ORDER)
        )


class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012).

    The update is p -= lr * d with d = sqrt(mean of d squared + eps) / sqrt(mean of g squared + eps) * g.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Adadelta([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9997, 0.9997])
    """

    rule = staticmethod(rules.adadelta)
    slots = (Slot("square_avg"), Slot("acc_delta"))

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        maximize: bool = False,
    ):
        super().__init__(params, _checked(locals(), "lr eps weight_decay rho"))


class RMSprop(Optimizer):
    """RMSprop: p -= lr * g / (root of the mean of g squared + eps), with momentum.

    `centered` uses the variance instead.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.RMSprop([weight], lr=0.01)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    rule = staticmethod(partial(rules.rmsprop, system="Cerebras"))
    slots = (
        Slot("square_avg"),
        Slot("momentum_buffer", needs="momentum"),
        Slot("grad_avg", needs="centered"),
    )
    ORDER = "lr momentum alpha eps centered weight_decay"

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
        super().__init__(params, _checked(locals(), "lr eps momentum weight_decay alpha", self.ORDER))


class Rprop(Optimizer):
    """Resilient backpropagation (Riedmiller and Braun 1993).

    Each element has a step size, which grows while its gradient keeps the sign and shrinks when the sign changes.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Rprop([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    rule = staticmethod(rules.rprop)
    slots = (Slot("prev"), Slot("step_size", lambda settings: settings["lr"]))

    def __init__(
        self,
        params: Iterable[Any],
        # The vendor's default; PyTorch's is 0.01.
        lr: float = 0.001,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
    ):
        super().__init__(params, _checked(locals(), "lr"))


class Lion(Optimizer):
    """Lion: p -= lr * sign(beta1 * m + (1 - beta1) * g), with decoupled weight decay (Chen et al. 2023).

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Lion([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    rule = staticmethod(rules.lion)
    slots = (MEAN,)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ):
        super().__init__(params, _checked(locals(), "lr weight_decay betas", beta_error=NUMBERED_BETA))


class Adafactor(Optimizer):
    """Adam with the second moment stored as means of rows and columns (Shazeer and Stern 2018).

    Raises ValueError for settings that the vendor's class accepts but does not support: `beta1`, `clip_threshold` other
    than 1, `relative_step`, `warmup_init`.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> optimizer = lt.optim.Adafactor([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.9000, 0.9000])
    """

    rule = staticmethod(matrix_rules.adafactor)
    slots = (STEP,)

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
        arguments = locals() | {"eps": tuple(eps)}
        # The vendor's arguments and messages; scripts may set these arguments to their only supported value.
        if lr is not None and relative_step:
            raise ValueError(
                "Cannot combine manual `lr` and `relative_step=True` options\n  Pass lr=None, or relative_step=False."
            )
        if relative_step or warmup_init:
            raise ValueError(
                f"`{'relative_step' if relative_step else 'warmup_init'}=True` is not supported yet\n  Pass False."
            )
        for name, value, only in (("beta1", beta1, None), ("clip_threshold", clip_threshold, 1.0)):
            if value != only:
                raise ValueError(
                    f"Only `{name}={only}` is supported now. It was set to {value}.\n  Pass the supported value."
                )
        super().__init__(params, _checked(arguments, "weight_decay" if lr is None else "lr weight_decay"))

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """Create the second moment and the step count, unless they exist.

        The moment has the shape of the parameter without the last dimension ("exp_avg_sq_row") and without the one
        before ("exp_avg_sq_col"); for fewer than two dimensions it has that of the parameter ("exp_avg_sq").
        """
        if len(p.shape) >= 2:
            # m + n numbers instead of m * n.
            self.new_state(p, "exp_avg_sq_row", zeros(*p.shape[:-1], dtype=p.dtype))
            self.new_state(p, "exp_avg_sq_col", zeros(*p.shape[:-2], p.shape[-1], dtype=p.dtype))
        else:
            self.new_state(p, "exp_avg_sq")
        super()._make_state(group, p)


class Muon(Optimizer):
    """Momentum whose step for each matrix is made nearly orthogonal (Jordan 2024).

    Parameters must have at least two dimensions; those with more are reshaped to a matrix with the first dimension as
    rows.
    """

    rule = staticmethod(matrix_rules.muon)
    slots = (Slot("momentum_buffer"),)
    ORDER = "lr weight_decay momentum nesterov ns_steps"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.02,
        weight_decay: float = 0.01,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_steps: int = 5,
    ):
        super().__init__(params, _checked(locals(), "lr weight_decay momentum", self.ORDER, hint=LEAST))

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """Create the momentum buffer. Raises ValueError for a parameter with less than two dimensions."""
        if len(p.shape) < 2:
            raise ValueError(
                "Muon supports only parameters with two or more dimensions, but got one of shape "
                f"{tuple(p.shape)}. Pass biases and norms to another optimizer, such as AdamW."
                "\n  Pass biases and norms to another optimizer, such as AdamW."
            )
        super()._make_state(group, p)
