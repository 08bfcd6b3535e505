"""Classify what a tensor of the step is computed from: weights, constants, or the batch."""

from collections.abc import Iterable

from lazytensor.core.tensor import Tensor
from lazytensor.ir.graph import Node, topological
from lazytensor.ir.operation import OPS
from lazytensor.nn import Parameter

MAX_VISITED_NODES = 20_000
"""Number of nodes to visit before a tensor counts as computed from the batch, as most tensors are."""


def find_state_name(t: Tensor) -> str | None:
    """Return the name of the state that `t` is or only reshapes, or None for other tensors."""
    if isinstance(t, Parameter):  # its node may be an update from this step
        return t.cell.state
    n = t.node
    # Follow reshapes: a reshaped weight counts as the weight.
    while OPS[n.op].renames:
        n = n.inputs[0]
    return str(n.attrs["id"]) if n.op == "state" and is_weight(n) else None


def is_weight(n: Node) -> bool:
    """Return whether a state leaf has a name in a module or optimizer. Unnamed tensors and random state do not."""
    return is_weight_name(str(n.attrs["id"]))


def is_weight_name(state: str) -> bool:
    """Return whether the name `state` is one in a module or optimizer."""
    return not state.startswith(("unnamed.", "rng"))


def find_origins(roots: Iterable[Node]) -> set[str]:
    """Return which of "batch", "weight" and "other" (unnamed state) the nodes `roots` depend on.

    Returns {"batch"} after MAX_VISITED_NODES nodes, to save time in large steps.
    """
    origins = set()
    for k, n in enumerate(topological(roots)):
        # Assume the batch to save time: in a large step nearly everything depends on it.
        if k > MAX_VISITED_NODES:
            return {"batch"}
        if n.op == "batch":
            origins.add("batch")
        elif n.op == "state":
            origins.add("weight" if is_weight(n) else "other")
    return origins


def is_from_weights_only(t: Tensor) -> bool:
    """Return whether a tensor depends on weights and on nothing else."""
    return find_origins([t.node]) == {"weight"}


def is_constant(t: Tensor) -> bool:
    """Return whether a tensor is the same in every step: it depends on neither the batch nor any state."""
    return not find_origins([t.node])


def is_traced(n: Node) -> bool:
    """Return whether a node depends on the batch or on weights. Return True after MAX_VISITED_NODES nodes."""
    waiting, seen = [n], {n}
    # Search depth first: most nodes depend on the batch, which the search then reaches after a few nodes.
    while waiting and len(seen) <= MAX_VISITED_NODES:
        m = waiting.pop()
        if m.op == "batch" or (m.op == "state" and is_weight(m)):
            return True
        new = [i for i in m.inputs if i not in seen]
        seen.update(new)
        waiting += new
    return bool(waiting)
