"""Gradients as a graph: from output nodes to nodes for the derivatives, by the `vjp` rule of each op."""

from collections.abc import Sequence

from lazytensor import source
from lazytensor.errors import AutogradError
from lazytensor.ir.graph import Node, topological
from lazytensor.ops.formula import accumulate, pullback


def grad(outputs: Sequence[Node], seeds: Sequence[Node], wrt: Sequence[Node]) -> list[Node | None]:
    """The derivative of sum(seed * output) with respect to each node of `wrt`; None where no path leads.

    Equal questions get the same nodes back without walking the graph again, so a step that is traced anew each time
    pays once.
    Raises AutogradError if an output carries no gradient.
    """
    question = (tuple(outputs), tuple(seeds), tuple(wrt))
    memo = outputs[0].memo
    if memo is None:
        memo = outputs[0].memo = {}
    if question in memo:
        known: list[Node | None] = memo[question]
        return known
    order = tracked(outputs)
    gradients = _grad(order, outputs, seeds, wrt)
    if not any(n.op == "custom_vjp" for n in order):  # a user's function is to be called each time
        memo[question] = gradients
    return gradients


def tracked(outputs: Sequence[Node]) -> list[Node]:
    """The nodes below `outputs` through which a gradient may flow, inputs before users."""
    return [n for n in topological(outputs, lambda n: not n.tracks) if n.tracks]


def _grad(
    order: Sequence[Node], outputs: Sequence[Node], seeds: Sequence[Node], wrt: Sequence[Node]
) -> list[Node | None]:
    gradients: dict[Node, Node] = {}
    for output, seed in zip(outputs, seeds, strict=True):
        if not output.tracks:
            raise AutogradError(
                "element 0 of tensors does not require grad and does not have a grad_fn",
                where=source.where(),
                hint="Compute it from a parameter, or from a tensor with requires_grad=True, outside no_grad().",
            )
        accumulate(gradients, output, seed)
    gradients = pullback(order, gradients, wrt)
    return [gradients.get(n) for n in wrt]


def leaves(outputs: Sequence[Node]) -> list[Node]:
    """The `variable` nodes that `outputs` depend on, in the order of the walk."""
    memo = outputs[0].memo
    if memo is None:
        memo = outputs[0].memo = {}
    key = ("leaves", *outputs)
    if key not in memo:
        # A leaf that several tensors share appears once; the order decides in which order hooks run.
        memo[key] = [n for n in topological(outputs, lambda n: not n.tracks) if n.op == "variable" and n.tracks]
    variables: list[Node] = memo[key]
    return variables
