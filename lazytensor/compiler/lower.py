"""Lowering: operations that are not legal on the target become graphs of those that are, as their rows say.

There are two targets. Legal in CIRH is what the vendor's front end prints; the rest is decomposed as it was seen to do.
On the host everything is legal that is no composite: log1p(x) by one loop is more exact than log(1 + x). What adds up
from parts among zeros is written in one go there.
"""

from collections.abc import Callable
from dataclasses import replace

from lazytensor.core import source
from lazytensor.ir.graph import Graph, Node, rebuild, replace_inputs, topological
from lazytensor.ir.types import Where
from lazytensor.ops import OPS
from lazytensor.ops.shape import join_disjoint_parts

LoweringRule = Callable[[Node, tuple[Node, ...]], Node | None]
"""From a node and its inputs in their last form to what stands in its place; None if that is the node itself."""


def _decompose_for_cirh(n: Node, inputs: tuple[Node, ...]) -> Node | None:
    # What has several results is decomposed where one of them is read: equal formulas are the same nodes.
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
    """The graph in the vocabulary of CIRH, as far as rules and decompositions are known."""
    return _lower(graph, _decompose_for_cirh, lambda op: OPS[op].cirh.decomposition is None)


def lower_to_host(graph: Graph, kept: frozenset[str] = frozenset()) -> Graph:
    """The graph in what the host can run: loop bodies, library kernels, NumPy for the rest, and what is `kept`."""
    return _lower(graph, _decompose_for_host, lambda op: op in kept or (OPS[op].composite is None and op != "add"))


def _original_location(n: Node) -> Where | None:
    """Where an operation was recorded, and that it is the one that was: what it is lowered to has other names."""
    return n.where and replace(n.where, operation=n.where.operation or n.op)


def _lower(graph: Graph, rule: LoweringRule, is_legal: Callable[[str], bool]) -> Graph:
    done: set[Node] = set()

    def change(old: Node, inputs: tuple[Node, ...]) -> Node:
        lowered = None
        # A result is decomposed with its operation.
        if not is_legal(old.inputs[0].op if old.op == "result" else old.op):
            # What replaces an operation belongs to the line of the user that recorded it.
            with source.fixed_location(_original_location(old)):
                replacement = rule(old, inputs)
                # A decomposition may use operations that are not legal either, so its result is lowered in turn.
                lowered = below(replacement, inputs) if replacement is not None else None
        lowered = replace_inputs(old, inputs) if lowered is None else lowered
        done.add(lowered)
        return lowered

    # What a rule gives may need lowering itself; what came in is lowered already and is not entered again.
    def below(root: Node, known: tuple[Node, ...]) -> Node:
        """Lower what a rule made, down to the nodes that are lowered already."""
        given = set(known)

        def is_ready(n: Node) -> bool:
            return n in done or n in given

        mapping: dict[Node, Node] = {}
        for n in topological([root], is_ready):
            mapping[n] = n if is_ready(n) else change(n, tuple(mapping[i] for i in n.inputs))
        return mapping[root]

    mapping = rebuild(graph.roots(), change)
    return graph.replace_roots(lambda root: mapping[root])
