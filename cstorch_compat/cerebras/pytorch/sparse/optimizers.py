"""The sparsity API of releases 2.0 and 2.1, in which a sparsity optimizer accompanies the optimizer of the weights.

It uses the algorithms of later releases. Masks are buffers of the model, while the older releases keep them in the
state of the sparsity optimizer.
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
    """The base class of sparsity optimizers, with one algorithm for each parameter group.

    `params` are parameters, or parameter groups with their own settings. `settings` are arguments of the algorithm.
    Call `hook_module` before the first step.
    """

    ALGORITHM: type[SparsityAlgorithm]
    """The class of the algorithm."""

    def __init__(self, params: Iterable[Any], **settings: Any):
        # Settings are defaults of the parameter groups, so each group may override them.
        super().__init__(params, settings)
        self.sparsity = Group()
        for group in self.param_groups:
            # Parameters are matched to groups by identity.
            own = {k: v for k, v in group.items() if k != "params"}
            self.sparsity.add(_make_membership_filter(group["params"]), self.ALGORITHM(**own))

    def preinitialize(self) -> None:
        """Do nothing. The algorithms hold the state."""

    def hook_module(self, module: Module) -> None:
        """Apply the algorithms to `module`, so that its parameters and their gradients are masked."""
        self.sparsity.apply(module)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Prune the parameters, and change the masks if this is an update step.

        Returns the result of `closure`, which is called first if given. Raises RuntimeError if no parameter is sparse
        because `hook_module` was not called.
        """
        if not self.sparsity.num_sparse_params:
            raise RuntimeError(
                "No parameter is sparse yet: call hook_module(model) before the first step"
                "\n  Call hook_module(model) first."
            )
        loss = None if closure is None else closure()
        with grad_mode(False):
            # This optimizer has no weight state. SparsityWrapperOptimizer masks the state of the real optimizer.
            self.sparsity.prune_all(self)
            self.sparsity.update(self)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return the settings of the groups and the state of their algorithms.

        The masks are part of the model's state dict.
        """
        return {**super().state_dict(), "sparsity": self.sparsity.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state returned by `state_dict`."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "sparsity"})
        self.sparsity.load_state_dict(state_dict["sparsity"])


def _make_membership_filter(params: list[Tensor]) -> TensorFilter:
    chosen = {id(p) for p in params}
    return lambda name, param: id(param) in chosen


class StaticSparsityOptimizer(SparsityOptimizer):
    """Static sparsity with the arguments (params, sparsity, init_method="random"). See `Static`."""

    ALGORITHM = Static


class GMPSparsityOptimizer(SparsityOptimizer):
    """Gradual magnitude pruning with the arguments (params, sparsity, update, init_method="random"). See `GMP`."""

    ALGORITHM = GMP


class SETSparsityOptimizer(SparsityOptimizer):
    """Sparse evolutionary training. See `SET`.

    The arguments are (params, sparsity, update, drop_fraction=0.3, init_method="random").
    """

    ALGORITHM = SET


class RigLSparsityOptimizer(SparsityOptimizer):
    """Rigged lottery, with the arguments of SET plus `balance_in_groups` and `balance_out_groups`. See `RigL`."""

    ALGORITHM = RigL


OPTIMIZER_TYPES: dict[str, type[SparsityOptimizer]] = {
    "static": StaticSparsityOptimizer,
    "gmp": GMPSparsityOptimizer,
    "set": SETSparsityOptimizer,
    "rigl": RigLSparsityOptimizer,
}


class SparsityWrapperOptimizer(Optimizer):
    """A wrapper of an optimizer whose step also changes the masks.

    Other attributes are those of the wrapped optimizer.
    """

    # The base class is not initialized, because parameters and state are those of the wrapped optimizer.
    def __init__(self, optimizer: Optimizer, sparsity_optimizer: SparsityOptimizer):
        self.optimizer, self.sparsity_optimizer = optimizer, sparsity_optimizer
        optimizer.apply(sparsity_optimizer.sparsity)

    def __getattr__(self, name: str) -> Any:
        if name == "optimizer":  # the attribute is missing while the object is copied
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def preinitialize(self) -> None:
        """Create the state of the wrapped optimizer."""
        self.optimizer.preinitialize()

    # The step of the wrapped optimizer runs hooks and schedules, so this one must not.
    def _surround(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return step(self, *args, **kwargs)

    def _hooks_of(self, moment: str) -> dict[int, Hook]:
        return self.optimizer._hooks_of(moment)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run one step of the wrapped optimizer, whose hooks mask its state and change the masks."""
        return self.optimizer.step(closure)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the wrapped optimizer, with the state of the algorithms as "sparsity"."""
        return {**self.optimizer.state_dict(), "sparsity": self.sparsity_optimizer.sparsity.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state returned by `state_dict`."""
        self.optimizer.load_state_dict({k: v for k, v in state_dict.items() if k != "sparsity"})
        self.sparsity_optimizer.sparsity.load_state_dict(state_dict["sparsity"])


