"""The rules of eager optimizers recorded into a step: a rule on arrays, given what only looks like arrays.

A rule computes with NumPy's operators and a few of its functions. Where there are no arrays it gets nodes that answer
to the same, so that each rule stands once; its state is then that of a later step, which has all of it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from lazytensor import cells
from lazytensor.cells import Cell
from lazytensor.errors import TraceError
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.ops.op import combine, full
from lazytensor.tensor import Tensor, handle

UFUNCS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "power": "pow",
    "negative": "neg",
    "sqrt": "sqrt",
    "absolute": "abs",
    "sign": "sign",
    "maximum": "maximum",
    "minimum": "minimum",
    "greater": "gt",
    "less": "lt",
}
"""NumPy's functions of elements that rules use, and the operations of the same meaning."""
STEADY = 1000.0
"""The step that is recorded."""


class RecordedArray(NDArrayOperatorsMixin):
    """A node that a rule takes for an array."""

    def __init__(self, node: Node, type: Type):
        self.node, self.type = node, type  # the type is the parameter's, also of a comparison
        self.dtype: np.dtype = type.dtype.host

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **_: Any) -> "RecordedArray":
        if method != "__call__" or ufunc.__name__ not in UFUNCS:
            raise _unknown(ufunc.__name__)
        return RecordedArray(combine(UFUNCS[ufunc.__name__], *(_plain(x) for x in operands)), self.type)

    def __array_function__(self, function: Callable[..., Any], kinds: Any, args: Any, kwargs: Any) -> "RecordedArray":
        if function is np.where:
            condition, *branches = args
            return RecordedArray(call("where", condition.node, *(self._whole(x) for x in branches)), self.type)
        if function is np.clip:
            x, low, high = args
            return np.minimum(np.maximum(x, low), high)  # type: ignore[no-any-return]
        raise _unknown(function.__name__)

    def _whole(self, x: Any) -> Node:
        return x.node if isinstance(x, RecordedArray) else full(float(x), self.type)

    def astype(self, dtype: Any) -> "RecordedArray":
        """Itself: a node has the type of the parameter throughout."""
        return self


def _plain(x: Any) -> Any:
    return x.node if isinstance(x, RecordedArray) else float(x)


def _unknown(name: str) -> TraceError:
    return TraceError(
        f"a rule that uses numpy.{name} cannot be recorded", hint="Use the optimizer of the same name in cstorch.optim."
    )


class RecordedState(dict[str, Any]):
    """The state of one parameter, which is there from the first step on; `scalars` are Python's numbers as ever."""

    def __init__(self, p: Tensor, slots: dict[str, Tensor], prefix: str, scalars: tuple[str, ...]):
        super().__init__()
        self.p, self.slots, self.prefix, self.scalars = p, slots, prefix, scalars

    def get(self, name: str, default: Any = None) -> Any:
        """A number, or what the step before left of an array."""
        if name in self or name in self.scalars:
            # Late enough for rules that begin in another way than they go on.
            return super().get(name, STEADY if name == "step" else default)
        if name not in self.slots:
            # It counts as made before the step, where a real first step would make it.
            slot = self.slots[name] = handle(Cell.outside(cells.without_value(self.p.spec)))
            slot.device = self.p.device
            cells.register(slot.cell, f"{self.prefix}.{name}")
        return RecordedArray(self.slots[name].node, self.p.spec)

    def write(self) -> None:
        """Make what the rule has put into the state the new values of its tensors."""
        for name, value in self.items():
            if isinstance(value, RecordedArray):
                self.slots[name].write(value.node)
