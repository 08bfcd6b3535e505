"""Sparsity algorithms: what they have in common, and the one whose masks never change."""

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
# Each algorithm of a run has a number, under which its counters stand among the state.
_algorithm_numbers = process.RunLocal(itertools.count)


class SparsityLevels(dict[Tensor, HyperParameterSchedule]):
    """Schedule of sparsity by parameter; one that has none of its own has the algorithm's."""

    default: HyperParameterSchedule | None = None

    def __missing__(self, p: Tensor) -> HyperParameterSchedule:
        if self.default is None:
            raise KeyError("no sparsity was specified")
        self[p] = self.default
        return self.default

    # Every value that is assigned goes through here, so that `algorithm.sparsity[p] = 0.5` and a dict of settings
    # mean the same.
    def __setitem__(self, p: Tensor, value: Any) -> None:
        super().__setitem__(p, make_hyperparam_schedule(value))

    def schedules(self) -> list[tuple[HyperParameterSchedule, list[Tensor]]]:
        """Each schedule once, with its parameters."""
        # By identity, since two schedules of equal settings are advanced separately and may have state.
        users: dict[int, tuple[HyperParameterSchedule, list[Tensor]]] = {}
        for p, schedule in self.items():
            users.setdefault(id(schedule), (schedule, []))[1].append(p)
        return list(users.values())


def check_constant_level(value: float) -> float:
    """A sparsity that does not change. Raises ValueError unless it is at least 0 and below 1."""
    if not 0.0 <= value < 1.0:
        raise ValueError(f"Invalid sparsity level {value}. Must be 0.0 <= s < 1.0")
    return float(value)


