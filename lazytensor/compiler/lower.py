"""Lowering: operations that the target does not know become graphs of simpler ones, by their own `decompose`.

There are two targets. CIRH knows what the vendor's front end prints (`Op.native`); the host keeps every op that has a
loop body or is `whole`, since log1p(x) is more exact than log(1 + x), and takes `exact` before `decompose`.
"""

from collections.abc import Callable

from lazytensor import source
from lazytensor.ir.graph import Graph, Node, rebuild, same, topological
from lazytensor.ops import OPS, Op


def _for_cirh(op: Op) -> Callable[..., Node] | None:
    return None if op.native else op.decompose


def _for_host(op: Op) -> Callable[..., Node] | None:
    if op.exact is not None:
        return op.exact
    return None if op.native or op.scalar or op.whole else op.decompose


def lower_to_cirh(graph: Graph) -> Graph:
    """The graph in the vocabulary of CIRH, as far as decompositions are known."""
    return _lower(graph, _for_cirh)


def lower_to_host(graph: Graph) -> Graph:
    """The graph in what the host can run: loop bodies, library kernels, and NumPy for the rest."""
    return _lower(graph, _for_host)


def _lower(graph: Graph, rule: Callable[[Op], Callable[..., Node] | None]) -> Graph:
    def change(old: Node, inputs: tuple[Node, ...]) -> Node:
        decompose = rule(OPS[old.op])
        if decompose is None:
            return same(old, inputs)
        with source.at(old.where):
            return below(decompose(*inputs, **old.attrs), inputs)

    def below(root: Node, known: tuple[Node, ...]) -> Node:
        """Lower what a decomposition made, down to the nodes it was given."""
        ready = set(known)
        mapping: dict[Node, Node] = {}
        for n in topological([root], ready.__contains__):
            mapping[n] = n if n in ready else change(n, tuple(mapping[i] for i in n.inputs))
        return mapping[root]

    mapping = rebuild(graph.roots(), change)
    return graph.replaced(lambda root: mapping[root])
