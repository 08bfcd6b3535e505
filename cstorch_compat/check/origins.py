"""Tells what a tensor of the step is made of: a weight, weights alone, constants alone, or the batch."""

from collections.abc import Iterable

from lazytensor.core.tensor import Tensor
from lazytensor.ir.graph import Node, topological
from lazytensor.ir.operation import OPS
from lazytensor.nn import Parameter

MAX_VISITED_NODES = 20_000
"""Nodes that are visited before a tensor counts as made from the batch, as most are."""


def find_state_name(t: Tensor) -> str | None:
    """The name of the state that a tensor is, or is a plain view of; None for everything else."""
    if isinstance(t, Parameter):  # the step may have updated it already
        return t.cell.state
    n = t.node
    # A reshape of a weight is the weight under another shape.
    while OPS[n.op].renames:
        n = n.inputs[0]
    return str(n.attrs["id"]) if n.op == "state" and is_weight(n) else None


def is_weight(n: Node) -> bool:
    """Whether a state leaf has a name of its own; what the loop merely brought along has none."""
    return not str(n.attrs["id"]).startswith(("unnamed.", "rng"))


def find_origins(roots: Iterable[Node]) -> set[str]:
    """What the roots are computed from: "batch", "weight" and "other", as far as they occur."""
    origins = set()
    for k, n in enumerate(topological(roots)):
        # Guessed, for the sake of time: in a large step nearly everything depends on the batch.
        if k > MAX_VISITED_NODES:
            return {"batch"}
        if n.op == "batch":
            origins.add("batch")
        elif n.op == "state":
            origins.add("weight" if is_weight(n) else "other")
    return origins


def is_from_weights_only(t: Tensor) -> bool:
    """Whether no sample has a part in the value, but some weight has."""
    return find_origins([t.node]) == {"weight"}


def is_constant(t: Tensor) -> bool:
    """Whether the value is the same in every step: no sample and no state has a part in it."""
    return not find_origins([t.node])


def is_traced(t: Tensor) -> bool:
    """Whether the step computes the value, from the batch or from weights."""
    return bool(find_origins([t.node]) & {"batch", "weight"})
