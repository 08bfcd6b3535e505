"""Replay the construction of gradient nodes when a training loop computes the gradients of an equal graph again.

A gradient rule depends only on operations, attributes, types and operands. If all of these equal those of an earlier
iteration, the rules would create the same nodes. Creating them from a recipe is faster than calling the rules.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from lazytensor.ir.graph import Node, NodeTemplate, node_from_template, node_template, topological
from lazytensor.ir.types import Where

MAX_REMEMBERED_QUERIES = 8
"""Number of cached gradient queries; an iteration may have several losses."""
MAX_REPLAYED_NODES = 4000
"""Maximum number of nodes in a cached query. Longer graphs come from unrolled loops, mostly of varying length."""

QueryForm = tuple[Hashable, ...]


class ReplaySteps(NamedTuple):
    """A recipe for the result of a query.

    - `constants`: constant nodes that are reused.
    - `steps`: a template and operand indices, for each node to create.
    - `answers`: the index of each result; None for no gradient.

    Indices count the nodes of the query, then the constants, then the created nodes.
    """

    constants: tuple[Node, ...]
    steps: tuple[tuple[NodeTemplate, tuple[int, ...]], ...]
    answers: tuple[int | None, ...]


class AnsweredQuery:
    """A cached query: the form of its graph, and from the second time on the recipe of its result."""

    __slots__ = ("form", "places", "recipe", "times")

    def __init__(self, form: QueryForm, places: tuple[Where | None, ...]):
        self.form, self.places = form, places  # keeps the locations alive, whose ids are in the form
        self.recipe: ReplaySteps | None = None
        self.times = 0


_answered_queries: list[AnsweredQuery] = []


class GradientQuery:
    """The computation of the gradients of each node of `wanted`, with `seeds` as the gradients of the outputs.

    `order` has the differentiable nodes, operands before users.
    """

    def __init__(self, order: Sequence[Node], seeds: Sequence[Node], wanted: Sequence[Node]):
        self._numbers = numbers = {n: k for k, n in enumerate(order)}
        sides = [i for n in order if n.op != "variable" for i in n.inputs if i not in numbers]
        # Include the subgraphs of other operands, because rules may depend on how an operand was computed.
        beside = [n for n in topological([*sides, *seeds], numbers.__contains__) if n not in numbers]
        for n in beside:
            numbers[n] = len(numbers)
        self._nodes = nodes = [*order, *beside]
        self._places = tuple([n.where for n in nodes])
        self._form: QueryForm = (
            len(order),
            tuple([n.op for n in nodes]),
            tuple([n.items for n in nodes]),
            tuple([n.tracks for n in nodes]),
            tuple([id(place) for place in self._places]),  # by identity: equal locations may have different call frames
            tuple([n.type for n in nodes if n.op == "variable" or not n.inputs]),
            tuple([len(n.inputs) for n in nodes]),
            tuple([numbers.get(i, -1) for n in nodes for i in n.inputs]),
            tuple([numbers[n] for n in seeds]),
            tuple([numbers.get(n, -1) for n in wanted]),
        )
        self._known = self._look()

    def _look(self) -> AnsweredQuery:
        """Return the cached query of the same form; if there is none, add a new one to the cache.

        The oldest query is dropped beyond MAX_REMEMBERED_QUERIES.
        """
        global _answered_queries
        form = self._form
        for known in _answered_queries:
            if known.form == form:
                return known
        known = AnsweredQuery(form, self._places)
        # Create a new list, because another thread may be iterating over this one.
        _answered_queries = [known, *_answered_queries[: MAX_REMEMBERED_QUERIES - 1]]
        return known

    def answers(self) -> list[Node | None] | None:
        """Return the gradients as nodes built from the recipe, with None for no gradient.

        Return None if there is no recipe and the rules must be called.
        """
        recipe = self._known.recipe
        if recipe is None:
            return None
        nodes = [*self._nodes, *recipe.constants]
        for model, inputs in recipe.steps:
            nodes.append(node_from_template(model, tuple([nodes[k] for k in inputs])))
        return [None if k is None else nodes[k] for k in recipe.answers]

    def remember(self, answers: Sequence[object]) -> None:
        """Record the result of the gradient rules.

        `answers` has a node, a GradientSlice or None for each wanted node. The second time an equal query is
        answered, its recipe is made. There is no recipe if an answer is a GradientSlice or depends on a constant
        array. Later calls do nothing.
        """
        known = self._known
        known.times += 1
        # A `GradientSlice` is not a node.
        if known.times != 2 or not all(n is None or isinstance(n, Node) for n in answers):
            return
        numbers = dict(self._numbers)
        roots = [n for n in answers if isinstance(n, Node)]
        new = [n for n in topological(roots, numbers.__contains__) if n not in numbers]
        constants = [n for n in new if not n.inputs]
        work = [n for n in new if n.inputs]
        # Any other leaf holds an array that is not part of the query's graph.
        if any(n.op not in ("full", "const") for n in constants):
            return
        for n in (*constants, *work):
            numbers[n] = len(numbers)
        known.recipe = ReplaySteps(
            tuple(constants),
            tuple((node_template(n), tuple(numbers[i] for i in n.inputs)) for n in work),
            tuple(numbers[n] if isinstance(n, Node) else None for n in answers),
        )


def clear_answered_queries() -> None:
    """Clear the cache."""
    global _answered_queries
    _answered_queries = []
