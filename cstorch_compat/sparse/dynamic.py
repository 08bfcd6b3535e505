"""Algorithms whose masks change while a model trains: gradual pruning, SET and RigL."""

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from cstorch_compat.optim.optimizers import Optimizer
from cstorch_compat.sparse.algorithm import SparsityAlgorithm, shared_name
from cstorch_compat.sparse.masks import (
    InputGroupScoreShaper,
    OutputGroupScoreShaper,
    ScoreShaper,
    make_mask_drop_minimum,
    make_mask_grow_maximum,
    make_mask_topk_sparsity,
)
from cstorch_compat.sparse.parameter import SparseParameter
from cstorch_compat.sparse.sparse_schedules import (
    Constant,
    HyperParameterSchedule,
    make_hyperparam_schedule,
    make_update_schedule,
)
from lazytensor import dtype as dt
from lazytensor.functions import pointwise as pw
from lazytensor.functions import reductions
from lazytensor.functions.creation import as_tensor, ones, rand, tensor
from lazytensor.functions.writing import copy_
from lazytensor.gradients import register_hook
from lazytensor.tensor import Tensor, grad_mode

FAR = 100_000
"""The step that counts as the last one where updates have no end."""


class DynamicSparsityAlgorithm(SparsityAlgorithm):
    """Base of algorithms that change masks at update steps. A subclass gives the new mask in `update_mask`.

    Steps are counted by the optimizer's, from 1. Masks start sparse if step 0 is an update step, else they keep all.
    """

    def __init__(self, sparsity: Any = None, update: Any = None, **kwargs: Any):
        super().__init__(sparsity, **kwargs)
        self.update_schedule = make_update_schedule(update)
        self.step = tensor(0, dtype=dt.int64)
        self.is_update_step = self.starts_sparse = self.update_schedule(tensor(0, dtype=dt.int64))
        self._first_levels: dict[int, Tensor] = {}

    @abstractmethod
    def update_mask(self, p: Tensor, mask: Tensor, sparsity: Tensor) -> Tensor:
        """The new mask of a parameter, should this be an update step; the sparsity is float32[] in 0..1."""

    def first_mask(self, param: Tensor) -> Callable[[Tensor], Tensor]:
        """The init method at the level of step 0, or a mask that keeps everything."""
        schedule = self._levels[param]
        if id(schedule) not in self._first_levels:
            self._first_levels[id(schedule)] = self._level(schedule, tensor(0, dtype=dt.int64))
            with grad_mode(False):
                schedule.update(self.starts_sparse)
        if not bool(self.starts_sparse):
            return lambda p: ones(*p.shape, dtype=dt.bool_)
        return functools.partial(self.init_method, sparsity=self._first_levels[id(schedule)])

    def _level(self, schedule: HyperParameterSchedule, step: Tensor) -> Tensor:
        return pw.clamp(schedule(step), 0.0, 1.0)

    def csx_annotate_sparsity(self, param: SparseParameter) -> None:
        """Tell the compiler the range of levels over the update steps, as far as the schedule knows it."""
        begin = getattr(self.update_schedule, "start", 0)
        end = getattr(self.update_schedule, "stop", None)
        extent = self._levels[param.param].get_min_max_end(begin, FAR if end is None else end)
        if extent is not None:
            low, high, last = extent
            self._annotate(param, low if bool(self.starts_sparse) else 0.0, high, last)

    def update(self, optimizer: Any = None) -> None:
        """Count a step, and change the masks of the optimizer's parameters if it is an update step.

        Raises TypeError for what is no cstorch optimizer.
        """
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"Expected a Cerebras Optimizer. Got: {type(optimizer)}")
        with grad_mode(False):
            self.step.add_(1)
            self.is_update_step = self.update_schedule(self.step)
            levels = self._current_levels()
            for p in self.get_sparse_params(optimizer):
                level = levels[id(self._levels[p.param])]
                new = self.update_mask(p.param, p.mask, level)
                p.update(pw.where(self.is_update_step, new, p.mask))
            self.prune_all(optimizer)
            self._advance(self.is_update_step)
        for p in self.sparse_params.values() if self._computed_hooks else ():
            self._call_hooks(self._computed_hooks, p.name, measured_sparsity(p.mask))

    def _current_levels(self) -> dict[int, Tensor]:
        """The level of each schedule, which the target hooks are told."""
        levels = {}
        for schedule, parameters in self._levels.schedules():
            level = levels[id(schedule)] = self._level(schedule, self.step)
            names = [self._by_id[id(p)].name for p in parameters]
            self._call_hooks(self._target_hooks, shared_name(names), level)
        return levels

    def _advance(self, is_update_step: Tensor) -> None:
        for schedule, _ in self._levels.schedules():
            schedule.update(is_update_step)

    # -- state -------------------------------------------------------------------------------------------------------

    def _stateful(self) -> dict[str, HyperParameterSchedule]:
        """The schedules that have state, by the name of the last parameter they are for."""
        return {
            self._by_id[id(parameters[-1])].name: schedule
            for schedule, parameters in self._levels.schedules()
            if schedule.state_dict()
        }

    def counters(self) -> dict[str, Tensor]:
        counters = {"step": self.step}
        for name, schedule in self._stateful().items():
            counters.update({f"sparsity.{name}.{k}": t for k, t in schedule.state_dict().items()})
        return counters

    def state_dict(self) -> dict[str, Any]:
        """The step, and the state of the schedules of sparsity. The masks are in the state dict of the model."""
        return {"step": self.step, "sparsity": {name: s.state_dict() for name, s in self._stateful().items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` gave. Raises KeyError if the step is missing."""
        with grad_mode(False):
            copy_(self.step, as_tensor(state_dict["step"]))
            for name, state in state_dict.get("sparsity", {}).items():
                self._stateful()[name].load_state_dict(state)


def measured_sparsity(mask: Tensor) -> Tensor:
    """The share of elements that a mask does not keep: float32[]."""
    return 1.0 - reductions.mean(pw.cast_to(mask, dt.float32))


class GMP(DynamicSparsityAlgorithm):
    """Gradual magnitude pruning: at each update the smallest weights go, up to the level of the schedule.

    Raises ValueError for a level that never changes, and for none.
    """

    def __init__(self, **kwargs: Any):
        if kwargs.get("sparsity") is None:
            raise ValueError("GMP sparsity algorithm expected `sparsity` to be specified, but got none.")
        super().__init__(**kwargs)
        level = self._levels.default
        if isinstance(level, Constant):
            raise ValueError(
                f"Configured with constant sparsity {level.value}. This is not valid, because the sparsity pattern "
                'would not change during training. For a static sparsity pattern, use `algorithm="static".`'
            )

    def update_mask(self, p: Tensor, mask: Tensor, sparsity: Tensor) -> Tensor:
        return make_mask_topk_sparsity(pw.abs(p.detach()), sparsity)


class _DropAndGrow(DynamicSparsityAlgorithm):
    """Drops a fraction of the kept weights, the smallest, and grows as many elsewhere as the level asks for.

    A list of fractions goes on to the next one at each update; in the original it stays at the first.
    """

    score_shaper: ScoreShaper | None = None

    def __init__(self, drop_fraction: Any = 0.3, **kwargs: Any):
        super().__init__(**kwargs)
        self.drop_fraction = make_hyperparam_schedule(drop_fraction)
        if isinstance(self.drop_fraction, Constant) and not 0.0 <= self.drop_fraction.value <= 1.0:
            raise ValueError(f"Invalid drop_fraction {drop_fraction}. Must be 0.0 <= drop_fraction <= 1.0")

    def grow_score(self, p: Tensor, mask: Tensor) -> Tensor:
        """Where weights shall grow: the largest are chosen."""
        raise NotImplementedError

    def update_mask(self, p: Tensor, mask: Tensor, sparsity: Tensor) -> Tensor:
        shaper, schedule = self.score_shaper, self.drop_fraction
        fraction = schedule.value if isinstance(schedule, Constant) else schedule(self.step)
        kept, count = make_mask_drop_minimum(pw.abs(p.detach()), mask, fraction, shaper)
        return make_mask_grow_maximum(self.grow_score(p, kept), kept, sparsity, count, shaper)

    def _advance(self, is_update_step: Tensor) -> None:
        super()._advance(is_update_step)
        self.drop_fraction.update(is_update_step)

    def _stateful(self) -> dict[str, HyperParameterSchedule]:
        own = {"drop_fraction": self.drop_fraction} if self.drop_fraction.state_dict() else {}
        return {**super()._stateful(), **own}


class SET(_DropAndGrow):
    """Sparse evolutionary training: what is dropped grows again at random places."""

    def grow_score(self, p: Tensor, mask: Tensor) -> Tensor:
        return rand(*p.shape, dtype=dt.float32, device=p.device)


class RigL(_DropAndGrow):
    """Rigged lottery: what is dropped grows again where the gradient of the dense weight is largest.

    With `balance_in_groups` or `balance_out_groups` every group of inputs or outputs keeps as many weights as the
    others. Raises ValueError for both, and for parameters that cannot be divided into the groups.
    """

    def __init__(
        self,
        drop_fraction: Any = 0.3,
        balance_in_groups: int | None = None,
        balance_out_groups: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(drop_fraction, **kwargs)
        self.balance_in_groups, self.balance_out_groups = balance_in_groups, balance_out_groups
        if balance_in_groups and balance_out_groups:
            raise ValueError("Only one of `balance_in_groups` and `balance_out_groups` can be specified at a time.")
        if balance_in_groups:
            self.score_shaper = InputGroupScoreShaper(balance_in_groups)
        if balance_out_groups:
            self.score_shaper = OutputGroupScoreShaper(balance_out_groups)
        self._dense_grads: dict[int, Tensor] = {}

    def sparsify_parameter(self, module: Any, name: str, param: Tensor) -> None:
        """Make one parameter sparse, and keep its dense gradient of each step."""
        if self.score_shaper is not None:
            self.score_shaper(param)
        if param.requires_grad and id(param) not in self._by_id:
            register_hook(param, functools.partial(self._keep_dense, param))
        super().sparsify_parameter(module, name, param)

    def first_mask(self, param: Tensor) -> Callable[[Tensor], Tensor]:
        method = super().first_mask(param)
        if self.score_shaper is None or not isinstance(method, functools.partial):
            return method
        return functools.partial(method, score_shaper=self.score_shaper)

    def _keep_dense(self, param: Tensor, gradient: Tensor) -> None:
        """Add a gradient that is not masked yet; a step may have several backward passes."""
        before, dense = self._dense_grads.get(id(param)), gradient.detach()
        self._dense_grads[id(param)] = dense if before is None else before + dense

    def grow_score(self, p: Tensor, mask: Tensor) -> Tensor:
        dense = self._dense_grads.pop(id(p), None)
        if dense is None:  # a parameter that the loss does not depend on
            dense = tensor(0.0).expand(*p.shape)
        return pw.abs(dense)
