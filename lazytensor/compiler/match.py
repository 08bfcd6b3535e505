"""Match: the nodes that library kernels compute, tried in order of benefit; all others are left to fuse.py."""

from collections.abc import Iterable

from lazytensor.compiler.calls import is_leaf
from lazytensor.compiler.indexmap import MOVES
from lazytensor.compiler.scalars import is_literal, is_pointwise, is_reduction
from lazytensor.ir.graph import Node
from lazytensor.kernels import LIBRARY, Found, Kernel

Matched = dict[Node, tuple[Kernel, Found]]


def is_fusible(n: Node) -> bool:
    """True where a node can be part of a loop nest."""
    if n.op in MOVES or n.op == "arange":
        return n.type.size > 0 and all(i.type.size > 0 for i in n.inputs)
    return is_literal(n) or is_pointwise(n) or is_reduction(n)


def match(nodes: Iterable[Node]) -> Matched:
    """The kernel of each node that is neither a leaf nor part of a loop nest."""
    found: Matched = {}
    for n in nodes:
        if is_leaf(n) or n.op == "result" or (n.op == "reshape") or is_fusible(n):
            continue
        found[n] = next((kernel, hit) for kernel in LIBRARY if (hit := kernel.match(n)) is not None)
    return found
