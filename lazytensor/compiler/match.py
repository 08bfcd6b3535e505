"""Matching: choose a library kernel for each node that cannot be part of a loop nest. Kernels are tried by benefit."""

from lazytensor.compiler.index_map import MOVEMENT_OPS
from lazytensor.compiler.kernel_calls import is_leaf
from lazytensor.compiler.scalar_bodies import is_literal, is_pointwise, is_reduction
from lazytensor.ir.graph import Graph, Node
from lazytensor.kernels import LIBRARY, Kernel, Match

Matches = dict[Node, tuple[Kernel, Match]]


def is_fusible(n: Node) -> bool:
    """Return whether a node can be part of a loop nest. A view or an "arange" can unless it or an operand is empty."""
    # Nodes without elements go to the fallback kernel.
    if n.op in MOVEMENT_OPS or n.op == "arange":
        return n.type.size > 0 and all(i.type.size > 0 for i in n.inputs)
    return is_literal(n) or is_pointwise(n) or is_reduction(n)


def match(graph: Graph) -> Matches:
    """Return the kernel and match of each node that is neither a leaf, a reshape nor part of a loop nest.

    Kernels are tried in the order of LIBRARY; the first one that matches is chosen.
    """
    matches: Matches = {}
    for n in graph.nodes():
        # A reshape refers to the elements of its input, and a "result" to one of the results of its node.
        if is_leaf(n) or n.op in ("result", "reshape") or is_fusible(n):
            continue
        matches[n] = next((kernel, candidate) for kernel in LIBRARY if (candidate := kernel.match(n)) is not None)
    return matches
