"""Algorithms whose masks change while a model trains: gradual pruning, SET and RigL."""

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from cstorch_compat.cerebras.pytorch.optim.optimizers import Optimizer
from cstorch_compat.cerebras.pytorch.sparse.algorithm import SparsityAlgorithm, common_name
from cstorch_compat.cerebras.pytorch.sparse.masks import (
    InputGroupScoreShaper,
    OutputGroupScoreShaper,
    ScoreShaper,
    make_mask_drop_minimum,
    make_mask_grow_maximum,
    make_mask_topk_sparsity,
)
from cstorch_compat.cerebras.pytorch.sparse.parameter import SparseParameter
from cstorch_compat.cerebras.pytorch.sparse.schedules import (
    Constant,
    HyperParameterSchedule,
    make_hyperparam_schedule,
    make_update_schedule,
)
from lazytensor.autograd.hooks import register_hook
from lazytensor.core import dtype as dt
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction
from lazytensor.functional.creation import as_tensor, ones, rand, tensor
from lazytensor.functional.in_place import write_values
from lazytensor.functional.random_state import is_replayed, uniform_at_step

# Far beyond the updates of any run: the compiler is told a range, and a range has an end.
ENDLESS_LAST_STEP = 100_000
"""The step that counts as the last one where updates have no end."""


class DynamicSparsityAlgorithm(SparsityAlgorithm):
    """Base of algorithms that change masks at update steps. A subclass gives the new mask in `update_mask`.

    Steps are counted by the optimizer's, from 1. Masks start sparse if step 0 is an update step, else they keep all.
    """

    def __init__(self, sparsity: Any = None, update: Any = None, **kwargs: Any):
        super().__init__(sparsity, **kwargs)
        self.update_schedule = make_update_schedule(update)
        self.step = tensor(0, dtype=dt.int64)
        # Step 0 is before the first step of the optimizer: whether the model begins sparse is the schedule's answer
        # for it, so an update schedule with a later start means some dense steps first.
        self.is_update_step = self.starts_sparse = self.update_schedule(tensor(0, dtype=dt.int64))
        self._first_levels: dict[int, Tensor] = {}

    @abstractmethod
    def update_mask(self, p: Tensor, mask: Tensor, sparsity: Tensor) -> Tensor:
        """The new mask of a parameter, should this be an update step; the sparsity is float32[] in 0..1."""

    def first_mask(self, param: Tensor) -> Callable[[Tensor], Tensor]:
        """The init method at the level of step 0, or a mask that keeps everything."""
        schedule = self._levels[param]
        # Once for a schedule and not for each of its parameters, or a list of values would be used up by the number
        # of parameters.
        if id(schedule) not in self._first_levels:
            self._first_levels[id(schedule)] = self._level(schedule, tensor(0, dtype=dt.int64))
            with grad_mode(False):
                schedule.update(self.starts_sparse)
        if not bool(self.starts_sparse):
            return lambda p: ones(*p.shape, dtype=dt.bool_)
        return functools.partial(self.init_method, sparsity=self._first_levels[id(schedule)])

    def _level(self, schedule: HyperParameterSchedule, step: Tensor) -> Tensor:
        # A straight line leaves 0..1 sooner or later, and a level beyond would ask for a negative number of elements.
        return pw.clamp(schedule(step), 0.0, 1.0)

    def csx_annotate_sparsity(self, param: SparseParameter) -> None:
        """Tell the compiler the range of levels over the update steps, as far as the schedule knows it."""
        begin = getattr(self.update_schedule, "start", 0)
        end = getattr(self.update_schedule, "stop", None)
        extent = self._levels[param.param].get_min_max_end(begin, ENDLESS_LAST_STEP if end is None else end)
        if extent is not None:
            low, high, last = extent
            # Dense first means that the range begins at 0, whatever the schedule says of its update steps.
            self._annotate(param, low if bool(self.starts_sparse) else 0.0, high, last)

    def update(self, optimizer: Any = None) -> None:
        """Count a step, and change the masks of the optimizer's parameters if it is an update step.

        Parameters without a gradient keep their masks. Raises TypeError for what is no cstorch optimizer.
        """
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"Expected torch.nn.Module or torch.optim.Optimizer, but got {type(optimizer)}")
        with grad_mode(False):
            # Counted before it is asked about: the first step of the optimizer is step 1.
            self.step.add_(1)
            self.is_update_step = self.update_schedule(self.step)
            levels = self._current_levels()
            for p in self.get_sparse_params(optimizer):
                # Frozen, or not used in the step.
                if p.param.grad is None:
                    continue
                level = levels[id(self._levels[p.param])]
                new = self.update_mask(p.param, p.mask, level)
                # Both masks are computed in every step and one is chosen, since a traced step has no branches. The
                # ordering of all weights is the price, on the wafer as well.
                p.update(pw.where(self.is_update_step, new, p.mask))
            # Weights that the new mask dropped go to zero now; those that it grew are zero already and begin there.
            self.prune_all(optimizer)
            # Last, so that all parameters of this step saw the same value of a list.
            self._advance(self.is_update_step)
        # The measured sparsity reads every mask, so it is part of the graph only where somebody asks.
        for p in self.sparse_params.values() if self._computed_hooks else ():
            self._call_hooks(self._computed_hooks, p.name, measure_sparsity(p.mask))

    def _current_levels(self) -> dict[int, Tensor]:
        """The level of each schedule, which the target hooks are told."""
        levels = {}
        for schedule, parameters in self._levels.schedules():
            level = levels[id(schedule)] = self._level(schedule, self.step)
            names = [self._by_id[id(p)].name for p in parameters]
            self._call_hooks(self._target_hooks, common_name(names), level)
        return levels

    def _advance(self, is_update_step: Tensor) -> None:
        for schedule, _ in self._levels.schedules():
            # Told of every step, with a tensor that says whether it counts.
            schedule.update(is_update_step)

    def _stateful(self) -> dict[str, HyperParameterSchedule]:
        """The schedules that have state, by the name of the last parameter they are for."""
        return {
            # A schedule has no name of its own, so that of a parameter stands for it in checkpoints.
            self._by_id[id(parameters[-1])].name: schedule
            for schedule, parameters in self._levels.schedules()
            if schedule.state_dict()
        }

    def counters(self) -> dict[str, Tensor]:
        """The step, int64[], and what schedules carry from step to step."""
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
            # `step` and the state of schedules; the masks came with the model, in which they are buffers.
            write_values(self.step, as_tensor(state_dict["step"]))
            for name, state in state_dict.get("sparsity", {}).items():
                self._stateful()[name].load_state_dict(state)


