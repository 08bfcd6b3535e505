"""Kernel calls before they have an order and buffers: what match.py and fuse.py make, and plan.py arranges."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lazytensor.ir.graph import Node
from lazytensor.ir.nest import Nest
from lazytensor.ir.types import Type, Where, Work

StoredValue = tuple[Node, int]
"""One result of a node; the number counts the results of operations that have several."""


@dataclass(eq=False)
class KernelCall:
    """One kernel call: operands by node, results by value. A nest reads its operands as flat arrays."""

    kernel: str
    operands: tuple[Node, ...]
    results: tuple[StoredValue, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    nest: Nest | None = None
    work: Work = Work()
    where: Where | None = None


def stored_value(n: Node) -> StoredValue:
    """The stored value that a node names: reshapes are other names for the same elements."""
    # A reshape whose value is known is a constant of its own.
    while n.op == "reshape" and n.value is None:
        n = n.inputs[0]
    return (n.inputs[0], n.attrs["index"]) if n.op == "result" else (n, 0)


def stored_type(value: StoredValue) -> Type:
    """The type of a stored value."""
    n, index = value
    type: Type = n.type[index] if isinstance(n.type, tuple) else n.type
    return type


def is_leaf(n: Node) -> bool:
    """True for what has its elements before the step starts."""
    return n.op in ("state", "batch", "const", "leaf") or n.value is not None
