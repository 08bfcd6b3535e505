"""Base class of optimizers: parameter groups, state, state dicts, and steps that can be traced."""

import itertools
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, ClassVar

from lazytensor.core import storage
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, grad_mode, wrap
from lazytensor.functional.creation import full_like, zeros_like
from lazytensor.functional.in_place import assign, write_values
from lazytensor.functional.pointwise import cast_to
from lazytensor.functional.type_promotion import default_dtype
from lazytensor.ir.graph import Node
from lazytensor.ir.graph_function import GraphFunction
from lazytensor.ir.types import Type
from lazytensor.ops.op import full
from lazytensor.optim.rules import Rule
from lazytensor.optim.settings import STEP, Slot
from lazytensor.optim.traced import step_hooks
from lazytensor.optim.traced.equal_updates import function_of, kind_of

# Optimizers by number; weak references, so that an unused optimizer is freed with its state.
_alive: "dict[int, weakref.ref[Optimizer]]" = {}
# Protects the assignment of numbers if threads create optimizers at the same time.
_numbering = threading.Lock()


def alive() -> list["Optimizer"]:
    """Return all optimizers that are still referenced."""
    return [o for weak in list(_alive.values()) if (o := weak()) is not None]


def forget() -> None:
    """Forget all existing optimizers and all global step hooks, when a run ends."""
    _alive.clear()
    step_hooks.forget()


