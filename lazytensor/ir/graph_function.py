"""Functions of a graph: nodes that are recorded again and again of other values, held as one call each time.

A call is a node with several results, and `inline_calls` writes its nodes out. Hundreds of parameters of a deep net are
updated in the same way: the graph of a GPT with calls has less than half of the nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lazytensor.ir.graph import Graph, Node, NodeTemplate, new_uninterned_node, node_from_template, node_template

CALL_OP, RESULT_OP = "function.call", "function.result"
"""The operations of a call, and of one of its results."""
VARIABLE_OP = "variable"
"""The operation that gives a parameter its mark, by which gradients find it."""


@dataclass(frozen=True, eq=False)
class GraphFunction:
    """Nodes behind so many values that they are a function of, each with the places of its inputs, and of the results.

    Places count the values, then the constants, then the nodes.
    """

    values: int
    constants: tuple[Node, ...]
    nodes: tuple[tuple[NodeTemplate, tuple[int, ...]], ...]
    results: tuple[int, ...]

    def inline(self, given: Sequence[Node], mark: int) -> list[Node]:
        """The results of other values, which have the types of the first ones, for the parameter of that mark."""
        values = [*given, *self.constants]
        for model, places in self.nodes:
            own = _set_parameter_id(model, mark) if model[0] == VARIABLE_OP else model
            values.append(node_from_template(own, tuple([values[k] for k in places])))
        return [values[k] for k in self.results]

    def call(self, given: Sequence[Node], mark: int) -> list[Node]:
        """The same, as results of one call; written out at once where a gradient may flow through one of them."""
        values = [*given, *self.constants]
        if self._tracks:
            return self.inline(given, mark)
        # No other parameter is given the same, so that no table has to know them.
        call = new_uninterned_node(_set_parameter_id(self._call, mark) if self._is_marked else self._call, tuple(given))
        # What is only handed through needs no call.
        return [
            values[k] if model is None else new_uninterned_node(model, (call,))
            for k, model in zip(self.results, self._models, strict=True)
        ]

    @cached_property
    def _is_marked(self) -> bool:
        return any(model[0] == VARIABLE_OP for model, _ in self.nodes)

    @cached_property
    def _tracks(self) -> bool:
        return any(model is not None and model[5] for model in self._models)

    @cached_property
    def _call(self) -> NodeTemplate:
        where = self.nodes[-1][0][4] if self.nodes else None
        return CALL_OP, {"function": self}, (("function", self, GraphFunction),), (), where, False

    @cached_property
    def _models(self) -> list[NodeTemplate | None]:
        """What each result of a call is; None for a value that is given, and for a constant."""
        first = self.values + len(self.constants)
        nodes = [self.nodes[k - first][0] if k >= first else None for k in self.results]
        return [
            None if n is None else (RESULT_OP, {"index": k}, (("index", k, int),), n[3], n[4], n[5])
            for k, n in enumerate(nodes)
        ]


def _set_parameter_id(model: NodeTemplate, mark: int) -> NodeTemplate:
    op, attrs, items, type, where, tracks = model
    others = tuple(item for item in items if item[0] != "uid")
    return op, {**attrs, "uid": mark}, (*others, ("uid", mark, int)), type, where, tracks


def inline_calls(graph: Graph) -> Graph:
    """The graph with the nodes of each call in its place."""
    whole: dict[Node, Node] = {}
    results: dict[Node, list[Node]] = {}
    for n in graph.nodes():
        if n.op == RESULT_OP:
            whole[n] = results[n.inputs[0]][n.attrs["index"]]
            continue
        inputs = tuple([whole[i] for i in n.inputs])
        if n.op == CALL_OP:
            results[n] = n.attrs["function"].inline(inputs, n.attrs.get("uid", 0))
        else:
            whole[n] = n if inputs == n.inputs else node_from_template(node_template(n), inputs)
    return graph.replace_roots(whole.__getitem__) if results else graph
