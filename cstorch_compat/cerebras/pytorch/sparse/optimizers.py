"""Sparsity of releases 2.0 and 2.1: optimizers of sparsity beside the optimizer of the weights.

They drive the algorithms of the later releases. Masks are buffers of the model as there, where the older releases kept
them in the state of the sparsity optimizer.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from cstorch_compat.cerebras.pytorch.optim.optimizers import Hook, Optimizer
from cstorch_compat.cerebras.pytorch.sparse.algorithm import SparsityAlgorithm, Static
from cstorch_compat.cerebras.pytorch.sparse.dynamic import GMP, SET, RigL
from cstorch_compat.cerebras.pytorch.sparse.group import Group, default_sparse_param_filter
from cstorch_compat.run.param_filter import FilterCallable
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.nn.module import Module

NamedTensors = Iterable[tuple[str, Tensor]]
TensorFilter = Callable[[str, Tensor], bool]


class SparsityOptimizer(Optimizer):
    """Base of sparsity optimizers: parameters (or groups of them with settings of their own) and an algorithm for each
    group. `hook_module` has to be called before the first step.
    """

    ALGORITHM: type[SparsityAlgorithm]

    def __init__(self, params: Iterable[Any], **settings: Any):
        # Settings are defaults of param groups, so that each group may have its own level and schedule.
        super().__init__(params, settings)
        self.sparsity = Group()
        for group in self.param_groups:
            # One algorithm for each group of parameters, told apart by identity; within the step they act as one
            # group.
            own = {k: v for k, v in group.items() if k != "params"}
            self.sparsity.add(_make_membership_filter(group["params"]), self.ALGORITHM(**own))

    def preinitialize(self) -> None:
        """Make no state: the algorithms have it."""

    def hook_module(self, module: Module) -> None:
        """Let the forward pass of a module and its gradients see sparse parameters."""
        self.sparsity.apply(module)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the masks if it is time to. Raises RuntimeError before `hook_module` was called."""
        # Nothing is sparse without the module, whose forward pass has to see the masks.
        if not self.sparsity.num_sparse_params:
            raise RuntimeError("No parameter is sparse yet: call hook_module(model) before the first step")
        loss = None if closure is None else closure()
        with grad_mode(False):
            # This optimizer has no state of weights; the wrapper below masks that of the real one.
            self.sparsity.prune_all(self)
            self.sparsity.update(self)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Settings of the groups, and the state of their algorithms. The masks are in the state dict of the model."""
        return {**super().state_dict(), "sparsity": self.sparsity.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "sparsity"})
        self.sparsity.load_state_dict(state_dict["sparsity"])


def _make_membership_filter(params: list[Tensor]) -> TensorFilter:
    chosen = {id(p) for p in params}
    return lambda name, param: id(param) in chosen


class StaticSparsityOptimizer(SparsityOptimizer):
    """Masks that are made once: (params, sparsity, init_method="random")."""

    ALGORITHM = Static


class GMPSparsityOptimizer(SparsityOptimizer):
    """Gradual magnitude pruning: (params, sparsity, update, init_method="random")."""

    ALGORITHM = GMP


class SETSparsityOptimizer(SparsityOptimizer):
    """Sparse evolutionary training: (params, sparsity, update, drop_fraction=0.3, init_method="random")."""

    ALGORITHM = SET


class RigLSparsityOptimizer(SparsityOptimizer):
    """Regrowth by gradients: as SET, with balance_in_groups and balance_out_groups."""

    ALGORITHM = RigL


OPTIMIZER_TYPES: dict[str, type[SparsityOptimizer]] = {
    "static": StaticSparsityOptimizer,
    "gmp": GMPSparsityOptimizer,
    "set": SETSparsityOptimizer,
    "rigl": RigLSparsityOptimizer,
}


class SparsityWrapperOptimizer(Optimizer):
    """Takes the place of an optimizer: a step of it changes the masks too. All else is the optimizer's own."""

    # The base's __init__ is not called: there are no parameters or state here but the optimizer's own.
    def __init__(self, optimizer: Optimizer, sparsity_optimizer: SparsityOptimizer):
        self.optimizer, self.sparsity_optimizer = optimizer, sparsity_optimizer
        optimizer.apply(sparsity_optimizer.sparsity)

    def __getattr__(self, name: str) -> Any:
        if name == "optimizer":  # asked for before it is there, as when copying
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def preinitialize(self) -> None:
        """Make the state of the optimizer."""
        self.optimizer.preinitialize()

    # No hooks and schedules of its own either: the inner step has them.
    def _surround(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return step(self, *args, **kwargs)

    def _hooks_of(self, moment: str) -> dict[int, Hook]:
        return self.optimizer._hooks_of(moment)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of the optimizer, whose hooks mask its state and change the masks."""
        return self.optimizer.step(closure)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, and the state of the algorithms."""
        return {**self.optimizer.state_dict(), "sparsity": self.sparsity_optimizer.sparsity.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.optimizer.load_state_dict({k: v for k, v in state_dict.items() if k != "sparsity"})
        self.sparsity_optimizer.sparsity.load_state_dict(state_dict["sparsity"])


def configure_sparsity_optimizer(
    sparsity_type: str,
    named_parameters: NamedTensors,
    param_name_patterns: str | list[str] | dict[str, dict[str, Any]] | None = None,
    sparse_param_filter: TensorFilter | None = None,
    **kwargs: Any,
) -> SparsityOptimizer:
    """A sparsity optimizer of a type ("static", "gmp", "set", "rigl") for some of the parameters.

    Patterns are regular expressions that are searched in the names; a dict gives each its own settings. Without them
    the filter decides, by default that of `sparse.configure`. Raises ValueError for an unknown type, and for a
    pattern that takes no parameter.
    """
    kind = OPTIMIZER_TYPES.get(str(sparsity_type).lower())
    if kind is None:
        raise ValueError(
            f"Unsupported sparsity optimizer type {sparsity_type!r}: expected one of {sorted(OPTIMIZER_TYPES)}"
        )
    named = list(named_parameters)
    if param_name_patterns is not None:
        return kind(_group_by_pattern(named, param_name_patterns, sparse_param_filter), **kwargs)
    takes: FilterCallable = sparse_param_filter or default_sparse_param_filter
    chosen = [p for name, p in named if takes(name, p)]
    if not chosen:
        raise ValueError(f"No parameter passes the filter. The parameters are {[name for name, _ in named]}")
    return kind([{"params": chosen}], **kwargs)


def _group_by_pattern(
    named: list[tuple[str, Tensor]], patterns: Any, extra: TensorFilter | None
) -> list[dict[str, Any]]:
    """One group of parameters for each pattern that has settings, or for all of them; the first match counts."""
    listed = [patterns] if isinstance(patterns, str) else list(patterns)
    settings = patterns if isinstance(patterns, dict) else {}
    groups: list[dict[str, Any]] = []
    left = [(name, p) for name, p in named if extra is None or extra(name, p)]
    for pattern in listed:
        # `search`, not `match`: a pattern may be any part of a name.
        matches = [(name, p) for name, p in left if re.search(pattern, name)]
        if not matches:
            raise ValueError(f"The pattern {pattern!r} takes no parameter. The names are {[name for name, _ in named]}")
        matched = {id(p) for _, p in matches}
        # The first pattern takes a parameter for good, so that special patterns stand before general ones.
        left = [(name, p) for name, p in left if id(p) not in matched]
        groups.append({"params": [p for _, p in matches], **(settings.get(pattern) or {})})
    if settings:
        return groups
    # Without settings of their own all patterns together are one group, hence one algorithm.
    return [{"params": [p for group in groups for p in group["params"]]}]


def configure_sparsity_wrapper(
    model: Module,
    optimizer: Optimizer,
    sparsity_type: str,
    param_name_patterns: str | list[str] | dict[str, dict[str, Any]] | None = None,
    sparse_param_filter: TensorFilter | None = None,
    **kwargs: Any,
) -> SparsityWrapperOptimizer:
    """The three steps in one: a sparsity optimizer for the model's parameters, its hooks, and the wrapper."""
    sparsity_optimizer = configure_sparsity_optimizer(
        sparsity_type, model.named_parameters(), param_name_patterns, sparse_param_filter, **kwargs
    )
    sparsity_optimizer.hook_module(model)
    return SparsityWrapperOptimizer(optimizer, sparsity_optimizer)
