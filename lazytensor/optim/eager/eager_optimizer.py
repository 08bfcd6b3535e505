"""Base class of PyTorch's optimizers, which apply an update rule immediately.

The rules compute in NumPy, and the results become leaves, so an eager loop records no graph for its updates. Inside a
traced step no values exist; use the optimizers of `lazytensor.optim` (cstorch.optim) there. In an abstract step, the
rules work on tensors.
"""

import copy
from abc import ABCMeta
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lazytensor import optim
from lazytensor.core import dtype as dt
from lazytensor.core import source, storage
from lazytensor.core.dtype import round_to
from lazytensor.core.flat_buffers import Whole, values_of, whole_of
from lazytensor.core.tensor import Tensor, grad_mode, tensor_from_storage, wrap
from lazytensor.errors import AutogradError, OperandInvalid, OptionInvalid, ShapeError, TraceError, refuse
from lazytensor.functional.conversion import to
from lazytensor.functional.in_place import assign
from lazytensor.ir.graph import Node, leaf
from lazytensor.ir.types import Type
from lazytensor.optim.eager.batches import SCALARS, batches, joined, parts, rounded
from lazytensor.optim.rules import State
from lazytensor.optim.traced import optimizer

Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
"""Parameters, groups of parameters with their settings, or pairs of name and parameter."""
PLANNED_STEP = 1000.0
"""The step number in abstract steps; late enough for rules whose first steps differ."""
NUMBER = Type((), dt.float32)
"""The type of scalar state."""


def _way_out(kind: type) -> str:
    """Return a hint for a traced step that says which constructor to use instead of the class `kind`.

    A class that is not derived from an optimizer of PyTorch is to be rewritten as a subclass of
    `cstorch.optim.Optimizer`.
    """
    name = next((c.__name__ for c in kind.__mro__ if c.__name__ in optim.__all__ and c.__name__ != "Optimizer"), "")
    if not name:
        return "Write it as a subclass of cstorch.optim.Optimizer that creates its state in preinitialize()."
    return (
        f"Replace torch.optim.{name}(...) by cstorch.optim.{name}(...), or by cbtorch.optim.{name}(...) for a "
        "loop in a cbtorch.Session."
    )


# Settings such as `foreach` and `fused` choose between PyTorch's implementations of a rule. They have no effect here,
# but are kept for state dicts, in PyTorch's order.
class _Family(ABCMeta):
    """Metaclass that makes the optimizers of `lazytensor.optim` instances of `Optimizer`."""

    def __instancecheck__(cls, instance: object) -> bool:
        # The vendor's optimizers are subclasses of PyTorch's Optimizer too.
        return super().__instancecheck__(instance) or (cls is Optimizer and isinstance(instance, optimizer.Optimizer))