def configure_sparsity_optimizer(
    sparsity_type: str,
    named_parameters: NamedTensors,
    param_name_patterns: str | list[str] | dict[str, dict[str, Any]] | None = None,
    sparse_param_filter: TensorFilter | None = None,
    **kwargs: Any,
) -> SparsityOptimizer:
    """Return a sparsity optimizer of type "static", "gmp", "set" or "rigl" for some of the parameters.

    - `named_parameters`: pairs of name and parameter.
    - `param_name_patterns`: regular expressions that are searched in the names. The first match counts. A dict maps
      each pattern to the settings of its parameters.
    - `sparse_param_filter`: a function (name, parameter) -> bool. With patterns, it restricts the candidates. Without
      patterns it selects the parameters; the default is that of `sparse.configure`.
    - `kwargs`: arguments of the algorithm.

    Raises ValueError for an unknown type, and if a pattern or the filter selects no parameter.
    """
    kind = OPTIMIZER_TYPES.get(str(sparsity_type).lower())
    if kind is None:
        raise ValueError(
            f"Unsupported sparsity optimizer type {sparsity_type!r}: expected one of {sorted(OPTIMIZER_TYPES)}"
            "\n  Pass one of these names."
        )
    named = list(named_parameters)
    if param_name_patterns is not None:
        return kind(_group_by_pattern(named, param_name_patterns, sparse_param_filter), **kwargs)
    takes: FilterCallable = sparse_param_filter or default_sparse_param_filter
    chosen = [p for name, p in named if takes(name, p)]
    if not chosen:
        raise ValueError(
            f"No parameter passes the filter. The parameters are {[name for name, _ in named]}"
            "\n  Change the filter so that it selects a parameter."
        )
    return kind([{"params": chosen}], **kwargs)


def _group_by_pattern(
    named: list[tuple[str, Tensor]], patterns: Any, extra: TensorFilter | None
) -> list[dict[str, Any]]:
    """Return parameter groups: one for each pattern if `patterns` is a dict, else one for all patterns.

    `patterns` is a regular expression, a list of them, or a dict from them to the settings of their groups. A
    parameter belongs to the first pattern found in its name, and is left out if there is none. If `extra` is
    given, only parameters for which it returns True are candidates. Raises ValueError if a pattern matches no
    remaining parameter.
    """
    listed = [patterns] if isinstance(patterns, str) else list(patterns)
    settings = patterns if isinstance(patterns, dict) else {}
    groups: list[dict[str, Any]] = []
    left = [(name, p) for name, p in named if extra is None or extra(name, p)]
    for pattern in listed:
        # `search`, because a pattern may match any part of a name.
        matches = [(name, p) for name, p in left if re.search(pattern, name)]
        if not matches:
            raise ValueError(
                f"The pattern {pattern!r} matches no parameter. The names are {[name for name, _ in named]}"
                "\n  Change the pattern so that it matches a name."
            )
        matched = {id(p) for _, p in matches}
        # The first match counts, so special patterns must precede general ones.
        left = [(name, p) for name, p in left if id(p) not in matched]
        groups.append({"params": [p for _, p in matches], **(settings.get(pattern) or {})})
    if settings:
        return groups
    # Without settings, all patterns share one group and one algorithm.
    return [{"params": [p for group in groups for p in group["params"]]}]


def configure_sparsity_wrapper(
    model: Module,
    optimizer: Optimizer,
    sparsity_type: str,
    param_name_patterns: str | list[str] | dict[str, dict[str, Any]] | None = None,
    sparse_param_filter: TensorFilter | None = None,
    **kwargs: Any,
) -> SparsityWrapperOptimizer:
    """Make parameters of `model` sparse, and return `optimizer` wrapped with a new sparsity optimizer for them.

    The other arguments, and the errors, are those of `configure_sparsity_optimizer`. The step of the wrapper also
    changes the masks.
    """
    sparsity_optimizer = configure_sparsity_optimizer(
        sparsity_type, model.named_parameters(), param_name_patterns, sparse_param_filter, **kwargs
    )
    sparsity_optimizer.hook_module(model)
    return SparsityWrapperOptimizer(optimizer, sparsity_optimizer)
