"""Averages of models and their learning rate schedule: `torch.optim.swa_utils`."""

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

from lazytensor.core import source
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.errors import OptionInvalid
from lazytensor.functional.creation import tensor
from lazytensor.nn.module import Module
from lazytensor.nn.normalization import _BatchNorm
from lazytensor.optim.lr_scheduler import LRScheduler


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """Return a function that computes the exponential moving average decay * average + (1 - decay) * current."""
    return lambda average, current, n: decay * average + (1 - decay) * current


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """Return a function (averages, currents, n) that updates a list of averages in place.

    Each becomes the exponential moving average decay * average + (1 - decay) * current.
    """
    single = get_ema_avg_fn(decay)

    def averaged(averages: list[Tensor], currents: list[Tensor], n: Any) -> None:
        for average, current in zip(averages, currents, strict=False):
            average.copy_(single(average, current, n))

    return averaged


def get_swa_avg_fn() -> Callable[..., Any]:
    """Return a function that computes the mean of all models."""
    return lambda average, current, n: average + (current - average) / (n + 1)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over the calls of `update_parameters`.

    - `avg_fn`: a function (average, current, number of models) -> average; the mean if None.
    - `multi_avg_fn`: a function that updates lists of averages in place.
    - `use_buffers`: average buffers too; otherwise they are copied from the latest model.
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., Any] | None = None,
        use_buffers: bool = False,
    ):
        super().__init__()
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the averaged model."""
        return self.module(*args, **kwargs)

    def _parts(self, model: Module) -> list[Tensor]:
        return [*model.parameters(), *(model.buffers() if self.use_buffers else ())]

    def update_parameters(self, model: Module) -> None:
        """Add the current parameters of `model` to the average, in place. The first call copies them.

        Buffers are averaged too with `use_buffers`, and copied otherwise. A model with fewer parameters changes only
        the first ones.
        """
        count = int(self.n_averaged.item())
        averages, currents = self._parts(self.module), [t.detach() for t in self._parts(model)]
        rule = self.avg_fn or get_swa_avg_fn()
        with grad_mode(False):
            if count and self.multi_avg_fn is not None:
                self.multi_avg_fn([t.detach() for t in averages], currents, count)
            else:
                # As in PyTorch, a model with fewer parameters changes only the first ones.
                for average, current in zip(averages, currents, strict=False):
                    average.copy_(rule(average.detach(), current, count) if count else current)
            if not self.use_buffers:
                for own, other in zip(self.module.buffers(), model.buffers(), strict=False):
                    own.copy_(other.detach())
            self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of all batch normalization layers of `model` over the batches of `loader`.

    They become plain means over the batches. If a batch is a list or tuple, its first element is the input. The
    training mode is restored at the end. Without such layers nothing is done. `device` has no effect.
    """
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not layers:
        return
    before, training = [m.momentum for m in layers], model.training
    for m in layers:
        m.reset_running_stats()
        # Without momentum the running statistics are means over all batches.
        m.momentum = None
    model.train()
    with grad_mode(False):
        for batch in loader:
            model(batch[0] if isinstance(batch, list | tuple) else batch)
    for m, momentum in zip(layers, before, strict=True):
        m.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """A schedule that anneals the learning rate of each group to `swa_lr` in `anneal_epochs` steps.

    `anneal_strategy` is "cos" or "linear". Raises ValueError for other strategies, for negative epochs, and if the
    number of rates is not that of the groups.
    """

    def __init__(
        self,
        optimizer: Any,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ):
        if anneal_strategy not in ("cos", "linear"):
            raise OptionInvalid(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}",
                where=source.where(),
                hint='Pass anneal_strategy="cos" or anneal_strategy="linear".',
            )
        if anneal_epochs < 0:
            raise OptionInvalid(
                f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}",
                where=source.where(),
                hint="Pass a number of at least 0.",
            )
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, list | tuple) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise OptionInvalid(
                "swa_lr must have the same length as optimizer.param_groups. "
                f"swa_lr has {len(rates)} values, param_groups has {len(groups)}.",
                where=source.where(),
                hint="Pass one swa_lr, or one for each parameter group.",
            )
        for group, rate in zip(groups, rates, strict=True):
            group["swa_lr"] = rate
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, t: float) -> float:
        t = max(0.0, min(1.0, t))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[float]:
        """Return the learning rate of each group, as a list.

        It is between the initial rate, which is derived from the group's present one, and `swa_lr`, which it reaches
        after `anneal_epochs` steps.
        """
        span, step = max(1, self.anneal_epochs), self.last_epoch
        rates = []
        for group in self.optimizer.param_groups:
            # The initial rate is derived from the current one, which other schedules may have changed.
            before = self._share(max(0, step - 1) / span)
            first = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            share = self._share(step / span)
            rates.append(group["swa_lr"] * share + first * (1 - share))
        return rates
