"""Functions in graphs: a subgraph that is repeated with other operands, such as the update of each parameter.

Each repetition is recorded as one call node with several results; `inline_calls` replaces calls by their bodies. The
graph of a training step of GPT has less than half as many nodes with calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lazytensor.ir.graph import (
    Graph,
    Node,
    NodeTemplate,
    new_uninterned_node,
    node_from_template,
    node_template,
    record_template,
)

CALL_OP, RESULT_OP = "function.call", "function.result"
"""The operations of a function call and of one of its results."""
VARIABLE_OP = "variable"
"""The operation that marks the value of a parameter, by which gradients find it."""


@dataclass(frozen=True, eq=False)
class GraphFunction:
    """A subgraph as a function of `values` operands.

    Fields:
    - `values`: the number of operands.
    - `constants`: the constants that the nodes use.
    - `nodes`: a template and the indices of the operands, for each node in topological order.
    - `results`: the indices of the results.

    Indices count the operands first, then the constants, then the nodes.
    """

    values: int
    constants: tuple[Node, ...]
    nodes: tuple[tuple[NodeTemplate, tuple[int, ...]], ...]
    results: tuple[int, ...]

    def inline(self, given: Sequence[Node], mark: int) -> list[Node]:
        """Return the results for the operands `given`, as nodes of the graph, as recorded calls of its operations.

        The operands must have the types of the recorded ones. `mark` is the number of the parameter (`Tensor.leaf_id`),
        for its `variable` node.
        """
        values = [*given, *self.constants]
        for model, places in self.nodes:
            own = _set_parameter_id(model, mark) if model[0] == VARIABLE_OP else model
            values.append(record_template(own, tuple([values[k] for k in places]), own[4]))
        return [values[k] for k in self.results]

    def call(self, given: Sequence[Node], mark: int, is_detached: bool = False) -> list[Node]:
        """Return the results for the operands `given`, as results of one new call node.

        A result that is an operand or a constant is returned itself. If a recorded result has a gradient history
        (`_tracks`), no call node is created and the nodes are inlined instead, unless `is_detached`.

        `mark` is the number of the parameter (`Tensor.leaf_id`) for the `variable` nodes of the function. It has no
        effect if the function has no such node.
        """
        values = [*given, *self.constants]
        if self._tracks and not is_detached:
            return self.inline(given, mark)
        # Operands differ for each parameter, so interning would not help.
        call = new_uninterned_node(_set_parameter_id(self._call, mark) if self._is_marked else self._call, tuple(given))
        # Operands and constants that are results are returned directly.
        return [
            values[k] if model is None else new_uninterned_node(model, (call,))
            for k, model in zip(self.results, self._models, strict=True)
        ]

    @cached_property
    def _types_by_results(self) -> dict[tuple[int, ...], tuple[Any, ...]]:
        return {}

    def types_for(self, results: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the types of the nodes that some results need. `results` are their indices.

        The type of a result that gradients may flow through occurs twice, for the node that detaches it.
        """
        known = self._types_by_results.get(results)
        if known is None:
            first = self.values + len(self.constants)
            needed = {self.results[k] for k in results}
            tracked = [k for k in needed if k >= first and self.nodes[k - first][0][5]]
            types = [self.nodes[k - first][0][3] for k in tracked]
            for at in range(len(self.nodes) - 1, -1, -1):
                model, places = self.nodes[at]
                if at + first in needed:
                    needed.update(places)
                    types.append(model[3])
            known = self._types_by_results[results] = tuple(types)
        return known

    @cached_property
    def _is_marked(self) -> bool:
        """Whether the function contains a `variable` node, so that a call needs the number of the parameter."""
        return any(model[0] == VARIABLE_OP for model, _ in self.nodes)

    @cached_property
    def _tracks(self) -> bool:
        """Whether gradients may flow through a result."""
        first = self.values + len(self.constants)
        return any(k >= first and self.nodes[k - first][0][5] for k in self.results)

    @cached_property
    def _call(self) -> NodeTemplate:
        """The template of a call node."""
        where = self.nodes[-1][0][4] if self.nodes else None
        return CALL_OP, {"function": self}, (("function", self, GraphFunction),), (), where, False

    @cached_property
    def _models(self) -> list[NodeTemplate | None]:
        """The template of each result of a call; None for a result that is an operand or a constant."""
        first = self.values + len(self.constants)
        nodes = [self.nodes[k - first][0] if k >= first else None for k in self.results]
        return [
            None if n is None else (RESULT_OP, {"index": k}, (("index", k, int),), n[3], n[4], False)
            for k, n in enumerate(nodes)
        ]


def _set_parameter_id(model: NodeTemplate, mark: int) -> NodeTemplate:
    """Return a template with the parameter number `mark` as its attribute `uid`, in place of an existing one."""
    op, attrs, items, type, where, tracks = model
    others = tuple(item for item in items if item[0] != "uid")
    return op, {**attrs, "uid": mark}, (*others, ("uid", mark, int)), type, where, tracks


def inline_calls(graph: Graph) -> Graph:
    """Return the graph with each function call replaced by the nodes of the function.

    A graph without calls is returned unchanged.
    """
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
