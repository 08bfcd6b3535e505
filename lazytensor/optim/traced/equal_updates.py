"""Record the update of one parameter as a function and reuse it for others.

An update depends only on its operands. If the operands of two parameters have the same types and their settings are
equal, the same operations are recorded, so the rule need not be called again. Updates are most of the nodes of a step,
and a deep network has hundreds of equal ones.
"""

from collections.abc import Sequence

from lazytensor.ir.graph import Node, node_template, topological
from lazytensor.ir.graph_function import GraphFunction
from lazytensor.ir.types import DRAW

CONSTANTS = ("full", "const")
"""Operations of leaves that are the same in all updates."""


def function_of(given: Sequence[Node], results: Sequence[Node], mark: int) -> GraphFunction | None:
    """Return the subgraph from `given` to `results` as a function; None if it depends on anything else.

    `mark` is the number of the parameter (`Tensor.leaf_id`): reading it after a write gives another `variable` node
    with that number. Nodes with another number, random numbers, and other leaves than constants make the result None.
    """
    # An operand that occurs twice has its first index.
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
    """Return a key that is equal for operand lists for which an update records the same nodes.

    It consists of the type of each operand, whether gradients flow through it, and which operands are the same node.
    """
    places = {n: k for k, n in enumerate(given)}
    return tuple([(n.type, n.tracks, places[n]) for n in given])