class Optimizer(optimizer.Optimizer, metaclass=_Family):
    """Base class of optimizers that update parameters immediately, like `torch.optim.Optimizer`.

    The optimizers of `lazytensor.optim` also count as instances of this class.
    """

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        _check_defaults(defaults)
        # Schedules use the count to warn if they are stepped before the optimizer.
        self.steps_taken: int = 0
        super().__init__(params, defaults)

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """Do nothing: PyTorch's optimizers create their state in the first step."""

    def _take_group(self, group: dict[str, Any]) -> None:
        """Add a parameter group, whose "params" may have (name, parameter) pairs; the names become its "param_names".

        Raises ValueError if some groups have names and others do not, and errors as `add_param_group` does.
        """
        params = group["params"]
        if not isinstance(params, Tensor | set):
            params = list(params)
            if any(isinstance(p, tuple) for p in params):  # with names, as named_parameters() gives them
                names = [name for name, _ in params]
                group = {**group, "params": [p for _, p in params], "param_names": names}
            else:
                group = {**group, "params": params}
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            missing = "with" if "param_names" in group else "without"
            raise OptionInvalid(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{missing} names to the optimizer",
                where=source.where(),
                hint="Give names to the parameters of all groups, or to none.",
            )
        super()._take_group(group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in place; parameters on "meta" are skipped.

        `closure`, if given, is called first with gradients enabled; its result is returned. State is created at the
        first step. Inside a traced step, this raises TraceError, except in a check run, which reports a finding and
        updates nothing. Raises AutogradError for `differentiable` and OperandInvalid for `capturable`, which PyTorch
        does not support here.
        """
        if storage.thread_state.current is not None and not storage.is_abstract:
            error = TraceError(
                f"torch.optim.{type(self).__name__} needs values, but tensors have no values while a step is traced",
                where=source.where(),
                hint=_way_out(type(self)),
            )
            refuse("eager optimizer", error, f"torch.optim.{type(self).__name__}")
            return None if closure is None else closure()
        loss = optimizer.loss_of(closure)
        with grad_mode(False):
            for group in self.param_groups:
                plain = {k: _number(v) for k, v in group.items() if k != "params"}
                # A parameter on "meta" has no value to update.
                ready = [p for p in group["params"] if p.grad is not None and p.device.type != "meta"]
                _check_implementation(plain, ready)
                if storage.thread_state.current is None:
                    for batch, numbers in batches(ready, self.state):
                        self._apply(plain, batch, dict(numbers))
                else:
                    for p in ready:
                        self._record(plain, p)
        self.steps_taken += 1
        return loss

    def _apply(self, group: dict[str, Any], batch: list[Tensor], numbers: dict[str, float]) -> None:
        """Apply the rule to a group of parameters from `batches`, and write the parameters and their state.

        `group` are the settings, and `numbers` the scalars of the state. Missing state is created with its initial
        values.
        """
        states = [self.state.get(p, {}) for p in batch]
        names = [k for k, value in states[0].items() if k not in SCALARS and isinstance(value, Tensor)]
        # A list is faster than a generator.
        if len(batch) > 1 and any([s[name].view_ops for name in names for s in states]):  # noqa: C419
            # State that is a view has to be written separately, through its base.
            for p in batch:
                self._apply(group, [p], numbers)
            return
        cells_of = {name: [s[name].cell for s in states] for name in names}
        wholes = {name: whole_of(some) for name, some in cells_of.items()}
        new: State = dict(numbers)
        for name, whole in wholes.items():
            new[name] = joined([s[name].array() for s in states]) if whole is None else whole.array
        g, value = _values([p.grad for p in batch]), _values(batch)  # type: ignore[misc]
        for slot in self.slots:
            if slot.name not in new and slot.is_used(group) and not slot.is_late:
                start = slot.start_of(group)
                new[slot.name] = start if slot.is_number else np.full_like(value, start)
        # Half types are in float32 arrays and rounded once at the end of the rule; PyTorch rounds after each operation.
        updated = self._apply_rule(group, value, g, new)
        self._write_state(batch, states, new, wholes)
        dtype = batch[0].dtype
        leaves = [leaf(part, p.spec) for p, part in zip(batch, parts(updated, batch, dtype), strict=True)]
        if storage.is_abstract or any(p.view_ops or p.__dict__ for p in batch):
            for p, n in zip(batch, leaves, strict=True):
                p.write(n)
            return
        # Equivalent to `write`, without its checks: types match, and no gradient is recorded.
        for p in batch:
            p._seen = p._node = None
        storage.write_all([p.cell for p in batch], leaves)

    def _write_state(
        self, batch: list[Tensor], states: list[State], new: State, wholes: dict[str, Whole | None]
    ) -> None:
        """Store `new` as the state of a group of parameters, creating state tensors that do not exist.

        `states` are the state dicts of the parameters. Scalars are set for each parameter; other values are arrays over
        the whole group. `wholes` has, by name, the flat buffer that already holds the state of the whole group, or
        None.
        """
        dtype = batch[0].dtype
        # Rules without state, such as SGD without momentum, create no entry for a parameter.
        if new and not states[0]:
            self.state.update(zip(batch, states, strict=True))
        for name, value in new.items():
            if name in SCALARS:
                type = states[0][name].spec if name in states[0] else NUMBER
                _set_all(states, name, leaf(round_to(np.asarray(value, type.dtype.host), type.dtype), type))
            elif len(batch) == 1:
                _set(states[0], name, parts(value, batch, dtype)[0], batch[0].spec)
            elif (whole := wholes.get(name)) is not None:
                whole.replace(rounded(value, dtype), [s[name].cell for s in states])
            else:
                for s, p in zip(states, batch, strict=True):
                    if name not in s:
                        s[name] = tensor_from_storage(storage.Storage.outside(storage.new_abstract_leaf(p.spec)))
                Whole(rounded(value, dtype)).take([s[name].cell for s in states])

    def _record(self, group: dict[str, Any], p: Tensor) -> None:
        """Record the update of a parameter in an abstract step. State that does not exist is created without values."""
        number = next(i for i, other in enumerate(self._parameters()) if other is p)
        state, prefix = self.state[p], f"{self._prefix()}.state.{number}"
        new: State = {}
        for slot in self.slots:
            if not slot.is_used(group):
                continue
            if slot.is_number:
                new[slot.name] = PLANNED_STEP if slot.name == "step" else slot.start_of(group)
                continue
            if slot.name not in state:
                state[slot.name] = t = tensor_from_storage(storage.Storage.outside(storage.new_abstract_leaf(p.spec)))
                t.device = p.device
                storage.register(t.cell, f"{prefix}.{slot.name}")
            new[slot.name] = state[slot.name]
        updated = self._apply_rule(group, p, p.grad, new)
        for name, value in new.items():
            if isinstance(value, Tensor) and value is not state[name]:
                assign(state[name], value)
        assign(p, updated)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Replace state and settings by those of `state_dict`.

        Settings are copied. Tensors of the state are cast to the parameter's device, and to its type if that is
        floating point, except "step". As in PyTorch, a tensor that needs no cast is shared with `state_dict`, so later
        steps modify it. State of a parameter that `state_dict` lacks is dropped. Raises ValueError if the groups do not
        match.
        """
        state_dict = self._through_hooks("load_state_dict_pre", {**state_dict})
        groups = self._loaded_groups(copy.deepcopy(state_dict["param_groups"]))
        numbers = [str(n) for saved in state_dict["param_groups"] for n in saved["params"]]
        parameters = dict(zip(numbers, self._parameters(), strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        with grad_mode(False):
            for number, values in state_dict["state"].items():
                # Some file formats convert the indices to strings.
                p = parameters.get(str(number))
                state[number if p is None else p] = values if p is None else _cast(p, values)
        self.__setstate__({"state": state, "param_groups": groups})
        self._call_hooks("load_state_dict_post")

    def _name_state(self) -> None:
        """Register the name "PREFIX.state.INDEX.NAME" for each state tensor that has no name yet.

        INDEX is that of the parameter over all groups.
        """
        # Loaded state keeps its name, because the optimizer that was saved may share the tensor.
        prefix = self._prefix()
        for i, p in enumerate(self._parameters()):
            for name, value in self.state.get(p, {}).items():
                if isinstance(value, Tensor) and not value.cell.state:
                    storage.register(value.cell, f"{prefix}.state.{i}.{name}")

    # The attributes that PyTorch's optimizers pickle, without the number that names state in a graph.
    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved)
        # PyTorch's pickles do not have this attribute.
        self.__dict__.setdefault("steps_taken", 0)
        if self.rule is None:
            return
        # Old files have Python numbers for scalars.
        for state in self.state.values():
            for name in SCALARS if isinstance(state, dict) else ():
                if name in state and not isinstance(state[name], Tensor):
                    state[name] = wrap(leaf(np.asarray(state[name], np.float32), NUMBER))


def _number(setting: Any) -> Any:
    """Return a setting with tensors and NumPy numbers converted to Python numbers, also inside a tuple.

    A NumPy number would change the type of the update. Other settings are returned unchanged.
    """
    if isinstance(setting, tuple):
        return tuple(_number(v) for v in setting)
    return setting.item() if isinstance(setting, Tensor | np.generic) else setting


def _check_defaults(defaults: dict[str, Any]) -> None:
    """Raise ValueError or RuntimeError for combinations of settings that PyTorch does not support.

    ValueError is for an `lr` tensor with several elements; RuntimeError for `fused` with `differentiable` or `foreach`.
    """
    lr = defaults.get("lr")
    if isinstance(lr, Tensor) and lr.spec.size != 1:
        raise OptionInvalid(
            f"Tensor lr must be 1-element, but has {lr.spec.size} elements",
            where=source.where(),
            hint="Pass a number, or a tensor of one element.",
        )
    if defaults.get("fused") and defaults.get("differentiable"):
        raise ShapeError(
            "`fused` does not support `differentiable`", where=source.where(), hint="Omit fused or differentiable."
        )
    if defaults.get("fused") and defaults.get("foreach"):
        raise ShapeError(
            "`fused` and `foreach` cannot be `True` together.", where=source.where(), hint="Omit fused or foreach."
        )


def _check_implementation(group: dict[str, Any], ready: list[Tensor]) -> None:
    """Raise an error for implementations of a rule that PyTorch does not support on the CPU.

    AutogradError is for `differentiable` if one of the parameters `ready` requires a gradient, OperandInvalid for
    `capturable` if there are any.
    """
    if group.get("differentiable") and any(p.requires_grad for p in ready):
        raise AutogradError(
            "a leaf Variable that requires grad is being used in an in-place operation.",
            where=source.where(),
            hint="Remove differentiable=True, with which step() records its changes of the parameters.",
        )
    if group.get("capturable") and ready:
        raise OperandInvalid(
            "If capturable=True, params and state_steps must be on supported devices: ['cuda', 'xpu', 'hpu'].",
            where=source.where(),
            hint="Remove capturable=True, which is for CUDA graphs.",
        )


def _cast(p: Tensor, value: Any, name: str = "") -> Any:
    """Return a value of loaded state with its tensors on the device of `p`, and in its type if that is floating point.

    The tensor under the name "step" is unchanged. Dicts, lists, tuples and sets are converted member by member; other
    values are unchanged.
    """
    if isinstance(value, Tensor):
        if name == "step":
            return value
        return to(value, device=p.device, dtype=p.dtype if p.dtype.kind == "f" else value.dtype)
    if isinstance(value, dict):
        return {k: _cast(p, v, k) for k, v in value.items()}
    if isinstance(value, list | tuple | set):
        return type(value)(_cast(p, v) for v in value)
    return value


def _values(tensors: list[Tensor]) -> np.ndarray:
    """Return the elements of all tensors, in one flat array if there are several, else in the tensor's shape.

    Several tensors over one flat buffer give a view of that buffer.
    """
    if len(tensors) == 1:
        return _value(tensors[0])
    array = None if any(t.view_ops for t in tensors) else values_of([t.cell for t in tensors])
    return joined([_value(t) for t in tensors]) if array is None else array


def _value(t: Tensor) -> np.ndarray:
    """Return the elements of a tensor, without creating a `variable` node if possible. Do not write to the array."""
    n = t.cell.node
    return t.array() if t.view_ops or n is None or n.value is None else n.value


def _set_all(states: list[State], name: str, number: Node) -> None:
    """Set the state `name` of all parameters to the node `number`, creating state tensors that do not exist."""
    for s in states:
        if name not in s:
            s[name] = wrap(number)
        elif not s[name].view_ops and (cell := s[name].cell).home is None:
            # Equivalent to a write, without a record for backward, which never needs a count of steps.
            cell.node = number
            cell.version += 1
            number.cells += 1
        else:
            s[name].write(number)


def _set(state: dict[str, Tensor], name: str, array: np.ndarray, type: Type) -> None:
    """Write an array to the state `name` of a parameter, creating the state tensor if necessary."""
    # The state stays the same tensor, so that an earlier state dict sees later changes, as in PyTorch.
    if name in state:
        state[name].write(leaf(array, type))
    else:
        state[name] = wrap(leaf(array, type))
