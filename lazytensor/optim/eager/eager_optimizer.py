"""The base of PyTorch's own optimizers: a rule on arrays, applied at once.

The rules compute in NumPy on values that exist, and write the results back as leaves: an eager loop records no graph
for its updates, so it neither grows nor slows down. Inside a traced step values do not exist; there the optimizers of
`lazytensor.optim` (cstorch.optim) are the ones to use; a step that is planned, without arrays, records these rules.
"""

from abc import ABCMeta
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lazytensor import cells, optim, source
from lazytensor import dtype as dt
from lazytensor.dtype import round_to
from lazytensor.errors import TraceError, refuse
from lazytensor.ir.graph import Node, leaf
from lazytensor.ir.types import Type
from lazytensor.optim.eager.batches import SCALARS, batches, joined, parts, rounded
from lazytensor.optim.eager.recorded import RecordedArray, RecordedState
from lazytensor.optim.traced import optimizer
from lazytensor.tensor import Tensor, grad_mode, handle, untracked, wrap
from lazytensor.together import Whole, values_of, whole_of

Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
"""Parameters, groups of them with settings of their own, or parameters with names."""
State = dict[str, Any]
"""Arrays by the names that PyTorch's state dict gives them, and the host's float32 numbers for the 0-d ones."""
NUMBER = Type((), dt.float32)
"""What a scalar of the state is as a tensor."""


def refuse_negative(what: str, value: Any) -> None:
    """Raise ValueError for a setting below zero (or NaN)."""
    # Asked this way around, so that NaN, which compares as False, is refused.
    if not isinstance(value, Tensor) and not value >= 0.0:
        raise ValueError(f"Invalid {what}: {value}")


def counted(s: State) -> float:
    """The number of this step, which is noted in the state."""
    step: float = s.get("step", 0.0) + 1.0
    s["step"] = step
    return step


def started(s: State, name: str, like: np.ndarray, value: float = 0.0) -> np.ndarray:
    """A piece of state; before the first step it is `value` everywhere."""
    array = s.get(name)
    return np.full_like(like, value) if array is None else array


def _way_out(kind: type) -> str:
    """Return which call to write where a script makes an optimizer of this class, for a step that is traced."""
    name = next((c.__name__ for c in kind.__mro__ if c.__name__ in optim.__all__ and c.__name__ != "Optimizer"), "")
    if not name:
        return "Write it as a subclass of cstorch.optim.Optimizer, with its state made in preinitialize()."
    return (
        f"Write cstorch.optim.{name}(...) where the script makes it, in place of torch.optim.{name}(...), or "
        f"cbtorch.optim.{name}(...) for a loop in a cbtorch.Session."
    )


# Settings such as foreach, fused, capturable and differentiable choose among PyTorch's implementations of one rule.
# They are kept, since state dicts have them, in PyTorch's order, and change nothing here.
class _Family(ABCMeta):
    def __instancecheck__(cls, instance: object) -> bool:
        # The vendor's optimizers are PyTorch's too, by whatever way they compute.
        return super().__instancecheck__(instance) or (cls is Optimizer and isinstance(instance, optimizer.Optimizer))


