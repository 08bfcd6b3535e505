"""Sparsity algorithms whose masks change during training: gradual pruning (GMP), SET and RigL."""

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

# Annotations need a finite range of steps, and this is beyond the updates of any run.
ENDLESS_LAST_STEP = 100_000
"""The step that counts as the last update step if the update schedule has no end."""


class DynamicSparsityAlgorithm(SparsityAlgorithm):
    """The base class of algorithms that change masks at update steps.

    A subclass computes the new mask in `update_mask`. Optimizer steps count from 1. If the update schedule includes
    step 0, masks are sparse from the start; otherwise they keep all elements until the first update step.

    - `sparsity`: anything that `make_hyperparam_schedule` accepts.
    - `update`: anything that `make_update_schedule` accepts; None means every step.
    """

    def __init__(self, sparsity: Any = None, update: Any = None, **kwargs: Any):
        super().__init__(sparsity, **kwargs)
        self.update_schedule = make_update_schedule(update)
        self.step = tensor(0, dtype=dt.int64)
        # Step 0 precedes the first optimizer step. An update schedule that starts later means dense steps first.
        self.is_update_step = self.starts_sparse = self.update_schedule(tensor(0, dtype=dt.int64))
        self._first_levels: dict[int, Tensor] = {}

    @abstractmethod
    def update_mask(self, p: Tensor, mask: Tensor, sparsity: Tensor) -> Tensor:
        """Return the mask of parameter `p` for the case that this step is an update step.

        `sparsity` is a float32 scalar tensor in 0..1. `mask` is the current mask.
        """

    def first_mask(self, param: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the init method at the level of step 0, or a function that keeps all elements if masks start dense.

        The level is computed at the first call for each schedule. If masks do not start dense, this call also advances
        a list of values by one.
        """
        schedule = self._levels[param]
        # Once for each schedule, because a list of values would otherwise advance once for each parameter.
        if id(schedule) not in self._first_levels:
            self._first_levels[id(schedule)] = self._level(schedule, tensor(0, dtype=dt.int64))
            with grad_mode(False):
                schedule.update(self.starts_sparse)
        if not bool(self.starts_sparse):
            return lambda p: ones(*p.shape, dtype=dt.bool_)
        return functools.partial(self.init_method, sparsity=self._first_levels[id(schedule)])

    def _level(self, schedule: HyperParameterSchedule, step: Tensor) -> Tensor:
        # A linear schedule eventually leaves 0..1, which would give a negative number of elements.
        return pw.clamp(schedule(step), 0.0, 1.0)

    def csx_annotate_sparsity(self, param: SparseParameter) -> None:
        """Annotate `param` with the least, greatest and last level over the update steps, for the compiler.

        If the masks start dense, the least level is 0. Nothing is annotated if the schedule cannot compute its range.
        """
        begin = getattr(self.update_schedule, "start", 0)
        end = getattr(self.update_schedule, "stop", None)
        extent = self._levels[param.param].get_min_max_end(begin, ENDLESS_LAST_STEP if end is None else end)
        if extent is not None:
            low, high, last = extent
            # If the masks start dense, the range begins at 0.
            self._annotate(param, low if bool(self.starts_sparse) else 0.0, high, last)

    def update(self, optimizer: Any = None) -> None:
        """Count a step, and change the masks of the optimizer's parameters if it is an update step.

        The first call is step 1. Parameters without a gradient keep their masks. Weights and optimizer state that a
        mask drops are set to zero. Lists of levels advance in update steps. Hooks are called in every step. Raises
        TypeError if `optimizer` is not a cstorch optimizer.
        """
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"Expected torch.nn.Module or torch.optim.Optimizer, but got {type(optimizer)}"
                "\n  Pass a module or an optimizer."
            )
        with grad_mode(False):
            # Increment first: the first optimizer step is step 1.
            self.step.add_(1)
            self.is_update_step = self.update_schedule(self.step)
            levels = self._current_levels()
            for p in self.get_sparse_params(optimizer):
                if p.param.grad is None:
                    continue
                level = levels[id(self._levels[p.param])]
                new = self.update_mask(p.param, p.mask, level)
                # A traced step cannot branch, so the new mask is computed in every step and then selected. The cost is
                # a sort of all weights in each step, on the wafer as well.
                p.update(pw.where(self.is_update_step, new, p.mask))
            # Set dropped weights to zero. Grown weights are zero already.
            self.prune_all(optimizer)
            # Advance last, so that all parameters of this step used the same value of a list.
            self._advance(self.is_update_step)
        # Measuring the sparsity reads every mask, so it is part of the graph only if there is a hook.
        for p in self.sparse_params.values() if self._computed_hooks else ():
            self._call_hooks(self._computed_hooks, p.name, measure_sparsity(p.mask))

    def _current_levels(self) -> dict[int, Tensor]:
        """Return the level of each schedule at the current step by the schedule's `id`, as scalar tensors.

        The target hooks are called for each schedule with the common name of its parameters and the level.
        """
        levels = {}
        for schedule, parameters in self._levels.schedules():
            level = levels[id(schedule)] = self._level(schedule, self.step)
            names = [self._by_id[id(p)].name for p in parameters]
            self._call_hooks(self._target_hooks, common_name(names), level)
        return levels

    def _advance(self, is_update_step: Tensor) -> None:
        for schedule, _ in self._levels.schedules():
            # The schedule is updated in every step; `is_update_step` decides whether its state changes.
            schedule.update(is_update_step)

    def _stateful(self) -> dict[str, HyperParameterSchedule]:
        """Return the schedules with state, by the name of the last parameter that uses them."""
        return {
            # A schedule has no name, so checkpoints identify it by a parameter.
            self._by_id[id(parameters[-1])].name: schedule
            for schedule, parameters in self._levels.schedules()
            if schedule.state_dict()
        }

    def counters(self) -> dict[str, Tensor]:
        """Return the step (an int64 scalar) and the state of the sparsity schedules by name."""
        counters = {"step": self.step}
        for name, schedule in self._stateful().items():
            counters.update({f"sparsity.{name}.{k}": t for k, t in schedule.state_dict().items()})
        return counters

    def state_dict(self) -> dict[str, Any]:
        """Return the step and the state of the sparsity schedules. The masks are part of the model's state dict."""
        return {"step": self.step, "sparsity": {name: s.state_dict() for name, s in self._stateful().items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state returned by `state_dict`, in place.

        Raises KeyError if the step is missing, or if the state names a parameter whose schedule has no state here.
        Schedules that are missing in the state do not change.
        """
        with grad_mode(False):
            write_values(self.step, as_tensor(state_dict["step"]))
            for name, state in state_dict.get("sparsity", {}).items():
                self._stateful()[name].load_state_dict(state)


def measure_sparsity(mask: Tensor) -> Tensor:
    """Return the fraction of elements that `mask` does not keep, as a float32 scalar tensor."""
    return 1.0 - reduction.mean(pw.cast_to(mask, dt.float32))


class GMP(DynamicSparsityAlgorithm):
    """Gradual magnitude pruning: each update keeps only the weights of largest magnitude, as many as the level allows.

    Raises ValueError if `sparsity` is missing or constant.
    """

    def __init__(self, **kwargs: Any):
        if kwargs.get("sparsity") is None:
            raise ValueError(
                "GMP sparsity algorithm expected `sparsity` to be specified, but got none."
                "\n  Pass sparsity, such as a schedule."
            )
        super().__init__(**kwargs)
        level = self._levels.default
        # A constant level would prune once. The original raises this error and points to static sparsity.
        if isinstance(level, Constant):
            raise ValueError(
                f"Configured with constant sparsity {level.value}. This is not valid, because the sparsity pattern "
                'would not change during training. For a static sparsity pattern, use `algorithm="static".`'
                '\n  Use algorithm="static".'
            )

    def update_mask(self, p: Tensor, mask: Tensor, sparsity: Tensor) -> Tensor:
        """Return a mask of the largest weights of `p` by magnitude, whatever the old mask."""
        # Pruned weights are zero and thus smallest, so the old mask is not needed. Weights are only removed while the
        # level rises (Zhu and Gupta 2017). If it falls, the zeros with the lowest index are kept again.
        return make_mask_topk_sparsity(pw.abs(p.detach()), sparsity)


class _DropAndGrow(DynamicSparsityAlgorithm):
    """The base class of algorithms that drop a fraction of the kept weights, the smallest, and then grow others.

    Growing fills the mask up to the sparsity level. If `drop_fraction` is a list, each update uses the next fraction;
    in the original it stays at the first. Raises ValueError if a constant `drop_fraction` is not in 0..1.
    """

    score_shaper: ScoreShaper | None = None

    def __init__(self, drop_fraction: Any = 0.3, **kwargs: Any):
        super().__init__(**kwargs)
        self.drop_fraction = make_hyperparam_schedule(drop_fraction)
        if isinstance(self.drop_fraction, Constant) and not 0.0 <= self.drop_fraction.value <= 1.0:
            raise ValueError(
                f"Invalid drop_fraction {drop_fraction}. Must be 0.0 <= drop_fraction <= 1.0"
                "\n  Pass a fraction between 0 and 1."
            )

    def grow_score(self, p: Tensor, mask: Tensor) -> Tensor:
        """Return a score for each element of `p`. The elements with the largest scores are grown."""
        raise NotImplementedError(f"{type(self).__name__} does not define grow_score\n  Define it, or use SET or RigL.")

    def update_mask(self, p: Tensor, mask: Tensor, sparsity: Tensor) -> Tensor:
        """Return `mask` without its smallest weights, grown again to the sparsity level.

        The fraction of dropped weights is that of `drop_fraction` at the current step. Where weights grow is decided by
        `grow_score`. A weight that was just dropped may grow again. `p` and `mask` do not change.
        """
        shaper, schedule = self.score_shaper, self.drop_fraction
        fraction = schedule.value if isinstance(schedule, Constant) else schedule(self.step)
        # Dropping and growing are independent, so an update may grow more or fewer weights than it dropped. A weight
        # that was just dropped may grow again at once.
        kept, count = make_mask_drop_minimum(pw.abs(p.detach()), mask, fraction, shaper)
        return make_mask_grow_maximum(self.grow_score(p, kept), kept, sparsity, count, shaper)

    def _advance(self, is_update_step: Tensor) -> None:
        super()._advance(is_update_step)
        self.drop_fraction.update(is_update_step)

    def _stateful(self) -> dict[str, HyperParameterSchedule]:
        own = {"drop_fraction": self.drop_fraction} if self.drop_fraction.state_dict() else {}
        return {**super()._stateful(), **own}


class SET(_DropAndGrow):
    """Sparse evolutionary training: dropped weights grow again at random positions (Mocanu et al. 2018)."""

    def grow_score(self, p: Tensor, mask: Tensor) -> Tensor:
        """Return uniform random float32 numbers in 0..1 with the shape of `p`. `mask` has no effect.

        They come from PyTorch's generator, except in a traced step on CSX. There they depend only on the step number
        and the index of the parameter, so a resumed run continues with the same numbers.
        """
        # The caller ranks kept weights below all others, so random scores choose only among the rest (Mocanu et al.
        # 2018).
        if not is_replayed():
            # As the original on the CPU: draw from PyTorch's generator in each step.
            return rand(size=p.spec.shape, dtype=dt.float32, device=p.device)
        # The numbers depend on the step, which is saved, so a resumed run continues with the same numbers.
        place = list(self._by_id).index(id(p))
        return uniform_at_step(self.step, place, p.spec.shape, p.device)


class RigL(_DropAndGrow):
    """Rigged lottery: dropped weights grow again where the gradient of the dense weight is largest (Evci et al. 2020).

    With `balance_in_groups` or `balance_out_groups`, every group of inputs or outputs keeps the same number of weights.
    Raises ValueError if both are given, and for parameters that cannot be divided into the groups.
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
            raise ValueError(
                "Only one of `balance_in_groups` and `balance_out_groups` can be specified at a time."
                "\n  Omit one of the two."
            )
        if balance_in_groups:
            self.score_shaper = InputGroupScoreShaper(balance_in_groups)
        if balance_out_groups:
            self.score_shaper = OutputGroupScoreShaper(balance_out_groups)
        self._dense_grads: dict[int, Tensor] = {}

    def sparsify_parameter(self, module: Any, name: str, param: Tensor) -> None:
        """Make the parameter `param` of `module` sparse, and register a hook that accumulates its dense gradient.

        The hook is omitted if `param` does not require a gradient or is sparse already. Raises ValueError if the shape
        cannot be divided into the balanced groups.
        """
        if self.score_shaper is not None:
            self.score_shaper(param)
        # Hooks run in the order of registration. This one comes before the hook that masks the gradient.
        if param.requires_grad and id(param) not in self._by_id:
            register_hook(param, functools.partial(self._accumulate_dense_gradient, param))
        super().sparsify_parameter(module, name, param)

    def csx_annotate_sparsity(self, param: SparseParameter) -> None:
        """Annotate `param` with its range of levels, and set its `balanced_groups`.

        These are the numbers of output and input groups, in this order. A number is 1 if there are no such groups.
        """
        super().csx_annotate_sparsity(param)
        param.balanced_groups = self.balance_out_groups or 1, self.balance_in_groups or 1

    def first_mask(self, param: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the function that creates the first mask, balanced within the groups if there are any.

        Each group then keeps the same number of weights. Masks that start dense keep all.
        """
        method = super().first_mask(param)
        if self.score_shaper is None or not isinstance(method, functools.partial):
            return method
        # If the first mask were not balanced, the first update would move weights between groups.
        return functools.partial(method, score_shaper=self.score_shaper)

    def _accumulate_dense_gradient(self, param: Tensor, gradient: Tensor) -> None:
        """Add an unmasked gradient of `param` to the sum of this step, because a step may have several backward passes.

        The sum is kept until `grow_score` removes it.
        """
        # Detach the gradient, whose history would keep the graph of the whole step alive.
        before, dense = self._dense_grads.get(id(param)), gradient.detach()
        self._dense_grads[id(param)] = dense if before is None else before + dense

    def grow_score(self, p: Tensor, mask: Tensor) -> Tensor:
        """Return the magnitude of the dense gradient of this step, with the shape of `p`; zeros without a gradient.

        The stored gradient is removed, so a second call returns zeros. `mask` has no effect.
        """
        # Remove the gradient, so that gradients of different steps do not mix.
        dense = self._dense_grads.pop(id(p), None)
        if dense is None:  # the loss does not depend on the parameter
            dense = tensor(0.0).expand(*p.shape)
        # The gradient of a zero weight shows how much the loss depends on it (Evci et al. 2020).
        return pw.abs(dense)
