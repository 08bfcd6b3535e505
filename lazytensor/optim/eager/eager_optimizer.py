"""The base of PyTorch's own optimizers, which apply a rule to arrays at once.

The rules compute in NumPy on values that exist, and write the results back as leaves: an eager loop records no graph
for its updates, so it neither grows nor slows down. Inside a traced step values do not exist; there the optimizers of
`lazytensor.optim` (cstorch.optim) are the ones to use. A step that is planned, without arrays, gives the rules tensors.
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
from lazytensor.errors import AutogradError, OperandInvalid, TraceError, refuse
from lazytensor.functional.conversion import to
from lazytensor.functional.in_place import assign
from lazytensor.ir.graph import Node, leaf
from lazytensor.ir.types import Type
from lazytensor.optim.eager.batches import SCALARS, batches, joined, parts, rounded
from lazytensor.optim.rules import State
from lazytensor.optim.traced import optimizer

Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
"""Parameters, groups of them with settings of their own, or parameters with names."""
PLANNED_STEP = 1000.0
"""The number of the step that is planned: late enough for rules whose first steps are other ones."""
NUMBER = Type((), dt.float32)
"""What a scalar of the state is as a tensor."""


def _way_out(kind: type) -> str:
    """Return which call to write where a script makes an optimizer of this class, for a step that is traced."""
    name = next((c.__name__ for c in kind.__mro__ if c.__name__ in optim.__all__ and c.__name__ != "Optimizer"), "")
    if not name:
        return "Write it as a subclass of cstorch.optim.Optimizer, with its state made in preinitialize()."
    return (
        f"Write cstorch.optim.{name}(...) where the script makes it, in place of torch.optim.{name}(...), or "
        f"cbtorch.optim.{name}(...) for a loop in a cbtorch.Session."
    )


# Settings such as foreach and fused choose among PyTorch's implementations of one rule. They are kept, since state
# dicts have them, in PyTorch's order, and change nothing here.
class _Family(ABCMeta):
    def __instancecheck__(cls, instance: object) -> bool:
        # The vendor's optimizers are PyTorch's too, by whatever way they compute.
        return super().__instancecheck__(instance) or (cls is Optimizer and isinstance(instance, optimizer.Optimizer))


class Optimizer(optimizer.Optimizer, metaclass=_Family):
    """Changes parameters by their gradients, as torch.optim does."""

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        _check_defaults(defaults)
        # By this a schedule notices that it was asked to go on before the first update.
        self.steps_taken: int = 0
        super().__init__(params, defaults)

    def _make_state(self, group: dict[str, Any], p: Tensor) -> None:
        """Make no state: PyTorch's optimizers make it in the first step."""

    def _take_group(self, group: dict[str, Any]) -> None:
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
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{missing} names to the optimizer"
            )
        super()._take_group(group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; a closure computes the loss first, which is returned.

        Raises TraceError inside a traced step.
        """
        if storage.thread_state.current is not None and not storage.is_abstract:
            error = TraceError(
                f"torch.optim.{type(self).__name__} needs values, and inside a traced step there are none yet",
                where=source.where(),
                hint=_way_out(type(self)),
            )
            refuse("eager optimizer", error, f"torch.optim.{type(self).__name__}")
            return None if closure is None else closure()
        loss = optimizer.loss_of(closure)
        with grad_mode(False):
            for group in self.param_groups:
                plain = {k: _number(v) for k, v in group.items() if k != "params"}
                # A parameter on "meta" has no value to change.
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
        """The rule on parameters that go together; `numbers` are the scalars of their state."""
        states = [self.state.get(p, {}) for p in batch]
        names = [k for k, value in states[0].items() if k not in SCALARS and isinstance(value, Tensor)]
        # A list, which is made faster than by a generator.
        if len(batch) > 1 and any([s[name].view_ops for name in names for s in states]):  # noqa: C419
            # A view in a state is written through its base.
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
        # Half types are held in float32 on the host, so a rule rounds to them once at its end; PyTorch rounds after
        # each operation.
        updated = self._apply_rule(group, value, g, new)
        self._write_state(batch, states, new, wholes)
        dtype = batch[0].dtype
        leaves = [leaf(part, p.spec) for p, part in zip(batch, parts(updated, batch, dtype), strict=True)]
        if storage.is_abstract or any(p.view_ops or p.__dict__ for p in batch):
            for p, n in zip(batch, leaves, strict=True):
                p.write(n)
            return
        # As `write`, without its questions: the values are of the parameters' types, and no gradient is recorded.
        for p in batch:
            p._seen = p._node = None
        storage.write_all([p.cell for p in batch], leaves)

    def _write_state(
        self, batch: list[Tensor], states: list[State], new: State, wholes: dict[str, Whole | None]
    ) -> None:
        """Make `new` the values of the states of a batch; `wholes` are the arrays that the states look at."""
        dtype = batch[0].dtype
        # A rule without state, as SGD's without momentum, leaves no entry for a parameter.
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
        """Record the rule as a part of the step that is planned, which is late enough to have all state."""
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
        """Replace state and settings by those of `state_dict`; a key "step" keeps its type, other state is cast.

        The settings are copied. A tensor of the state that needs no cast is the tensor of `state_dict` itself, which
        later steps change, as in PyTorch. Raises ValueError if the groups do not fit.
        """
        state_dict = self._through_hooks("load_state_dict_pre", {**state_dict})
        groups = self._loaded_groups(copy.deepcopy(state_dict["param_groups"]))
        numbers = [str(n) for saved in state_dict["param_groups"] for n in saved["params"]]
        parameters = dict(zip(numbers, self._parameters(), strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        with grad_mode(False):
            for number, values in state_dict["state"].items():
                # Numbers become text in formats whose keys are text.
                p = parameters.get(str(number))
                state[number if p is None else p] = values if p is None else _cast(p, values)
        self.__setstate__({"state": state, "param_groups": groups})
        self._call_hooks("load_state_dict_post")

    def _name_state(self) -> None:
        # State that a file brings keeps its name: the optimizer that was saved may share the tensor.
        prefix = self._prefix()
        for i, p in enumerate(self._parameters()):
            for name, value in self.state.get(p, {}).items():
                if isinstance(value, Tensor) and not value.cell.state:
                    storage.register(value.cell, f"{prefix}.state.{i}.{name}")

    # What PyTorch's optimizers pickle. The number that names state in a graph is not part of it.
    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved)
        # Absent in what PyTorch has pickled.
        self.__dict__.setdefault("steps_taken", 0)
        if self.rule is None:
            return
        # Old files have numbers where newer ones have tensors.
        for state in self.state.values():
            for name in SCALARS if isinstance(state, dict) else ():
                if name in state and not isinstance(state[name], Tensor):
                    state[name] = wrap(leaf(np.asarray(state[name], np.float32), NUMBER))


def _number(setting: Any) -> Any:
    """Return a setting with Python numbers in place of tensors and NumPy numbers, whose type would widen the update."""
    if isinstance(setting, tuple):
        return tuple(_number(v) for v in setting)
    return setting.item() if isinstance(setting, Tensor | np.generic) else setting


def _check_defaults(defaults: dict[str, Any]) -> None:
    """Raise ValueError or RuntimeError for settings that PyTorch has no implementation for."""
    lr = defaults.get("lr")
    if isinstance(lr, Tensor) and lr.spec.size != 1:
        raise ValueError("Tensor lr must be 1-element")
    if defaults.get("fused") and defaults.get("differentiable"):
        raise RuntimeError("`fused` does not support `differentiable`")
    if defaults.get("fused") and defaults.get("foreach"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def _check_implementation(group: dict[str, Any], ready: list[Tensor]) -> None:
    """Raise AutogradError or OperandInvalid for implementations of a rule that PyTorch refuses on the CPU."""
    if group.get("differentiable") and any(p.requires_grad for p in ready):
        raise AutogradError(
            "a leaf Variable that requires grad is being used in an in-place operation.",
            where=source.where(),
            hint="Leave out differentiable=True, which makes step() record its changes of the parameters.",
        )
    if group.get("capturable") and ready:
        raise OperandInvalid(
            "If capturable=True, params and state_steps must be on supported devices: ['cuda', 'xpu', 'hpu'].",
            where=source.where(),
            hint="Leave out capturable=True, which is for CUDA graphs.",
        )


def _cast(p: Tensor, value: Any, name: str = "") -> Any:
    """Return a value of a loaded state with its tensors in the type and on the device of `p`."""
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
    """The elements of all tensors, in one array if they are several."""
    if len(tensors) == 1:
        return _value(tensors[0])
    array = None if any(t.view_ops for t in tensors) else values_of([t.cell for t in tensors])
    return joined([_value(t) for t in tensors]) if array is None else array


def _value(t: Tensor) -> np.ndarray:
    """The elements of a tensor, mostly without a node for its being a variable."""
    n = t.cell.node
    return t.array() if t.view_ops or n is None or n.value is None else n.value


def _set_all(states: list[State], name: str, number: Node) -> None:
    """Make one number the value of all of them."""
    for s in states:
        if name not in s:
            s[name] = wrap(number)
        elif not s[name].view_ops and (cell := s[name].cell).home is None:
            # As a write of it, but for what a gradient would have to hear: none needs a count of steps.
            cell.node = number
            cell.version += 1
            number.cells += 1
        else:
            s[name].write(number)


def _set(state: dict[str, Tensor], name: str, array: np.ndarray, type: Type) -> None:
    # The state stays one tensor for its whole life, so that a state dict taken before a step sees what comes after.
    if name in state:
        state[name].write(leaf(array, type))
    else:
        state[name] = wrap(leaf(array, type))