class Optimizer(optimizer.Optimizer, metaclass=_Family):
    """Changes parameters by their gradients, as torch.optim does."""

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        # A model's parameters usually come as a generator, which can be read once.
        members: list[Any] = list(params)
        if members and isinstance(members[0], tuple):  # named parameters
            members = [p for _, p in members]
        # By this a schedule notices that it was asked to go on before the first update.
        self.steps_taken = 0
        super().__init__(members, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; a closure computes the loss first, which is returned.

        Raises TraceError inside a traced step.
        """
        if cells.here.current is not None and not cells.is_abstract:
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
                # Rates that a schedule gives as tensors are numbers here: nothing is traced.
                plain = {k: v.item() if isinstance(v, Tensor) else v for k, v in group.items() if k != "params"}
                # A parameter on "meta" has no value to change.
                ready = [p for p in group["params"] if p.grad is not None and p.device.type != "meta"]
                if cells.here.current is None:
                    for batch, numbers in batches(ready, self.state):
                        self._apply(plain, batch, dict(numbers))
                else:
                    for p in ready:
                        self._record(plain, p)
        self.steps_taken += 1
        return loss

    def _apply(self, group: dict[str, Any], batch: list[Tensor], numbers: dict[str, float]) -> None:
        """The rule on parameters that go together; `numbers` are the scalars of their state."""
        states = [self.state[p] for p in batch]
        cells_of = {name: [s[name].cell for s in states] for name in states[0] if name not in SCALARS}
        wholes = {name: whole_of(some) for name, some in cells_of.items()}
        new: State = dict(numbers)
        for name, whole in wholes.items():
            new[name] = joined([s[name].array() for s in states]) if whole is None else whole.array
        g = _values([p.grad for p in batch])  # type: ignore[misc]
        # Before the rule, whose weight decay is not turned round with the gradient.
        if group.get("maximize"):
            g = -g
        # Half types are held in float32 on the host, so a rule rounds to them once at its end; PyTorch rounds after
        # each operation.
        updated = self.rule(group, _values(batch), g, new)
        dtype = batch[0].dtype
        for name, value in new.items():
            if name in SCALARS:
                _set_all(states, name, leaf(np.asarray(value, np.float32), NUMBER))
            elif len(batch) == 1:
                _set(states[0], name, parts(value, batch, dtype)[0], batch[0].spec)
            elif (whole := wholes.get(name)) is not None:
                whole.replace(rounded(value, dtype), cells_of[name])
            else:
                for s, p in zip(states, batch, strict=True):
                    if name not in s:
                        s[name] = handle(cells.Cell.outside(cells.without_value(p.spec)))
                Whole(rounded(value, dtype)).take([s[name].cell for s in states])
        leaves = [leaf(part, p.spec) for p, part in zip(batch, parts(updated, batch, dtype), strict=True)]
        if cells.is_abstract or any(p.lens or p.__dict__ for p in batch):
            for p, n in zip(batch, leaves, strict=True):
                p.write(n)
            return
        # As `write`, without its questions: the values are of the parameters' types, and no gradient is recorded.
        for p in batch:
            p._seen = p._node = None
        cells.write_all([p.cell for p in batch], leaves)

    def _record(self, group: dict[str, Any], p: Tensor) -> None:
        """The rule as nodes of the step that is recorded."""
        gradient = p.grad.node  # type: ignore[union-attr]
        number = next(i for i, other in enumerate(self._parameters()) if other is p)
        name = f"optimizer_{self._number}" if self._number else "optimizer"
        state = RecordedState(p, self.state[p], f"{name}.state.{number}", SCALARS)
        g = RecordedArray(-gradient if group.get("maximize") else gradient, p.spec)
        value = RecordedArray(untracked(p.node), p.spec)
        updated: Any = self.rule(group, value, g, state)  # type: ignore[arg-type]
        state.write()
        p.write(updated.node)

    def rule(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, s: State) -> np.ndarray:
        """The new value of a parameter. State is read from `s` and put back there; arrays given are not written to."""
        raise NotImplementedError(f"{type(self).__name__} defines neither step nor rule")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over state and settings. Raises ValueError if the groups do not fit."""
        # State that the file does not have is that of an optimizer before its first step.
        self.state.clear()
        super().load_state_dict(state_dict)

    def _load_one(self, p: Tensor, name: str, value: Any) -> None:
        # Old files have the step as a number, newer ones as a tensor; the rest takes the type of the parameter.
        if name in SCALARS:
            number = value.item() if isinstance(value, Tensor) else value
            _set(self.state[p], name, np.asarray(number, np.float32), NUMBER)
        elif value is not None:
            array = np.array(value.array(), p.dtype.host)
            _set(self.state[p], name, round_to(array, p.dtype), Type(array.shape, p.dtype))

    # What PyTorch's optimizers pickle. The number that names state in a graph is not part of it.
    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved)
        # Absent in what PyTorch has pickled.
        self.__dict__.setdefault("steps_taken", 0)


def _values(tensors: list[Tensor]) -> np.ndarray:
    """The elements of all tensors, in one array if they are several."""
    if len(tensors) == 1:
        return _value(tensors[0])
    array = None if any(t.lens for t in tensors) else values_of([t.cell for t in tensors])
    return joined([_value(t) for t in tensors]) if array is None else array


def _value(t: Tensor) -> np.ndarray:
    """The elements of a tensor, mostly without a node for its being a variable."""
    n = t.cell.node
    return t.array() if t.lens or n is None or n.value is None else n.value


def _set_all(states: list[State], name: str, number: Node) -> None:
    """Make one number the value of all of them."""
    for s in states:
        if name not in s:
            s[name] = wrap(number)
        elif (cell := s[name].cell).home is None:
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