class SparsityAlgorithm(ABC):
    """Base of algorithms. A subclass changes masks in `update`, which each step of the optimizer calls.

    Apply it to a model that `cstorch.compile` has prepared, and to its optimizer. Forward, gradients and optimizer
    state are then masked; the masks are made when the loop over a DataExecutor begins. `autoupdate = False` leaves
    calling `update` to the script.
    """

    def __init__(self, sparsity: Any, init_method: Any = "random"):
        self.number = next(_algorithm_numbers.value)
        self.init_method = make_init_method(init_method)
        self.autoupdate = True
        self.sparse_params: dict[str, SparseParameter] = {}
        # By identity: `==` of tensors compares their elements.
        self._by_id: dict[int, SparseParameter] = {}
        self._levels = SparsityLevels()
        self._modules: list[Any] = []
        self._is_waiting = False
        # Weak, because the optimizer already holds this algorithm by its hooks.
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._target_hooks: dict[int, Hook] = {}
        self._computed_hooks: dict[int, Hook] = {}
        # Through the setter, which a subclass may have made stricter.
        if sparsity is not None:
            self.sparsity = sparsity

    @property
    def sparsity(self) -> Any:
        """Schedule of sparsity by parameter. A value that is assigned holds for all of them."""
        return self._levels

    @sparsity.setter
    def sparsity(self, value: Any) -> None:
        self._assign_level(value)

    def _assign_level(self, value: Any) -> None:
        schedule = make_hyperparam_schedule(value)
        if isinstance(schedule, Constant):
            check_constant_level(schedule.value)
        # Assigned over: levels that single parameters were given before end here.
        for p in self._levels:
            self._levels[p] = schedule
        self._levels.default = schedule

    @property
    def num_sparse_params(self) -> int:
        """How many parameters are sparse."""
        return len(self.sparse_params)

    def get_sparse_params(self, obj: Any) -> Any:
        """The sparse parameters of a module or an optimizer; of a tensor its own, or None.

        Raises TypeError for anything else.
        """
        if isinstance(obj, Tensor):
            return self._by_id.get(id(obj))
        if isinstance(obj, Module):
            return self._find_sparse_parameters(obj.parameters())
        if hasattr(obj, "param_groups"):
            return self._find_sparse_parameters(p for group in obj.param_groups for p in group["params"])
        raise TypeError(f"Expected torch.nn.Module or torch.optim.Optimizer, but got {type(obj)}")

    def _find_sparse_parameters(self, parameters: Any) -> Iterator[SparseParameter]:
        return (self._by_id[id(p)] for p in parameters if id(p) in self._by_id)

    # `Module.apply` calls its argument with each submodule, unless the model is prepared and knows of sparsity;
    # then a parameter would be reached several times and without its full name.
    def __call__(self, module: Any) -> None:
        raise TypeError(
            f"'{type(self).__name__}' object is not callable: `model.apply(sparsity)` is for a model that "
            "cstorch.compile(model, backend) has prepared"
        )

    def apply(self, obj: Any) -> None:
        """Make a module or a cstorch optimizer sparse. Raises TypeError for anything else."""
        if isinstance(obj, Module):
            self.sparsify_module(obj)
        elif isinstance(obj, Optimizer):
            self.sparsify_optimizer(obj)
        else:
            raise TypeError(f"Expected torch.nn.Module or cstorch.optim.Optimizer, but got {type(obj)}")

    def sparsify_module(self, module: Module) -> None:
        """Make the parameters of a module sparse, save those with `requires_dense = True`. Warns if there are none."""
        # Applying twice would hang the hooks on twice and prune by two sets of masks.
        if any(m is module for m in self._modules) or "_sparsified" in module.__dict__:
            warn(f"Module {module} has already been sparsified.")
            return
        before = self.num_sparse_params
        for owner_path, owner in module.named_modules():
            # A list, since the mask becomes a buffer of the module that is being walked through.
            for name, p in list(owner.named_parameters(recurse=False)):
                # The attribute is the documented way to keep a parameter dense; it goes before every filter.
                if not getattr(p, "requires_dense", False):
                    self.sparsify_parameter(owner, f"{owner_path}.{name}" if owner_path else name, p)
        if self.num_sparse_params == before:
            warn(f"No parameters were sparsified in module {module}: no name passes the filters")
            return
        module.__dict__["_sparsified"] = True
        self._modules.append(module)
        # Before each forward pass, since a script may write to weights between steps, and a mask may have changed
        # after the last one.
        module.register_forward_pre_hook(self._prune_module)
        self._initialize_before_loop()

    def _initialize_before_loop(self) -> None:
        """Have the masks made when the next loop begins."""
        if not self._is_waiting:
            self._is_waiting = True
            self.name_state(f"sparsity.{self.number}")
            # Not at once: weights may still be initialized or loaded after `apply`, and masks by magnitude would be
            # those of the wrong weights. A checkpoint may bring the masks themselves.
            process.current_backend().before_loop.append(self.initialize)

    def sparsify_parameter(self, module: Any, name: str, param: Tensor) -> None:
        """Make one parameter sparse. Raises ValueError if no sparsity was specified."""
        # A tied parameter is met under each of its names, and the first one counts.
        if id(param) in self._by_id:
            return
        if self._levels.default is None and param not in self._levels:
            raise ValueError(
                f"{type(self).__name__} sparsity algorithm expected `sparsity` to be specified, but got none."
            )
        sparse_param = SparseParameter(module, name, self.first_mask(param))
        self._take(sparse_param)
        self.csx_annotate_sparsity(sparse_param)

    def _take(self, sparse_param: SparseParameter) -> None:
        self.sparse_params[sparse_param.name] = sparse_param
        self._by_id[id(sparse_param.param)] = sparse_param

    def first_mask(self, param: Tensor) -> Callable[[Tensor], Tensor]:
        """The function that makes the first mask of a parameter."""
        return functools.partial(self.init_method, sparsity=self._levels[param](tensor(0)))

    def csx_annotate_sparsity(self, param: SparseParameter) -> None:  # noqa: B027 - nothing is known of every algorithm
        """Tell the compiler how sparse a parameter will be; by default nothing."""

    def _annotate(self, param: SparseParameter, low: float, high: float, last: float) -> None:
        # The names under which the vendor's front end prints them beside the state.
        for name, value in (("max_sparsity", high), ("min_sparsity", low), ("sparsity", last)):
            param.annotate(name, value)

    def initialize(self) -> None:
        """Make the masks that there are not yet."""
        for p in self.sparse_params.values():
            p.initialize()

    def _prune_module(self, module: Any, args: Any) -> None:
        for p in self.get_sparse_params(module):
            self.prune_weight(p)

    def prune_weight(self, sparse_param: SparseParameter) -> None:
        """Set a parameter to zero where its mask is."""
        sparse_param.prune()

    def sparsify_optimizer(self, optimizer: Any) -> None:
        """Mask the state of an optimizer, and let its steps change the masks. The model may be made sparse later."""
        if optimizer in self._optimizers:
            return
        self._optimizers.add(optimizer)
        # Before a step the state is pruned as well: momentum that a checkpoint or a grown mask brought in would
        # move weights that are to stay zero.
        optimizer.register_step_pre_hook(lambda o, *_: self._prune_states(o))
        optimizer.register_step_post_hook(lambda o, *_: self._after_step(o))
        # A step that overflowed takes back the masks and counters with the weights: it finds them here.
        optimizer.followers.append(self)

    def _after_step(self, optimizer: Any) -> None:
        with grad_mode(False):
            # First the step's own change is pruned (weight decay and momentum write everywhere), so that `update`
            # orders weights among which the masked ones are zero.
            self.prune_all(optimizer)
            if self.autoupdate:
                self.update(optimizer)

    def prune_all(self, optimizer: Any) -> None:
        """Set the parameters of an optimizer and its state to zero where the masks are."""
        for p in self.get_sparse_params(optimizer):
            self.prune_weight(p)
        self._prune_states(optimizer)

    def _prune_states(self, optimizer: Any) -> None:
        """Set state of a parameter's shape to zero where the parameter's mask is."""
        for p in self.get_sparse_params(optimizer):
            for name, value in optimizer.state.setdefault(p.param, {}).items():
                # By shape: a scalar such as beta1_power belongs to no element, and neither do the factored moments
                # of Adafactor.
                if isinstance(value, Tensor) and value.shape == p.param.shape:
                    p.prune(value, f"{p.name}.{name}")

    @abstractmethod
    def update(self, optimizer: Any = None) -> None:
        """Change the masks, if it is time to."""

    def counters(self) -> dict[str, Tensor]:
        """State of its own beside the masks, by name."""
        return {}

    def name_state(self, prefix: str) -> None:
        """Give the counters their identity."""
        for name, counter in self.counters().items():
            # A counter of Python would be a constant of a step that is traced once.
            counter.device = process.state_device()
            storage.register(counter.cell, f"{prefix}.{name}")

    def state_tensors(self) -> list[Tensor]:
        """All that a step of the optimizer changes here: masks and counters."""
        # Masks are named by their modules and counters by the algorithm; a skipped step has to restore both.
        return [*(p.mask for p in self.sparse_params.values()), *self.counters().values()]

    def visit_state(self, f: Callable[[Tensor], Tensor | None]) -> None:
        """Call a function with every counter; what it returns takes the place of the value."""
        update_tensors(self.counters().values(), f)

    def state_dict(self) -> Any:
        """Counters by name. The masks are in the state dict of the model."""
        return {}

    def load_state_dict(self, state_dict: Any) -> None:
        """Restore what `state_dict` gave. Raises ValueError for the state of another algorithm."""
        if state_dict:
            raise ValueError(f"{type(self).__name__} has no state, and was given that of another: {list(state_dict)}")

    def register_target_sparsity_hook(self, hook: Hook) -> Any:
        """Call hook(algorithm, name, sparsity) at each update, once for all parameters that share a schedule.

        The name is what the names of these parameters begin with, and a star. Returns a handle that removes the hook.
        """
        return RemovableHandle(self._target_hooks, hook)

    def register_computed_sparsity_hook(self, hook: Hook) -> Any:
        """Call hook(algorithm, name, sparsity) at each update with the measured sparsity of each parameter's mask."""
        return RemovableHandle(self._computed_hooks, hook)

    def _call_hooks(self, hooks: dict[int, Hook], name: str, sparsity: Any) -> None:
        for hook in list(hooks.values()):
            hook(self, name, sparsity)


def common_name(names: list[str]) -> str:
    """One name for several parameters: what they begin with, and a star."""
    # Hooks write summaries: one curve for each schedule, and not one for each of its parameters.
    return os.path.commonprefix(names) + "*"  # noqa: RUF071 - names are no paths


class Static(SparsityAlgorithm):
    """Masks that are made once. Raises ValueError for a sparsity outside 0 <= s < 1, or one that changes.

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
        # True is a number to Python, and no sparsity.
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError("Static sparsity algorithm only supports constant sparsity")
        super()._assign_level(value)

    def csx_annotate_sparsity(self, param: SparseParameter) -> None:
        """Tell the compiler the level, which is all that there will be."""
        level = float(self._levels[param.param](0))
        self._annotate(param, level, level, level)

    def update(self, optimizer: Any = None) -> None:
        """Nothing but the hooks: the masks stay."""
        level = self._levels.default
        if isinstance(level, Constant):
            for hooks in (self._target_hooks, self._computed_hooks):
                self._call_hooks(hooks, "*", level.value)
