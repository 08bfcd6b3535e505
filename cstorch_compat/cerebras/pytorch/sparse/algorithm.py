"""The base class of sparsity algorithms, and static sparsity, whose masks never change."""

import functools
import itertools
import os.path
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.cerebras.pytorch.optim.optimizers import Optimizer
from cstorch_compat.cerebras.pytorch.sparse.init import make_init_method
from cstorch_compat.cerebras.pytorch.sparse.parameter import SparseParameter
from cstorch_compat.cerebras.pytorch.sparse.schedules import Constant, HyperParameterSchedule, make_hyperparam_schedule
from cstorch_compat.files.tree import update_tensors
from cstorch_compat.run import process
from cstorch_compat.run.warnings_at_line import warn
from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core import storage
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.functional.creation import tensor
from lazytensor.nn.module import Module

Hook = Callable[..., Any]
# The index of the next algorithm of the run, which is part of the names of its counters.
_algorithm_numbers = process.RunLocal(itertools.count)


class SparsityLevels(dict[Tensor, HyperParameterSchedule]):
    """A mapping from parameters to their sparsity schedules. A missing parameter gets the schedule `default`.

    Assigned values are converted by `make_hyperparam_schedule`. Reading a missing parameter raises KeyError if
    `default` is None.
    """

    default: HyperParameterSchedule | None = None

    def __missing__(self, p: Tensor) -> HyperParameterSchedule:
        if self.default is None:
            raise KeyError("no sparsity was specified")
        self[p] = self.default
        return self.default

    def __setitem__(self, p: Tensor, value: Any) -> None:
        super().__setitem__(p, make_hyperparam_schedule(value))

    def schedules(self) -> list[tuple[HyperParameterSchedule, list[Tensor]]]:
        """Return each distinct schedule with the list of its parameters, in the order of the parameters.

        Schedules are compared by identity, so equal schedules are listed separately.
        """
        # Compare by identity, because equal schedules may have different state.
        users: dict[int, tuple[HyperParameterSchedule, list[Tensor]]] = {}
        for p, schedule in self.items():
            users.setdefault(id(schedule), (schedule, []))[1].append(p)
        return list(users.values())


def check_constant_level(value: float) -> float:
    """Return `value`, a constant sparsity, as a float. Raises ValueError unless 0 <= value < 1."""
    if not 0.0 <= value < 1.0:
        raise ValueError(
            f"Invalid sparsity level {value}. Must be 0.0 <= s < 1.0\n  Pass a fraction of at least 0 and below 1."
        )
    return float(value)


