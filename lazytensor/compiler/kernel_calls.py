"""Kernel calls that have no order and no buffers yet. `fuse` makes them, and `plan` arranges them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lazytensor.ir.graph import Node
from lazytensor.ir.nest import Nest
from lazytensor.ir.types import Type, Where, Work

StoredValue = tuple[Node, int]
"""One result of a node: the node, and the index of the result (0 for an operation with one result)."""


@dataclass(eq=False)
class KernelCall:
    """One kernel call.

    - `kernel`: the name of the kernel; "nest" for a loop nest.
    - `operands`: the nodes that it reads. A nest reads them as flat arrays.
    - `results`: the values that it computes.
    - `attrs`: the attributes of the kernel.
    - `nest`: the loop nest, or None for a library kernel.
    - `work`: its flops and bytes.
    - `where`: the line of the script.
    """

    kernel: str
    operands: tuple[Node, ...]
    results: tuple[StoredValue, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    nest: Nest | None = None
    work: Work = Work()
    where: Where | None = None


def stored_value(n: Node) -> StoredValue:
    """Return the value in memory that a node refers to: (the node that computes it, the index of the result).

    A reshape refers to the elements of its input, unless its own value is known.
    """
    # A reshape whose value is known is a separate constant.
    while n.op == "reshape" and n.value is None:
        n = n.inputs[0]
    return (n.inputs[0], n.attrs["index"]) if n.op == "result" else (n, 0)


def stored_type(value: StoredValue) -> Type:
    """Return the type of a stored value."""
    n, index = value
    type: Type = n.type[index] if isinstance(n.type, tuple) else n.type
    return type


def is_leaf(n: Node) -> bool:
    """Return whether a node has its elements before the step starts: state, batch, constants and known values."""
    return n.op in ("state", "batch", "const", "leaf") or n.value is not None
