"""The identity whose gradient is a Python function: hooks on tensors, and functions with a backward of the user's."""

import numpy as np

from lazytensor.ir.graph import Node
from lazytensor.ir.operation import no_work
from lazytensor.ir.types import Type
from lazytensor.ops.op import op

RULE = "rule"
"""Key in a node's memo of the function from a gradient to those of the inputs; without one it goes to the first."""


def _vjp(g: Node, y: Node, *inputs: Node, uid: object) -> tuple[Node | None, ...]:
    rule = None if y.memo is None else y.memo.get(RULE)
    return (g, *(None for _ in inputs[1:])) if rule is None else rule(g)


def _first_type(x: Type, *others: Type, uid: object) -> Type:
    return x


def _first(x: np.ndarray, *others: np.ndarray, uid: object) -> np.ndarray:
    return x


def _first_node(x: Node, *others: Node, uid: object) -> Node:
    return x


# Each has its own `uid`: two hooks on equal values are two nodes. The other inputs only receive gradients.
op(
    "ruled",
    _first_type,
    _first,
    vjp=_vjp,
    put=lambda base, value, *, uid: value,
    work=no_work,
    composite=_first_node,
    saves=False,
)