class SparsityAlgorithm(ABC):
    """The base class of sparsity algorithms.

    A subclass changes masks in `update`, which runs after each optimizer step. Apply an algorithm to a model that
    `cstorch.compile` has prepared, and to its optimizer. Weights, gradients and optimizer state are then masked. The
    masks are created when the loop over a DataExecutor begins. If the script sets `autoupdate = False`, it has to call
    `update` itself.

    `sparsity` is anything that `make_hyperparam_schedule` accepts, and `init_method` anything that `make_init_method`
    accepts.
    """

    def __init__(self, sparsity: Any, init_method: Any = "random"):
        self.number = next(_algorithm_numbers.value)
        self.init_method = make_init_method(init_method)
        self.autoupdate = True
        self.sparse_params: dict[str, SparseParameter] = {}
        # Keyed by identity, because == of tensors compares elements.
        self._by_id: dict[int, SparseParameter] = {}
        self._levels = SparsityLevels()
        self._modules: list[Any] = []
        self._is_waiting = False
        # Weak references, because the hooks of the optimizer already refer to this algorithm.
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._target_hooks: dict[int, Hook] = {}
        self._computed_hooks: dict[int, Hook] = {}
        # Use the setter, which a subclass may override.
        if sparsity is not None:
            self.sparsity = sparsity

    @property
    def sparsity(self) -> Any:
        """Return the mapping from parameters to sparsity schedules. An assigned value applies to all parameters."""
        return self._levels

    @sparsity.setter
    def sparsity(self, value: Any) -> None:
        self._assign_level(value)

    def _assign_level(self, value: Any) -> None:
        """Set the sparsity of all parameters to a schedule made from `value`.

        It replaces levels of single parameters and is also the default for later parameters. Raises ValueError for a
        constant outside of 0 <= s < 1.
        """
        schedule = make_hyperparam_schedule(value)
        if isinstance(schedule, Constant):
            check_constant_level(schedule.value)
        # An assignment replaces levels that were set for single parameters.
        for p in self._levels:
            self._levels[p] = schedule
        self._levels.default = schedule

    @property
    def num_sparse_params(self) -> int:
        """Return the number of sparse parameters."""
        return len(self.sparse_params)

    def get_sparse_params(self, obj: Any) -> Any:
        """Return an iterator over the `SparseParameter` objects of a module or optimizer.

        For a tensor, return its `SparseParameter`, or None if it is not sparse. Raises TypeError for other objects.
        """
        if isinstance(obj, Tensor):
            return self._by_id.get(id(obj))
        if isinstance(obj, Module):
            return self._find_sparse_parameters(obj.parameters())
        if hasattr(obj, "param_groups"):
            return self._find_sparse_parameters(p for group in obj.param_groups for p in group["params"])
        raise TypeError(
            f"Expected torch.nn.Module or torch.optim.Optimizer, but got {type(obj)}\n  Pass a module or an optimizer."
        )

    def _find_sparse_parameters(self, parameters: Any) -> Iterator[SparseParameter]:
        return (self._by_id[id(p)] for p in parameters if id(p) in self._by_id)

    # `Module.apply` of a model that is not prepared calls its argument with each submodule. Parameters would then be
    # reached several times and without their full names.
    def __call__(self, module: Any) -> None:
        raise TypeError(
            f"'{type(self).__name__}' object is not callable: prepare the model by cstorch.compile(model, backend) "
            "before `model.apply(sparsity)`"
            "\n  Call cstorch.compile(model, backend) first."
        )

    def apply(self, obj: Any) -> None:
        """Make the parameters of a module, or the state of a cstorch optimizer, sparse.

        Raises TypeError for other objects.
        """
        if isinstance(obj, Module):
            self.sparsify_module(obj)
        elif isinstance(obj, Optimizer):
            self.sparsify_optimizer(obj)
        else:
            raise TypeError(
                f"Expected torch.nn.Module or cstorch.optim.Optimizer, but got {type(obj)}"
                "\n  Pass a module or an optimizer of cstorch."
            )

    def sparsify_module(self, module: Module) -> None:
        """Make the parameters of `module` sparse, except those with the attribute `requires_dense = True`.

        A hook then prunes the parameters before each forward pass. Masks are created when the next loop begins. If no
        parameter is sparse afterwards, or the module is sparse already, it only issues a warning.
        """
        # Applying twice would register the hooks twice and prune with two sets of masks.
        if any(m is module for m in self._modules) or "_sparsified" in module.__dict__:
            warn(f"Module {module} has already been sparsified.")
            return
        before = self.num_sparse_params
        for owner_path, owner in module.named_modules():
            # A list, because sparsify_parameter registers a buffer in the module that is being iterated.
            for name, p in list(owner.named_parameters(recurse=False)):
                # The attribute is the documented way to keep a parameter dense. It takes precedence over filters.
                if not getattr(p, "requires_dense", False):
                    self.sparsify_parameter(owner, f"{owner_path}.{name}" if owner_path else name, p)
        if self.num_sparse_params == before:
            warn(f"No parameters were sparsified in module {module}: no name passes the filters")
            return
        module.__dict__["_sparsified"] = True
        self._modules.append(module)
        # Prune before each forward pass, because a script may write to weights between steps, and a mask may have
        # changed after the last step.
        module.register_forward_pre_hook(self._prune_module)
        self._initialize_before_loop()

    def _initialize_before_loop(self) -> None:
        """Register `initialize` to be called when the next loop begins, and the counters as state of the run.

        Later calls have no effect.
        """
        if not self._is_waiting:
            self._is_waiting = True
            self.name_state(f"sparsity.{self.number}")
            # Masks are not created yet, because weights may be initialized or loaded after `apply`. A checkpoint may
            # also contain the masks.
            process.current_backend().before_loop.append(self.initialize)

    def sparsify_parameter(self, module: Any, name: str, param: Tensor) -> None:
        """Make the parameter `param` of `module` sparse. `name` is its full name.

        A parameter that is sparse already is skipped. Raises ValueError if there is no sparsity level for it.
        """
        # A tied parameter occurs under several names; the first one is used.
        if id(param) in self._by_id:
            return
        if self._levels.default is None and param not in self._levels:
            raise ValueError(
                f"{type(self).__name__} sparsity algorithm expected `sparsity` to be specified, but got none."
                "\n  Pass sparsity, such as sparsity=0.8."
            )
        sparse_param = SparseParameter(module, name, self.first_mask(param))
        self._take(sparse_param)
        self.csx_annotate_sparsity(sparse_param)

    def _take(self, sparse_param: SparseParameter) -> None:
        self.sparse_params[sparse_param.name] = sparse_param
        self._by_id[id(sparse_param.param)] = sparse_param

    def first_mask(self, param: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the function that creates the first mask of `param`: the init method at the level of step 0."""
        return functools.partial(self.init_method, sparsity=self._levels[param](tensor(0)))

    def csx_annotate_sparsity(self, param: SparseParameter) -> None:  # noqa: B027 - nothing is known of every algorithm
        """Annotate `param` with its range of sparsity levels, for the compiler. The default does nothing."""

    def _annotate(self, param: SparseParameter, low: float, high: float, last: float) -> None:
        # The names that the vendor's front end prints with the state.
        for name, value in (("max_sparsity", high), ("min_sparsity", low), ("sparsity", last)):
            param.annotate(name, value)

    def initialize(self) -> None:
        """Create the masks that do not exist yet."""
        for p in self.sparse_params.values():
            p.initialize()

    def _prune_module(self, module: Any, args: Any) -> None:
        for p in self.get_sparse_params(module):
            self.prune_weight(p)

    def prune_weight(self, sparse_param: SparseParameter) -> None:
        """Set the elements of a parameter to zero where its mask is False."""
        sparse_param.prune()

    def sparsify_optimizer(self, optimizer: Any) -> None:
        """Register hooks that mask the state of `optimizer` and update the masks after each of its steps.

        The model may be made sparse later. A second call with the same optimizer has no effect.
        """
        if optimizer in self._optimizers:
            return
        self._optimizers.add(optimizer)
        # Prune the state before a step too. Momentum from a checkpoint could otherwise change weights that must stay
        # zero.
        optimizer.register_step_pre_hook(lambda o, *_: self._prune_states(o))
        optimizer.register_step_post_hook(lambda o, *_: self._after_step(o))
        # A step that overflowed also restores the masks and counters of its followers.
        optimizer.followers.append(self)

    def _after_step(self, optimizer: Any) -> None:
        with grad_mode(False):
            # Prune first, because weight decay and momentum write to all elements. `update` then orders weights of
            # which the masked ones are zero.
            self.prune_all(optimizer)
            if self.autoupdate:
                self.update(optimizer)

    def prune_all(self, optimizer: Any) -> None:
        """Set the parameters of `optimizer` and its state to zero where their masks are False."""
        for p in self.get_sparse_params(optimizer):
            self.prune_weight(p)
        self._prune_states(optimizer)

    def _prune_states(self, optimizer: Any) -> None:
        """Set the optimizer state that has a parameter's shape to zero where the parameter's mask is False."""
        for p in self.get_sparse_params(optimizer):
            for name, value in optimizer.state.setdefault(p.param, {}).items():
                # Compare shapes, because scalars such as beta1_power and the factored moments of Adafactor have no
                # elements to mask.
                if isinstance(value, Tensor) and value.shape == p.param.shape:
                    p.prune(value, f"{p.name}.{name}")

    @abstractmethod
    def update(self, optimizer: Any = None) -> None:
        """Change the masks if this is an update step."""

    def counters(self) -> dict[str, Tensor]:
        """Return the state tensors of the algorithm other than masks, by name."""
        return {}

    def name_state(self, prefix: str) -> None:
        """Register the counters as state of the run, under names that begin with `prefix`."""
        for name, counter in self.counters().items():
            # A Python counter would be a constant of the traced step.
            counter.device = process.state_device()
            storage.register(counter.cell, f"{prefix}.{name}")

    def state_tensors(self) -> list[Tensor]:
        """Return all tensors that an optimizer step changes in this algorithm: masks and counters."""
        return [*(p.mask for p in self.sparse_params.values()), *self.counters().values()]

    def visit_state(self, f: Callable[[Tensor], Tensor | None]) -> None:
        """Call `f` with every counter. If it returns a tensor, copy that tensor's values into the counter."""
        update_tensors(self.counters().values(), f)

    def state_dict(self) -> Any:
        """Return the counters by name. The masks are part of the model's state dict."""
        return {}

    def load_state_dict(self, state_dict: Any) -> None:
        """Accept the empty state of an algorithm without state. Raises ValueError for any other state."""
        if state_dict:
            raise ValueError(
                f"{type(self).__name__} has no state, but got a state with the keys {list(state_dict)}"
                "\n  Load the state into the algorithm that it was saved from."
            )

    def register_target_sparsity_hook(self, hook: Hook) -> Any:
        """Register `hook(algorithm, name, sparsity)`, called at each update once for each sparsity schedule.

        `name` is the common prefix of the names of the schedule's parameters, followed by "*". Returns a handle with
        `remove()`.
        """
        return RemovableHandle(self._target_hooks, hook)

    def register_computed_sparsity_hook(self, hook: Hook) -> Any:
        """Register `hook(algorithm, name, sparsity)`, called at each update with the measured sparsity of each mask.

        `name` is the name of the parameter. Returns a handle with `remove()`.
        """
        return RemovableHandle(self._computed_hooks, hook)

    def _call_hooks(self, hooks: dict[int, Hook], name: str, sparsity: Any) -> None:
        for hook in list(hooks.values()):
            hook(self, name, sparsity)


def common_name(names: list[str]) -> str:
    """Return the common prefix of `names`, followed by "*"."""
    # Hooks write summaries, one curve for each schedule instead of each parameter.
    return os.path.commonprefix(names) + "*"  # noqa: RUF071 - names are no paths


class Static(SparsityAlgorithm):
    """Static sparsity: masks that are created once and never change.

    Raises ValueError if the sparsity is not a constant with 0 <= s < 1.

    >>> import torch, cerebras.pytorch as cstorch
    >>> layer = torch.nn.Linear(4, 4)
    >>> model = cstorch.compile(layer, cstorch.backend("CPU"))
    >>> _ = model.apply(cstorch.sparse.Static(sparsity=0.25))
    >>> int((layer.weight == 0).sum())
    0
    """

    def __init__(self, sparsity: float | None = None, **kwargs: Any):
        super().__init__(sparsity, **kwargs)

    def _assign_level(self, value: Any) -> None:
        if isinstance(value, Constant):
            value = value.value
        # bool is a subclass of int, but not a sparsity.
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(
                'Static sparsity algorithm only supports constant sparsity\n  Pass a number, or use algorithm="gmp".'
            )
        super()._assign_level(value)

    def csx_annotate_sparsity(self, param: SparseParameter) -> None:
        """Annotate `param` with its constant sparsity, for the compiler."""
        level = float(self._levels[param.param](0))
        self._annotate(param, level, level, level)

    def update(self, optimizer: Any = None) -> None:
        """Call the hooks with the name "*" and the sparsity, if the sparsity of all parameters is one constant.

        The masks do not change. With other levels nothing is called.
        """
        level = self._levels.default
        if isinstance(level, Constant):
            for hooks in (self._target_hooks, self._computed_hooks):
                self._call_hooks(hooks, "*", level.value)
