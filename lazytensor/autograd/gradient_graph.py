"""Build the graph of gradients of a graph of nodes, with the `vjp` rule of each operation."""

import threading
from collections.abc import Callable, Sequence

from lazytensor.core import source
from lazytensor.errors import AutogradError
from lazytensor.ir.buffer_slices import GradientSlice, materialize_slice
from lazytensor.ir.graph import Node, topological
from lazytensor.ir.node_replay import MAX_REPLAYED_NODES, GradientQuery
from lazytensor.ops.formula import Gradients, accumulate_gradient, pullback, push_gradient

NODE_HOOK_KEY = "arrival"
"""Key in `Node.memo` of a function that is called with the complete gradient of the node and returns its replacement.
"""
_hook_count = 0


class _NodeOrder(threading.local):
    """The cached result of `tracked_nodes` for this thread's current backward pass: the roots and the nodes."""

    roots: tuple[Node, ...] | None = None
    order: list[Node] | None = None


_node_order = _NodeOrder()


class cached_node_order:
    """A context manager that caches `tracked_nodes(outputs)`. No nodes below `outputs` may be changed inside of it."""

    __slots__ = ("_before", "_outputs")

    def __init__(self, outputs: Sequence[Node]):
        self._outputs = tuple(outputs)

    def __enter__(self) -> None:
        self._before = _node_order.roots, _node_order.order
        _node_order.roots, _node_order.order = self._outputs, None

    def __exit__(self, *error: object) -> None:
        _node_order.roots, _node_order.order = self._before


def register_node_hook(n: Node, arrival: Callable[[Node], Node]) -> None:
    """Call `arrival` with the gradient of `n` in later backward passes; its result replaces the gradient.

    An earlier hook of the node is replaced.
    """
    global _hook_count
    # The count is part of cache keys: cached gradients were computed without this hook.
    _hook_count += 1
    if n.memo is None:
        n.memo = {}
    n.memo[NODE_HOOK_KEY] = arrival


def grad(
    outputs: Sequence[Node],
    seeds: Sequence[Node],
    wrt: Sequence[Node],
    is_recurring: bool = False,
    is_recorded: bool = True,
) -> list[Node | None]:
    """Return the derivative of sum(seed * output) with respect to each node of `wrt`.

    Return None if the outputs do not depend on it. `is_recurring` and `is_recorded` are those of `gradients_of`.

    Raises AutogradError if an output requires no gradient.
    """
    return [materialize_slice(g) for g in gradients_of(outputs, seeds, wrt, False, is_recurring, is_recorded)]


def gradients_of(
    outputs: Sequence[Node],
    seeds: Sequence[Node],
    wrt: Sequence[Node],
    is_everywhere: bool = False,
    is_recurring: bool = False,
    is_recorded: bool = True,
) -> list[Node | GradientSlice | None]:
    """Return the gradient of each node of `wrt`; a part of a longer gradient is returned as a `GradientSlice`.

    It is None for a node that no gradient reaches. `seeds` are the gradients of `outputs`. The result is cached on the
    first output: the same arguments give the same nodes, so a step that is traced repeatedly builds its gradients once.
    Graphs with hooks or custom rules are not cached, because these functions must be called.

    - `is_everywhere`: call the hooks of all nodes, not only of those on a path to a node of `wrt`.
    - `is_recurring`: also reuse the result for equal graphs whose nodes were freed (see `node_replay`).
    - `is_recorded`: whether the gradients need a gradient history.

    Raises AutogradError if an output requires no gradient.
    """
    # The key leaves out outputs[0], which holds the cache: a reference cycle would delay the release of arrays.
    question = (tuple(outputs[1:]), tuple(seeds), tuple(wrt), _hook_count, is_recorded)
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
        )  # not cached, because functions of the user must be called each time
    turn = GradientQuery(order, seeds, wrt) if is_recurring and len(order) <= MAX_REPLAYED_NODES else None
    replayed = turn.answers(not is_recorded) if turn is not None else None
    if replayed is not None:
        answers: list[Node | GradientSlice | None] = [*replayed]
    else:
        gradients = pullback(order, gradients, wrt, in_pieces=True)
        answers = [gradients.get(n) for n in wrt]
        if turn is not None:
            turn.remember(answers)
    memo[question] = answers
    return answers


def _has_no_gradients_below(n: Node) -> bool:
    return not n.tracks or n.op == "variable"


def tracked_nodes(outputs: Sequence[Node]) -> list[Node]:
    """Return the nodes that `outputs` depend on and that gradients pass, operands before their users.

    The operands of leaves (`variable` nodes) are left out. Inside `cached_node_order(outputs)` the list is cached.
    """
    if _node_order.order is not None and _node_order.roots == tuple(outputs):
        return _node_order.order
    order = [n for n in topological(outputs, _has_no_gradients_below) if n.tracks]
    if _node_order.roots == tuple(outputs):
        _node_order.order = order
    return order


def _seed_gradients(outputs: Sequence[Node], seeds: Sequence[Node]) -> Gradients:
    """Return the initial gradients by output; the seeds of an output that occurs twice are added.

    Raises AutogradError if an output requires no gradient.
    """
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
    """Return the gradient of each node of `wrt`, or None, calling hooks and custom rules. `gradients` is emptied.

    Only nodes on a path to a node of `wrt` are visited, unless `is_everywhere` is set. Then a node of `wrt` has the
    result of its hook. Otherwise, a node of `wrt` through which the gradient is passed on has it as it was before its
    hook.
    """
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
        # As PyTorch 2.13.0: a requested gradient that is also passed on is returned as it was before the hooks.
        answers[n] = before if n in passed and not is_everywhere else after
        if n in passed and n.inputs:
            push_gradient(gradients, n, after, wanted)
    return [answers.get(n) for n in wrt]


def leaf_variables(outputs: Sequence[Node]) -> list[Node]:
    """Return the `variable` nodes that `outputs` depend on, in topological order.

    The result is cached on the first output.
    """
    memo = outputs[0].memo
    if memo is None:
        memo = outputs[0].memo = {}
    key = ("leaves", *outputs[1:])  # without outputs[0], as in `gradients_of`
    if key not in memo:
        # The order determines the order in which hooks run.
        memo[key] = [n for n in tracked_nodes(outputs) if n.op == "variable"]
    variables: list[Node] = memo[key]
    return variables
