"""Gradients as a graph: from output nodes to nodes for the derivatives, by the `vjp` rule of each op."""

import threading
from collections.abc import Callable, Sequence

from lazytensor.core import source
from lazytensor.errors import AutogradError
from lazytensor.ir.graph import Node, topological
from lazytensor.ir.node_replay import MAX_REPLAYED_NODES, GradientQuery
from lazytensor.ops.buffer_slices import GradientSlice, materialize_slice
from lazytensor.ops.formula import Gradients, accumulate_gradient, pullback, push_gradient

NODE_HOOK_KEY = "arrival"
"""Key in a node's memo of a function that is given its gradient when that is complete, and answers what goes on."""
_hook_count = 0


class _NodeOrder(threading.local):
    """What the walk back that this thread is at has to pass: from where, and the nodes."""

    roots: tuple[Node, ...] | None = None
    order: list[Node] | None = None


_node_order = _NodeOrder()


class cached_node_order:
    """A block that asks more than once for the nodes below `outputs`, of which no more are made in it."""

    __slots__ = ("_before", "_outputs")

    def __init__(self, outputs: Sequence[Node]):
        self._outputs = tuple(outputs)

    def __enter__(self) -> None:
        self._before = _node_order.roots, _node_order.order
        _node_order.roots, _node_order.order = self._outputs, None

    def __exit__(self, *error: object) -> None:
        _node_order.roots, _node_order.order = self._before


def register_node_hook(n: Node, arrival: Callable[[Node], Node]) -> None:
    """Have a function called with the gradient of a node, in walks to come."""
    global _hook_count
    # A gradient that is remembered was computed without the function.
    _hook_count += 1
    if n.memo is None:
        n.memo = {}
    n.memo[NODE_HOOK_KEY] = arrival


def grad(outputs: Sequence[Node], seeds: Sequence[Node], wrt: Sequence[Node]) -> list[Node | None]:
    """The derivative of sum(seed * output) with respect to each node of `wrt`; None where no path leads.

    Raises AutogradError if an output carries no gradient.
    """
    return [materialize_slice(g) for g in gradients_of(outputs, seeds, wrt)]


def gradients_of(
    outputs: Sequence[Node],
    seeds: Sequence[Node],
    wrt: Sequence[Node],
    is_everywhere: bool = False,
    is_recurring: bool = False,
) -> list[Node | GradientSlice | None]:
    """As `grad`, but what is a piece of a longer gradient comes as that.

    With `is_everywhere` those who watch are told of gradients that lead to no node of `wrt` too.
    With `is_recurring` the question may have been asked of equal nodes that are gone.

    Equal questions get the same nodes back without walking the graph again, so a step that is traced anew each time
    pays once.
    Raises AutogradError if an output carries no gradient.
    """
    # Not the node that remembers: it would be in a cycle with all below it, whose arrays then wait for a search.
    question = (tuple(outputs[1:]), tuple(seeds), tuple(wrt), _hook_count)
    memo = outputs[0].memo
    if memo is None:
        memo = outputs[0].memo = {}
    if question in memo:
        known: list[Node | GradientSlice | None] = memo[question]
        return known
    order = tracked_nodes(outputs)
    gradients = _seed_gradients(outputs, seeds)
    if any(n.op == "custom_vjp" or (n.memo is not None and NODE_HOOK_KEY in n.memo) for n in order):
        return _pull_back_with_hooks(
            order, gradients, wrt, is_everywhere
        )  # a user's function is to be called each time
    turn = GradientQuery(order, seeds, wrt) if is_recurring and len(order) <= MAX_REPLAYED_NODES else None
    replayed = turn.answers() if turn is not None else None
    if replayed is not None:
        answers: list[Node | GradientSlice | None] = [*replayed]
    else:
        gradients = pullback(order, gradients, wrt, in_pieces=True)
        answers = [gradients.get(n) for n in wrt]
        if turn is not None:
            turn.remember(answers)
    memo[question] = answers
    return answers


def tracked_nodes(outputs: Sequence[Node]) -> list[Node]:
    """The nodes below `outputs` through which a gradient may flow, inputs before users."""
    if _node_order.order is not None and _node_order.roots == tuple(outputs):
        return _node_order.order
    # What a leaf shows was computed without gradients.
    order = [n for n in topological(outputs, lambda n: not n.tracks or n.op == "variable") if n.tracks]
    if _node_order.roots == tuple(outputs):
        _node_order.order = order
    return order


def _seed_gradients(outputs: Sequence[Node], seeds: Sequence[Node]) -> Gradients:
    gradients: Gradients = {}
    for output, seed in zip(outputs, seeds, strict=True):
        if not output.tracks:
            raise AutogradError(
                "element 0 of tensors does not require grad and does not have a grad_fn",
                where=source.where(),
                hint="Compute it from a parameter, or from a tensor with requires_grad=True, outside no_grad().",
            )
        accumulate_gradient(gradients, output, seed)
    return gradients


def _pull_back_with_hooks(
    order: Sequence[Node], gradients: Gradients, wrt: Sequence[Node], is_everywhere: bool
) -> list[Node | GradientSlice | None]:
    """The gradients of `wrt`, in a walk that tells those who watch and goes only where somebody waits for it."""
    wanted = set(wrt)
    passed: set[Node] = set()
    for n in order:
        if is_everywhere or any(i in wanted or i in passed for i in n.inputs):
            passed.add(n)
    answers: dict[Node, Node] = {}
    for n in reversed(order):
        before = materialize_slice(gradients.pop(n, None))
        if before is None or not (n in passed or n in wanted):
            continue
        arrival = n.memo.get(NODE_HOOK_KEY) if n.memo is not None else None
        after = before if arrival is None else arrival(before)
        # Recorded from PyTorch 2.13.0: who asks for a gradient that also goes on gets it as it was before the hooks.
        answers[n] = before if n in passed and not is_everywhere else after
        if n in passed and n.inputs:
            push_gradient(gradients, n, after, wanted)
    return [answers.get(n) for n in wrt]


def leaf_variables(outputs: Sequence[Node]) -> list[Node]:
    """The `variable` nodes that `outputs` depend on, in the order of the walk."""
    memo = outputs[0].memo
    if memo is None:
        memo = outputs[0].memo = {}
    key = ("leaves", *outputs[1:])  # without the node itself, as in `gradients_of`
    if key not in memo:
        # A leaf that several tensors share appears once; the order decides in which order hooks run.
        memo[key] = [n for n in tracked_nodes(outputs) if n.op == "variable"]
    variables: list[Node] = memo[key]
    return variables
