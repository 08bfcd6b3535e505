"""Equal updates: the nodes of one parameter's update, with the values of another one in place of its own.

An update is a function of the values that it is given and of nothing else. Where those of two parameters are of the
same types and the settings are equal, the same operations are recorded, so that they need not be asked for once more:
updates are most of the nodes of a step, and a deep net has hundreds of equal ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lazytensor.ir.graph import Like, Node, again, like, topological
from lazytensor.ir.skeleton import DRAW

CONSTANTS = ("full", "const")
"""Leaves that are the same in all updates."""
VARIABLE = "variable"
"""The operation that gives a parameter its mark, by which gradients find it."""


@dataclass(frozen=True)
class Pattern:
    """Nodes of an update behind the values that it was given, each with the places of its inputs, and of results.

    Places count the values, then the constants, then the nodes.
    """

    constants: tuple[Node, ...]
    nodes: tuple[tuple[Like, tuple[int, ...]], ...]
    results: tuple[int, ...]

    def of(self, given: Sequence[Node], mark: int) -> list[Node]:
        """The results of other values, which have the types of the first ones, for the parameter of that mark."""
        values = [*given, *self.constants]
        for model, places in self.nodes:
            own = _marked(model, mark) if model[0] == VARIABLE else model
            values.append(again(own, tuple([values[k] for k in places])))
        return [values[k] for k in self.results]


def _marked(model: Like, mark: int) -> Like:
    op, _, _, type, where, tracks = model
    return op, {"uid": mark}, (("uid", mark, int),), type, where, tracks


def pattern_of(given: Sequence[Node], results: Sequence[Node], mark: int) -> Pattern | None:
    """The pattern of an update; None for one that depends on more than it was given, as on random numbers.

    `mark` is that of the parameter: what is read of it after it was written has the mark again.
    """
    # A value that is given twice stands in its first place.
    places = {n: k for k, n in reversed(list(enumerate(given)))}
    inner = [n for n in topological(results, places.__contains__) if n not in places]
    if any(DRAW in n.attrs or n.attrs.get("uid", mark) != mark for n in inner):
        return None
    if any(not n.inputs and n.op not in CONSTANTS for n in inner):
        return None
    constants, nodes = [n for n in inner if not n.inputs], [n for n in inner if n.inputs]
    for n in (*constants, *nodes):
        places[n] = len(given) + len(places) - len(set(given))
    return Pattern(
        constants=tuple(constants),
        nodes=tuple((like(n), tuple(places[i] for i in n.inputs)) for n in nodes),
        results=tuple(places[n] for n in results),
    )


def kind_of(given: Sequence[Node]) -> tuple[object, ...]:
    """What the values of two parameters have in common if the same is recorded of them: types, and which are one."""
    places = {n: k for k, n in enumerate(given)}
    return tuple((n.type, n.tracks, places[n]) for n in given)
