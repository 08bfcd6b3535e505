"""Match: the nodes that library kernels compute, tried in order of benefit; all others are left to fuse.py."""

from lazytensor.compiler.index_map import MOVEMENT_OPS
from lazytensor.compiler.kernel_calls import is_leaf
from lazytensor.compiler.scalar_bodies import is_literal, is_pointwise, is_reduction
from lazytensor.ir.graph import Graph, Node
from lazytensor.kernels import LIBRARY, Kernel, Match

Matches = dict[Node, tuple[Kernel, Match]]


def is_fusible(n: Node) -> bool:
    """True where a node can be part of a loop nest."""
    # A nest over no elements has no loops to stand in: such nodes go to the kernel of last resort.
    if n.op in MOVEMENT_OPS or n.op == "arange":
        return n.type.size > 0 and all(i.type.size > 0 for i in n.inputs)
    return is_literal(n) or is_pointwise(n) or is_reduction(n)


def match(graph: Graph) -> Matches:
    """The kernel of each node that is neither a leaf nor part of a loop nest."""
    matches: Matches = {}
    for n in graph.nodes():
        # A reshape is another name for the same elements, and a result one of several that its node gives.
        if is_leaf(n) or n.op in ("result", "reshape") or is_fusible(n):
            continue
        matches[n] = next((kernel, candidate) for kernel in LIBRARY if (candidate := kernel.match(n)) is not None)
    return matches