def measure_sparsity(mask: Tensor) -> Tensor:
    """The share of elements that a mask does not keep: float32[]."""
    return 1.0 - reduction.mean(pw.cast_to(mask, dt.float32))


class GMP(DynamicSparsityAlgorithm):
    """Gradual magnitude pruning: at each update the smallest weights go, up to the level of the schedule.

    Raises ValueError for a level that never changes, and for none.
    """

    def __init__(self, **kwargs: Any):
        if kwargs.get("sparsity") is None:
            raise ValueError("GMP sparsity algorithm expected `sparsity` to be specified, but got none.")
        super().__init__(**kwargs)
        level = self._levels.default
        # A constant level prunes once; the original refuses it and points to static sparsity.
        if isinstance(level, Constant):
            raise ValueError(
                f"Configured with constant sparsity {level.value}. This is not valid, because the sparsity pattern "
                'would not change during training. For a static sparsity pattern, use `algorithm="static".`'
            )

    def update_mask(self, p: Tensor, mask: Tensor, sparsity: Tensor) -> Tensor:
        """bool of p's shape: the weights of largest magnitude, whatever the old mask."""
        # The old mask does not matter: what is pruned is zero and smallest. Weights only ever leave while the level
        # rises (Zhu and Gupta 2017); should it fall, the zeros of lowest index come back.
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
        """bool of p's shape: the old mask without its smallest weights, grown to the level."""
        shaper, schedule = self.score_shaper, self.drop_fraction
        fraction = schedule.value if isinstance(schedule, Constant) else schedule(self.step)
        # First drop, then grow to the level: drop fraction and level are independent, so one update may grow more
        # or fewer weights than it dropped. A weight that was just dropped may grow again at once.
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
        """Random numbers in 0..1, of p's shape."""
        # Kept weights are put below all others by the caller, so that random scores choose among the rest alone
        # (Mocanu et al. 2018).
        if not is_replayed():
            # As the original does on the CPU: a draw of each step from the generator of PyTorch.
            return rand(size=p.spec.shape, dtype=dt.float32, device=p.device)
        # By the step, which is saved: a run that is resumed goes on with the numbers that it would have drawn.
        place = list(self._by_id).index(id(p))
        return uniform_at_step(self.step, place, p.spec.shape, p.device)


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
        # Hung on before the base's hook, which masks the gradient: hooks run in the order in which they were
        # registered, and this one has to see the dense gradient.
        if param.requires_grad and id(param) not in self._by_id:
            register_hook(param, functools.partial(self._accumulate_dense_gradient, param))
        super().sparsify_parameter(module, name, param)

    def csx_annotate_sparsity(self, param: SparseParameter) -> None:
        """The same, and which groups have as many weights as the others."""
        super().csx_annotate_sparsity(param)
        param.balanced_groups = self.balance_out_groups or 1, self.balance_in_groups or 1

    def first_mask(self, param: Tensor) -> Callable[[Tensor], Tensor]:
        """The same, balanced in groups where those of the updates are."""
        method = super().first_mask(param)
        if self.score_shaper is None or not isinstance(method, functools.partial):
            return method
        # The first mask is balanced in groups as well, else the first update would move weights between groups.
        return functools.partial(method, score_shaper=self.score_shaper)

    def _accumulate_dense_gradient(self, param: Tensor, gradient: Tensor) -> None:
        """Add a gradient that is not masked yet; a step may have several backward passes."""
        # Without its history, which would hold the graph of the whole step.
        before, dense = self._dense_grads.get(id(param)), gradient.detach()
        self._dense_grads[id(param)] = dense if before is None else before + dense

    def grow_score(self, p: Tensor, mask: Tensor) -> Tensor:
        """The magnitude of the dense gradient of this step, of p's shape."""
        # Taken out, so that the gradients of a step do not mix with those of the next one.
        dense = self._dense_grads.pop(id(p), None)
        if dense is None:  # a parameter that the loss does not depend on
            dense = tensor(0.0).expand(*p.shape)
        # Magnitudes of what the loss says of weights that are zero now (Evci et al. 2020).
        return pw.abs(dense)
