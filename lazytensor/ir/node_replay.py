"""Build gradients once when a training loop computes the gradients of an equal graph again.

A gradient rule depends only on operations, attributes, types and operands. If all of these equal those of an earlier
iteration, the rules would create the same nodes. From the third equal query on, the gradients are the results of one
call of a function (`graph_function`) that contains these nodes, and no rule is called.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from lazytensor.ir.buffer_slices import GradientSlice, JoinedGradient
from lazytensor.ir.graph import Node, node_template, topological
from lazytensor.ir.graph_function import GraphFunction
from lazytensor.ir.types import Type, Where

MAX_REMEMBERED_QUERIES = 64
"""Number of cached gradient queries; an iteration may have several losses. The least recently used one is dropped."""
MAX_REPLAYED_NODES = 4000
"""Maximum number of nodes in a cached query. Longer graphs come from unrolled loops, mostly of varying length."""

QueryForm = tuple[Hashable, ...]
Answer = Node | GradientSlice | None
"""The gradient of one node."""


class SliceAnswer(NamedTuple):
    """A `GradientSlice` of a recipe.

    - `joined`: the index of its `JoinedGradient` in `Recipe.joined`.
    - `start`, `type`: the fields of the slice.
    """

    joined: int
    start: int
    type: Type


class Recipe(NamedTuple):
    """How to build the result of a query.

    - `operands`: the indices of the nodes of the query that the function takes.
    - `function`: the function whose results are the gradients.
    - `joined`: the result of the function, the dimension and the location of each `JoinedGradient`.
    - `answers`: each gradient as its index in the results of the function, or as a slice; None for no gradient.
    """

    operands: tuple[int, ...]
    function: GraphFunction
    joined: tuple[tuple[int, int, Where], ...]
    answers: tuple[int | SliceAnswer | None, ...]


class AnsweredQuery:
    """A cached query: the form of its graph, and from the second time on the recipe of its result."""

    __slots__ = ("form", "places", "recipe", "times")

    def __init__(self, form: QueryForm, places: tuple[Where | None, ...]):
        self.form, self.places = form, places  # keeps the locations alive, whose ids are in the form
        self.recipe: Recipe | None = None
        self.times = 0


_answered_queries: OrderedDict[int, AnsweredQuery] = OrderedDict()
"""Queries by the hash of their form. A form is long, so the hash is computed once."""


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
            # The number of a leaf does not matter: a script may create its leaf in each iteration.
            tuple([n.items if n.op != "variable" else () for n in nodes]),
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
        """Return the cached query of the same form; if there is none, add a new one to the cache."""
        digest = hash(self._form)
        known = _answered_queries.get(digest)
        if known is None or known.form != self._form:
            known = _answered_queries[digest] = AnsweredQuery(self._form, self._places)
            if len(_answered_queries) > MAX_REMEMBERED_QUERIES:
                _drop_oldest()
        else:
            _mark_used(digest)
        return known

    def answers(self, is_detached: bool) -> list[Answer] | None:
        """Return the gradients, with None for no gradient. With `is_detached`, they have no gradient history.

        Return None if there is no recipe and the rules must be called.
        """
        recipe = self._known.recipe
        if recipe is None:
            return None
        nodes = self._nodes
        results = recipe.function.call([nodes[k] for k in recipe.operands], 0, is_detached)
        joined = [JoinedGradient(results[k], dim, place) for k, dim, place in recipe.joined]
        answers: list[Answer] = []
        for k in recipe.answers:
            if isinstance(k, SliceAnswer):
                answers.append(GradientSlice(joined[k.joined], k.start, k.type))
            else:
                answers.append(None if k is None else results[k])
        return answers

    def remember(self, answers: Sequence[Answer]) -> None:
        """Record the result of the gradient rules.

        `answers` has the gradient of each wanted node, or None. The second time an equal query is answered, its recipe
        is made. There is no recipe if an answer depends on an array that is not a constant. Later calls do nothing.
        """
        known = self._known
        known.times += 1
        if known.times != 2:
            return
        query = self._numbers
        joined = list(dict.fromkeys(g.of for g in answers if isinstance(g, GradientSlice)))
        roots = list(dict.fromkeys([*(n for n in answers if isinstance(n, Node)), *(whole.node for whole in joined)]))
        new = [n for n in topological(roots, query.__contains__) if n not in query]
        constants = [n for n in new if not n.inputs]
        work = [n for n in new if n.inputs]
        # Any other leaf holds an array that is not part of the query's graph.
        if any(n.op not in ("full", "const") for n in constants):
            return
        # Only the nodes that the gradients need are operands, so that a call keeps no others alive.
        read = {*roots, *(i for n in work for i in n.inputs)}
        operands = [n for n in query if n in read]
        numbers = {n: k for k, n in enumerate((*operands, *constants, *work))}
        function = GraphFunction(
            len(operands),
            tuple(constants),
            tuple((node_template(n), tuple(numbers[i] for i in n.inputs)) for n in work),
            tuple(numbers[n] for n in roots),
        )
        places = {n: k for k, n in enumerate(roots)}
        wholes = {whole: k for k, whole in enumerate(joined)}

        def described(answer: Answer) -> int | SliceAnswer | None:
            if isinstance(answer, GradientSlice):
                return SliceAnswer(wholes[answer.of], answer.start, answer.type)
            return None if answer is None else places[answer]

        known.recipe = Recipe(
            tuple(query[n] for n in operands),
            function,
            tuple((places[whole.node], whole.dim, whole.place) for whole in joined),
            tuple(map(described, answers)),
        )


def _mark_used(digest: int) -> None:
    # Another thread may have dropped the query in the meantime.
    with contextlib.suppress(KeyError):
        _answered_queries.move_to_end(digest)


def _drop_oldest() -> None:
    with contextlib.suppress(KeyError):
        _answered_queries.popitem(last=False)


def clear_answered_queries() -> None:
    """Clear the cache."""
    _answered_queries.clear()
