"""Nodes made again as they were made of equal nodes before: a loop asks for the gradients of equal losses.

A rule for a gradient looks at operations, attributes, types and inputs, and at nothing else. Where all of these are as
they were a turn ago it would make the same nodes, which take less time to make than to ask for.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from lazytensor.ir.graph import Node, NodeTemplate, node_from_template, node_template, topological
from lazytensor.ir.types import Where

MAX_REMEMBERED_QUERIES = 8
"""Questions remembered: a turn may have several losses."""
MAX_REPLAYED_NODES = 4000
"""Longer ones are asked of unrolled loops, and mostly of another length each time."""

QueryForm = tuple[Hashable, ...]


class ReplaySteps(NamedTuple):
    """How the answers are made: of nodes that were there, of `constants`, and step by step of those and each other."""

    constants: tuple[Node, ...]
    steps: tuple[tuple[NodeTemplate, tuple[int, ...]], ...]
    answers: tuple[int | None, ...]


class AnsweredQuery:
    """A question that was asked, and after the second time how it is answered."""

    __slots__ = ("form", "places", "recipe", "times")

    def __init__(self, form: QueryForm, places: tuple[Where | None, ...]):
        self.form, self.places = form, places  # whose addresses are in the form
        self.recipe: ReplaySteps | None = None
        self.times = 0


_answered_queries: list[AnsweredQuery] = []


class GradientQuery:
    """What is asked of the nodes of `order`, which has inputs before users, with `seeds`, for each node of `wanted`."""

    def __init__(self, order: Sequence[Node], seeds: Sequence[Node], wanted: Sequence[Node]):
        self._numbers = numbers = {n: k for k, n in enumerate(order)}
        sides = [i for n in order if n.op != "variable" for i in n.inputs if i not in numbers]
        # With what is beside them, since rules look how an operand was computed.
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
            tuple([id(place) for place in self._places]),  # equal ones may have been reached by other ways
            tuple([n.type for n in nodes if n.op == "variable" or not n.inputs]),
            tuple([len(n.inputs) for n in nodes]),
            tuple([numbers.get(i, -1) for n in nodes for i in n.inputs]),
            tuple([numbers[n] for n in seeds]),
            tuple([numbers.get(n, -1) for n in wanted]),
        )
        self._known = self._look()

    def _look(self) -> AnsweredQuery:
        global _answered_queries
        form = self._form
        for known in _answered_queries:
            if known.form == form:
                return known
        known = AnsweredQuery(form, self._places)
        # A new list: another thread may be looking through this one.
        _answered_queries = [known, *_answered_queries[: MAX_REMEMBERED_QUERIES - 1]]
        return known

    def answers(self) -> list[Node | None] | None:
        """The nodes that are the answers; None where the rules are to be asked."""
        recipe = self._known.recipe
        if recipe is None:
            return None
        nodes = [*self._nodes, *recipe.constants]
        for model, inputs in recipe.steps:
            nodes.append(node_from_template(model, tuple([nodes[k] for k in inputs])))
        return [None if k is None else nodes[k] for k in recipe.answers]

    def remember(self, answers: Sequence[object]) -> None:
        """Note the answers, if the question was asked before."""
        known = self._known
        known.times += 1
        # A piece of a longer gradient is no node.
        if known.times != 2 or not all(n is None or isinstance(n, Node) for n in answers):
            return
        numbers = dict(self._numbers)
        roots = [n for n in answers if isinstance(n, Node)]
        new = [n for n in topological(roots, numbers.__contains__) if n not in numbers]
        constants = [n for n in new if not n.inputs]
        work = [n for n in new if n.inputs]
        # Any other would be an array that was there, and is not known by its number.
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
    """Be as a new process is."""
    global _answered_queries
    _answered_queries = []
