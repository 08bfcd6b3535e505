"""Equal updates: one parameter's update as a function, of which the values of another one are given.

An update is a function of the values that it is given and of nothing else. Where those of two parameters are of the
same types and the settings are equal, the same operations are recorded, so that they need not be asked for once more:
updates are most of the nodes of a step, and a deep net has hundreds of equal ones.
"""

from collections.abc import Sequence

from lazytensor.ir.graph import Node, node_template, topological
from lazytensor.ir.graph_function import GraphFunction
from lazytensor.ir.types import DRAW

CONSTANTS = ("full", "const")
"""Leaves that are the same in all updates."""


def function_of(given: Sequence[Node], results: Sequence[Node], mark: int) -> GraphFunction | None:
    """An update as a function of what it was given; None for one that depends on more, as on random numbers.

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
    return GraphFunction(
        values=len(given),
        constants=tuple(constants),
        nodes=tuple((node_template(n), tuple(places[i] for i in n.inputs)) for n in nodes),
        results=tuple(places[n] for n in results),
    )


def kind_of(given: Sequence[Node]) -> tuple[object, ...]:
    """What the values of two parameters have in common if the same is recorded of them: types, and which are one."""
    places = {n: k for k, n in enumerate(given)}
    return tuple([(n.type, n.tracks, places[n]) for n in given])
