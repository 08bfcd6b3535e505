"""Lowering: operations that the target does not know become graphs of simpler ones, by their own `decompose`.

There are two targets. CIRH knows what the vendor's front end prints (`Op.native`); the host keeps every op that has a
loop body or is `whole`, since log1p(x) is more exact than log(1 + x), and takes `exact` before `decompose`.
"""

from collections.abc import Callable

from lazytensor import source
from lazytensor.cirh.rules import lowering
from lazytensor.ir.graph import Graph, Node, rebuild, same, topological
from lazytensor.ops import OPS

Rule = Callable[[Node, tuple[Node, ...]], Node | None]


def _for_cirh(n: Node, inputs: tuple[Node, ...]) -> Node | None:
    made = lowering(n.op, inputs, n.attrs)
    op = OPS[n.op]
    if made is not None or op.native or op.decompose is None:
        return made
    return op.decompose(*inputs, **n.attrs)


def _for_host(n: Node, inputs: tuple[Node, ...]) -> Node | None:
    op = OPS[n.op]
    parts = op.exact or (None if op.native or op.scalar or op.whole else op.decompose)
    return None if parts is None else parts(*inputs, **n.attrs)


def lower_to_cirh(graph: Graph) -> Graph:
    """The graph in the vocabulary of CIRH, as far as rules and decompositions are known."""
    return _lower(graph, _for_cirh)


def lower_to_host(graph: Graph) -> Graph:
    """The graph in what the host can run: loop bodies, library kernels, and NumPy for the rest."""
    return _lower(graph, _for_host)


def _lower(graph: Graph, rule: Rule) -> Graph:
    done: set[Node] = set()

    def change(old: Node, inputs: tuple[Node, ...]) -> Node:
        with source.at(old.where):
            made = rule(old, inputs)
            lowered = same(old, inputs) if made is None else below(made, inputs)
        done.add(lowered)
        return lowered

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
    return graph.replaced(lambda root: mapping[root])
