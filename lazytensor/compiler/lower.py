"""Lowering: replace operations that are not legal on the target by graphs of legal ones.

There are two targets. For CIRH, operations that the vendor's front end prints are legal, and the others are decomposed
as that front end does. For the host, all operations except composites are legal: log1p(x) in one loop is more accurate
than log(1 + x). On the host, a sum of disjoint parts padded with zeros becomes one write.
"""

from collections.abc import Callable
from dataclasses import replace

from lazytensor.core import source
from lazytensor.ir.graph import Graph, Node, rebuild, replace_inputs, topological
from lazytensor.ir.types import Where
from lazytensor.ops import OPS
from lazytensor.ops.shape import join_disjoint_parts

LoweringRule = Callable[[Node, tuple[Node, ...]], Node | None]
"""A function from a node and its lowered inputs to the replacement of the node, or None to keep it."""


def _decompose_for_cirh(n: Node, inputs: tuple[Node, ...]) -> Node | None:
    # An operation with several results is decomposed at each "result" node; equal formulas become the same nodes.
    of = inputs[0] if n.op == "result" else n
    decomposition = OPS[of.op].cirh.decomposition
    if decomposition is None or isinstance(n.type, tuple):
        return None
    whole = decomposition(*of.inputs, **of.attrs) if n.op == "result" else decomposition(*inputs, **n.attrs)
    part: Node | None = whole[n.attrs["index"]] if n.op == "result" else whole
    return part


def _decompose_for_host(n: Node, inputs: tuple[Node, ...]) -> Node | None:
    if n.op == "add":
        return join_disjoint_parts(*inputs)
    composite = OPS[n.op].composite
    return None if composite is None else composite(*inputs, **n.attrs)


def lower_to_cirh(graph: Graph) -> Graph:
    """Return the graph in operations of CIRH. Operations without a known decomposition stay."""
    return _lower(graph, _decompose_for_cirh, lambda op, inputs: OPS[op].cirh.decomposition is None)


def lower_to_host(graph: Graph, kept: frozenset[str] = frozenset()) -> Graph:
    """Return the graph in operations that the host can run, plus those named in `kept`.

    These have loop bodies, library kernels or a NumPy function.
    """

    def is_legal(op: str, inputs: tuple[Node, ...]) -> bool:
        if op == "add":
            # Only writes can be joined.
            return op in kept or inputs[1].op != "slice_update"
        return op in kept or OPS[op].composite is None

    return _lower(graph, _decompose_for_host, is_legal)


def _original_location(n: Node) -> Where | None:
    """Return the location of `n` with the name of the recorded operation, for the nodes that replace `n`."""
    return n.where and replace(n.where, operation=n.where.operation or n.op)


def _lower(graph: Graph, rule: LoweringRule, is_legal: Callable[[str, tuple[Node, ...]], bool]) -> Graph:
    """Return the graph with each node that is not legal replaced by what `rule` returns, until all nodes are legal.

    `is_legal` gets the name of an operation and the lowered inputs. `rule` gets the node and its lowered inputs; if it
    returns None, the node stays. New nodes get the location of the replaced one.
    """
    done: set[Node] = set()

    def change(old: Node, inputs: tuple[Node, ...]) -> Node:
        lowered = None
        # A "result" node is lowered with its operation.
        if not is_legal(old.inputs[0].op if old.op == "result" else old.op, inputs):
            # The replacement gets the location of the user's line that recorded the operation.
            with source.fixed_location(_original_location(old)):
                replacement = rule(old, inputs)
                # A decomposition may use operations that are not legal either, so its result is lowered in turn.
                lowered = below(replacement, inputs) if replacement is not None else None
        lowered = replace_inputs(old, inputs) if lowered is None else lowered
        done.add(lowered)
        return lowered

    # A replacement may need lowering too; the inputs are lowered already and are not visited again.
    def below(root: Node, known: tuple[Node, ...]) -> Node:
        """Lower the replacement `root` of a node, down to nodes that are lowered already, and return the result."""
        given = set(known)

        def is_ready(n: Node) -> bool:
            return n in done or n in given

        mapping: dict[Node, Node] = {}
        for n in topological([root], is_ready):
            mapping[n] = n if is_ready(n) else change(n, tuple(mapping[i] for i in n.inputs))
        return mapping[root]

    mapping = rebuild(graph.roots(), change)
    return graph.replace_roots(lambda root: mapping[root])
