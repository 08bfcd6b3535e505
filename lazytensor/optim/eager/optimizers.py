"""PyTorch's optimizers: signatures, defaults, state and checks; `rules` has the update rules.

The order of `slots` and of the settings in `ORDER` is that of PyTorch's state dicts.
"""

from functools import partial
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.core.tensor import Tensor, wrap
from lazytensor.errors import OptionInvalid
from lazytensor.functional.creation import full_like
from lazytensor.ir.graph import leaf
from lazytensor.optim import rules
from lazytensor.optim.eager.eager_optimizer import NUMBER, Optimizer, Params
from lazytensor.optim.settings import STEP, Slot, checked

Betas = tuple[float, float]
MEAN, SQUARE = Slot("exp_avg"), Slot("exp_avg_sq")


class SGD(Optimizer):
    """Stochastic gradient descent, with optional momentum and weight decay.

    The update is p -= lr * d, where d is the gradient or the momentum buffer, which starts as the first gradient.
    """

    rule = staticmethod(rules.sgd)
    slots = (Slot("momentum_buffer", needs="momentum", is_late=True),)

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
        super().__init__(params, checked(locals(), "lr momentum weight_decay nesterov"))


class Adam(Optimizer):
    """Adam: moments with bias correction (Kingma and Ba 2015). Weight decay is added to the gradient."""

    rule = staticmethod(partial(rules.adam, system="PyTorch"))
    slots = (STEP, MEAN, SQUARE, Slot("max_exp_avg_sq", needs="amsgrad"))
    # PyTorch's AdamW is Adam with `decoupled_weight_decay`, which is last in its state dicts.
    ORDER = "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"

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
            raise OptionInvalid(
                "lr as a Tensor is not supported for capturable=False and foreach=True",
                where=source.where(),
                hint="Pass lr as a number, capturable=True or foreach=False.",
            )
        super().__init__(params, checked(locals(), "lr eps betas weight_decay", self.ORDER))


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

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
        implementation = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        settings: dict[str, Any] = {**implementation, "fused": fused, "maximize": maximize}
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, decoupled_weight_decay=True, **settings)


class Adamax(Optimizer):
    """Adam with a decaying maximum of gradients in place of the second moment."""

    rule = staticmethod(partial(rules.adamax, system="PyTorch"))
    slots = (STEP, MEAN, Slot("exp_inf"))

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
        super().__init__(params, checked(locals(), "lr eps betas weight_decay"))


class NAdam(Optimizer):
    """Adam with Nesterov momentum (Dozat 2016)."""

    rule = staticmethod(partial(rules.nadam, system="PyTorch"))
    slots = (STEP, Slot("mu_product", 1.0, is_number=True), MEAN, SQUARE)
    ORDER = "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable"

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
        super().__init__(params, checked(locals(), "momentum_decay lr eps betas weight_decay", self.ORDER))


class RAdam(Optimizer):
    """Adam that uses the second moment only after enough steps (Liu et al. 2020)."""

    rule = staticmethod(partial(rules.radam, system="PyTorch"))
    slots = (STEP, MEAN, SQUARE)
    ORDER = "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"

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
        super().__init__(params, checked(locals(), "lr eps betas weight_decay", self.ORDER))


class ASGD(Optimizer):
    """Averaged SGD: a decreasing rate, and the average of the parameter over time in the state `ax`."""

    rule = staticmethod(rules.asgd)
    slots = (
        STEP,
        Slot("eta", lambda settings: settings["lr"], is_number=True),
        Slot("mu", 1.0, is_number=True),
        Slot("ax"),
    )

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
        super().__init__(params, checked(locals(), "lr weight_decay"))


class Adagrad(Optimizer):
    """Adagrad: each element's rate decreases with the root of the sum of its squared gradients (Duchi et al. 2011)."""

    rule = staticmethod(partial(rules.adagrad, system="PyTorch"))
    slots = (STEP, Slot("sum", lambda settings: settings["initial_accumulator_value"]))
    ORDER = "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"

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
        super().__init__(
            params, checked(locals(), "lr lr_decay weight_decay initial_accumulator_value eps", self.ORDER)
        )

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        # Unlike the other optimizers, Adagrad creates its state in the constructor.
        if p not in self.state:
            total = full_like(p, group["initial_accumulator_value"])
            self.state[p] = {"step": wrap(leaf(np.zeros((), np.float32), NUMBER)), "sum": total}


class RMSprop(Optimizer):
    """RMSprop: the gradient is divided by the root of a moving average of squares (Hinton; centered: Graves 2013)."""

    rule = staticmethod(partial(rules.rmsprop, system="PyTorch"))
    slots = (
        STEP,
        Slot("square_avg"),
        Slot("momentum_buffer", needs="momentum"),
        Slot("grad_avg", needs="centered"),
    )
    ORDER = "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"

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
        super().__init__(params, checked(locals(), "lr eps momentum weight_decay alpha", self.ORDER))


class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012).

    The gradient is multiplied by the ratio of past steps to past gradients, so that units match.
    """

    rule = staticmethod(rules.adadelta)
    slots = (STEP, Slot("square_avg"), Slot("acc_delta"))
    ORDER = "lr rho eps weight_decay maximize capturable foreach differentiable"

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
        super().__init__(params, checked(locals(), "lr rho eps weight_decay", self.ORDER))


class Rprop(Optimizer):
    """Rprop: each element has a step size that grows while the sign of its gradient stays the same."""

    rule = staticmethod(rules.rprop)
    slots = (STEP, Slot("prev"), Slot("step_size", lambda settings: settings["lr"]))
    ORDER = "lr etas step_sizes foreach maximize differentiable capturable"

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
        super().__init__(params, checked(locals(), "lr etas", self.ORDER))