class Optimizer(step_hooks.Hooked):
    """Base class of optimizers, like `torch.optim.Optimizer`.

    A subclass defines the `rule` that updates one parameter and the `slots` of its state, which are created before the
    first step. Alternatively it overrides `preinitialize` and `step`, which process all parameters.

    >>> import lazytensor as lt
    >>> weight = lt.nn.Parameter(lt.ones(2))
    >>> isinstance(lt.optim.SGD([weight], lr=0.1), lt.optim.Optimizer)
    True
    """

    rule: ClassVar[Rule | None] = None
    slots: ClassVar[tuple[Slot, ...]] = ()

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]):
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{params.type()}"
                "\n  Pass model.parameters(), or a list."
            )
        members = list(params)
        if not members:
            raise ValueError("optimizer got an empty parameter list\n  Pass at least one parameter.")
        if not isinstance(members[0], dict):
            members = [{"params": members}]
        self.defaults = defaults
        # Keyed by parameter: tensors hash by identity, and moving or casting a parameter keeps the object.
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        for group in members:
            self._take_group(group)
        # The number is part of the names of state in graphs. Use the lowest free one, so that a second run in the same
        # process has the same names.
        with _numbering:
            self._number: int = next(n for n in itertools.count() if n not in _alive or _alive[n]() is None)
            _alive[self._number] = weakref.ref(self)
        self.preinitialize()
        self._name_state()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, with settings that override the defaults, and create and name their state.

        Raises ValueError if a parameter is already in a group or is not a leaf, and TypeError if one is not a tensor or
        if "params" is a set.
        """
        self._take_group(param_group)
        self.preinitialize()
        self._name_state()

    def _take_group(self, group: dict[str, Any]) -> None:
        """Check a parameter group and append it to `param_groups`, with defaults for missing settings.

        See `add_param_group` for the errors. The list gets a new dict; no state is created.
        """
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
                "\n  Pass a list of parameters."
            )
        params = [params] if isinstance(params, Tensor) else list(params)
        strange = next((p for p in params if not isinstance(p, Tensor)), None)
        if strange is not None:
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {type(strange).__name__}"
                '\n  Pass only tensors, or dicts with the key "params".'
            )
        # A parameter in two groups would be updated twice in one step.
        known = {id(p) for p in self._parameters()}
        if any(id(p) in known for p in params):
            raise ValueError(
                "some parameters appear in more than one parameter group\n  Pass each parameter in one group."
            )
        if not all(p.is_leaf for p in params):
            raise ValueError("can't optimize a non-leaf Tensor\n  Pass leaves: tensors that no operation computed.")
        # As in PyTorch, settings of the group come first, in their order.
        self.param_groups.append({**group, **self.defaults, **group, "params": params})

    def _parameters(self) -> Iterator[Tensor]:
        return (p for group in self.param_groups for p in group["params"])

    def preinitialize(self) -> None:
        """Create the state of every parameter; state that exists is kept."""
        for group in self.param_groups:
            for p in group["params"]:
                self._make_state(group, p)

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """Create the state of one parameter as described by `slots`, unless it exists.

        Slots whose setting in `group` is off are left out.
        """
        for slot in self.slots:
            if slot.is_used(group):
                start = slot.start_of(group)
                value = start if slot.is_number else full_like(p, start) if start else None
                self.new_state(p, slot.name, value)

    def new_state(self, p: Tensor, name: str, value: Tensor | float | None = None) -> None:
        """Create the state `name` of a parameter, on its device, unless it exists.

        `value` is a tensor, which is used itself, or a number, which becomes a 0-d tensor of the default type. None
        means zeros in the shape and type of the parameter.
        """
        own = self.state[p]
        if name in own:
            return
        # Initial values are constant nodes, which all parameters share until they are updated.
        if value is None:
            value = wrap(full(0, p.spec))
        elif not isinstance(value, Tensor):
            value = wrap(full(value, _number(default_dtype())))
        value.device = p.device
        own[name] = value

    def _prefix(self) -> str:
        """Return the prefix of the names of this optimizer's state in graphs."""
        return f"optimizer_{self._number}" if self._number else "optimizer"

    def _name_state(self) -> None:
        """Register each state tensor as "PREFIX.state.INDEX.NAME".

        INDEX is that of the parameter over all groups, as in state dicts. Raises StateError if a tensor has another
        name.
        """
        prefix = self._prefix()
        for i, p in enumerate(self._parameters()):
            for name, value in self.state.get(p, {}).items():
                # The names have the index of the parameter, like the keys of state dicts.
                storage.register(value.cell, f"{prefix}.state.{i}.{name}")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in place.

        `closure`, if given, is called first with gradients enabled; its result is returned, else None. Inside a
        captured step the updates are recorded. Raises NotImplementedError if the class has no rule and does not
        override `step`.
        """
        loss = loss_of(closure)
        with grad_mode(False):
            groups = [(g, [(p, p.grad) for p in g["params"] if p.grad is not None]) for g in self.param_groups]
            # Outside of a captured step, update each parameter directly, without a cache.
            if storage.thread_state.current is None:
                for group, pairs in groups:
                    for p, g in pairs:
                        self.update(group, p, g, self.state.get(p, {}))
            elif groups := [(group, pairs) for group, pairs in groups if pairs]:
                self._update_in_step(groups)
        return loss

    def _update_in_step(self, groups: "list[_Pairs]") -> None:
        """Update parameters inside a captured step. Write the nodes of an earlier trace if it read exactly the same.

        The same are: the optimizer class, the settings, and the nodes of gradients, parameters and state. The new nodes
        are cached on the node of the last gradient. Updates that create state are traced each time.
        """
        # Updates are most of the nodes of a step, and a loop traces the same ones each time. The cache key consists of
        # everything that the updates read; the cached value is the list of new nodes. The cache is in the memo of a
        # gradient node and is freed with it.
        changed = self._cells_of(groups)
        question: list[Any] = [type(self)]
        for group, pairs in groups:
            question.append(_settings(group))
            question += [g.node for _, g in pairs]
        memo = question[-1].memo
        if memo is None:
            memo = question[-1].memo = {}
        key = (*question, *map(storage.read, changed))
        answer = memo.get(key)
        if answer is None:
            known: _Functions = {}
            for group, pairs in groups:
                for p, g in pairs:
                    self._update_once(group, p, g, known)
            # Do not cache if the updates created state.
            after = self._cells_of(groups)
            if len(after) == len(changed):
                memo[key] = [storage.read(c) for c in after]
        else:
            storage.write_in_step(changed, answer)

    def _cells_of(self, groups: "list[_Pairs]") -> list[storage.Storage]:
        """Return the storages of the parameters in `groups`, each followed by those of its state, in order."""
        of = self.state.get
        return [t.cell for _, pairs in groups for p, _ in pairs for t in (p, *of(p, {}).values())]

    def _update_once(self, group: dict[str, Any], p: Tensor, g: Tensor, known: "_Functions") -> None:
        """Update one parameter inside a step.

        The update of the first parameter of each kind is recorded as a function in `known`, which is applied to the
        others. A kind has equal settings, device, state names and operand types. Views and rules that create state are
        updated one by one.
        """
        state = self.state.get(p, {})
        changed = [p, *state.values()]
        settings = _settings(group)
        # `p.node`, the parameter's `variable` node, is an operand in addition to the value of its storage.
        values = [*[storage.read(t.cell) for t in changed], g.node, p.node]
        given = [*values, *[v for v in settings if isinstance(v, Node)]]
        kind = settings, p.device, tuple(state), _are_whole(changed), kind_of(given)
        function, step = known.get(kind), storage.thread_state.current
        assert step is not None
        if function is None:
            self.update(group, p, g, state)
            # If the update created state, the rule must be called for every parameter.
            if _are_whole(changed) and len(changed) == 1 + len(state):
                function = known[kind] = function_of(given, [storage.read(t.cell) for t in changed], p.leaf_id)
            # With function calls, the first update is replaced by a call too.
            if function is None or not step.has_calls:
                return
        results = (function.call if step.has_calls else function.inline)(given, p.leaf_id)
        storage.write_in_step([t.cell for t in changed], results)

    def update(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        """Update one parameter and its state in place with the rule, for the gradient `g` and the settings `group`.

        Raises KeyError if the rule needs state that was not created, since a setting was enabled later.
        """
        new: dict[str, Any] = dict(state)
        value = self._apply_rule(group, p, g, new)
        for name, changed in new.items():
            # As in the vendor's code, this raises KeyError if a setting that needs more state was enabled later.
            if changed is not state[name]:
                assign(state[name], changed)
        assign(p, value)

    def _apply_rule(self, group: dict[str, Any], p: Any, g: Any, state: dict[str, Any]) -> Any:
        """Return the new value of a parameter and write its new state to the dict `state`, as tensors or arrays.

        Increments "step" first if it is one of the `slots`. Raises NotImplementedError if the class has no rule.
        """
        if self.rule is None:
            raise NotImplementedError(
                f"{type(self).__name__} defines neither step nor rule"
                "\n  Define step(self) or rule(self, ...) in the class."
            )
        if STEP in self.slots:
            state["step"] = state["step"] + 1.0
        return self.rule(group, p, g, state)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zero in place if `set_to_none` is False.

        A gradient that is None stays None. One of another step, which has no value any more, is replaced by zeros.
        """
        for p in self._parameters():
            if set_to_none or p.grad is None:
                p.grad = None
            elif p.grad.cell.epoch not in (None, storage.thread_state.current):
                # A gradient of another loop's step has no value any more.
                p.grad = zeros_like(p)
            else:
                p.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Return the state, by the index of each parameter, and the settings of the groups, in PyTorch's format.

        The result is {"state": ..., "param_groups": ...}, or what a hook returns instead. Tensors are not copied.
        """
        self._call_hooks("state_dict_pre")
        # As in PyTorch, parameters are identified by their index, so their order is part of a checkpoint.
        numbers = {id(p): i for i, p in enumerate(self._parameters())}
        groups = [
            {**{k: v for k, v in g.items() if k != "params"}, "params": [numbers[id(p)] for p in g["params"]]}
            for g in self._saved_groups()
        ]
        state = {numbers[id(p)] if isinstance(p, Tensor) else p: s for p, s in self.state.items()}
        return self._through_hooks("state_dict_post", {"state": state, "param_groups": groups})

    def _saved_groups(self) -> list[dict[str, Any]]:
        """Return the groups as a state dict contains them."""
        return self.param_groups

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copy state and settings from a state dict. State that it lacks is unchanged; missing state is created.

        Raises ValueError if the groups do not match. Hooks may replace the state dict first.
        """
        # Copy the outermost dict of the caller, because hooks may change it.
        state_dict = self._through_hooks("load_state_dict_pre", {**state_dict})
        saved = state_dict["param_groups"]
        for group, loaded in zip(self.param_groups, self._loaded_groups(saved), strict=True):
            group.clear()
            group.update(loaded)
        # Some file formats convert the indices to strings.
        by_number = {str(k): v for k, v in state_dict["state"].items()}
        numbers = [str(n) for s in saved for n in s["params"]]
        with grad_mode(False):
            for number, p in zip(numbers, self._parameters(), strict=True):
                for name, value in by_number.get(number, {}).items():
                    self._load_one(p, name, value)
        self._call_hooks("load_state_dict_post")

    def _loaded_groups(self, saved: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return new groups with the settings of `saved` and this optimizer's parameters.

        Settings that `saved` lacks are kept. Raises ValueError for other numbers of groups, or of parameters in a
        group.
        """
        if len(saved) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups"
                "\n  Create the optimizer with the groups of the checkpoint."
            )
        if any(len(s["params"]) != len(g["params"]) for s, g in zip(saved, self.param_groups, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                "\n  Create the optimizer with the parameters of the checkpoint."
            )
        # `params` in the state dict are indices; only their number is used.
        return [
            {**s, "params": group["params"], **{k: v for k, v in group.items() if k not in s}}
            for s, group in zip(saved, self.param_groups, strict=True)
        ]

    def _load_one(self, p: Tensor, name: str, value: Any) -> None:
        """Copy a value to the state `name` of a parameter, in place.

        State that does not exist is created as a copy of the value, with its type, and named.
        """
        mine = self.state[p].get(name)
        # This optimizer has not created the state yet, for example because its rule does so in the first step.
        if mine is None:
            self.new_state(p, name, cast_to(value, value.dtype).clone())
            self._name_state()
        else:
            write_values(mine, value)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {v}" for k, v in sorted(group.items()) if k != "params"]
        return "\n".join([*lines, ")"])


_Pairs = tuple[dict[str, Any], list[tuple[Tensor, Tensor]]]
"""A group, and its parameters with their gradients."""
_Functions = dict[tuple[Any, ...], GraphFunction | None]
"""The recorded update functions of one call of `step`, by kind of parameter."""


@cache
def _number(dtype: DType) -> Type:
    # Cached, because each parameter has several such pieces of state.
    return Type((), dtype)


def _are_whole(changed: list[Tensor]) -> bool:
    """Return whether no tensor is a view and no state is a leaf: a write through a view depends on the view."""
    return not any(t.view_ops for t in changed) and not any(t.leaf_id for t in changed[1:])


def loss_of(closure: Callable[[], Any] | None) -> Any:
    """Call a closure with gradients enabled and return its result; None without a closure."""
    if closure is None:
        return None
    with grad_mode(True):
        return closure()


def _settings(group: dict[str, Any]) -> tuple[Any, ...]:
    """Return the settings of a group as a comparable tuple; tensors are replaced by their nodes. Tags are left out."""
    # Updates do not depend on tags. A list is faster than a generator.
    return tuple([v.node if isinstance(v, Tensor) else v for k, v in group.items() if k not in ("params", "tags")])
