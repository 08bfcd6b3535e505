"""What follows from a formula of simpler operations: the value and the gradient of a composite.

A formula takes nodes and attributes and gives a node, or a tuple of them for several results.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.core.dtype import dtype_of_array, round_to
from lazytensor.ir.graph import Node, node, set_merging, topological
from lazytensor.ir.operation import OPS, Formula, elementwise_work, no_work
from lazytensor.ir.types import Type
from lazytensor.ops.buffer_slices import materialize_slice
from lazytensor.ops.op import call, op, same_types


def evaluate_formula(formula: Formula) -> Callable[..., Any]:
    """Return a function of NumPy arrays that computes what `formula` computes of nodes.

    It computes in the types of the arrays that it is called with, and takes attributes by name.
    """

    def eval(*arrays: np.ndarray, **attrs: Any) -> Any:
        # The graph is made over stand-ins for the arrays, in whatever types they come.
        types = [Type(a.shape, dtype_of_array(a)) for a in arrays]
        leaves = [node("batch", (), {"index": i, "name": "", "type": t}, t) for i, t in enumerate(types)]
        result = formula(*leaves, **attrs)
        values = dict(zip(leaves, arrays, strict=True))
        roots = result if isinstance(result, tuple) else (result,)
        for n in topological(roots, values.__contains__):
            # The arrays that were given stay as they are, in a wider type than the row's too: tests check a row in
            # float64.
            if n not in values:
                values[n] = _evaluate_node(n, [values[i] for i in n.inputs])
        return tuple(values[n] for n in result) if isinstance(result, tuple) else values[result]

    return eval


def _evaluate_node(n: Node, arrays: Sequence[np.ndarray]) -> Any:
    if n.value is not None:
        return n.value
    # NumPy warns where PyTorch answers NaN or infinity in silence, and a warning is an error in the tests.
    with np.errstate(all="ignore"):
        result = OPS[n.op].eval(*arrays, **n.attrs)
    if isinstance(result, tuple):
        return result
    # Each step of a formula is rounded, as it is where the graph runs node by node: half types live in float32 arrays.
    return round_to(np.asarray(result, n.type.dtype.host), n.type.dtype)


class ResultGradients:
    """The gradient of a node with several results: that of each, where there is one."""

    def __init__(self, parts: dict[int, Node]):
        self._parts = parts

    def get(self, index: int) -> Node | None:
        """The gradient of one result."""
        return self._parts.get(index)

    def __add__(self, other: "ResultGradients") -> "ResultGradients":
        total = dict(self._parts)
        for index, g in other._parts.items():
            total[index] = total[index] + g if index in total else g
        return ResultGradients(total)


Gradients = dict[Node, Any]
"""A node for each node, a `GradientSlice` of one, or `ResultGradients` where it has several results."""


def differentiate_formula(formula: Formula) -> Callable[..., tuple[Node | None, ...]]:
    """The gradient of a formula by the rules of what it is made of."""

    def vjp(g: Any, y: Node, *inputs: Node, **attrs: Any) -> tuple[Node | None, ...]:
        result = formula(*inputs, **attrs)
        results = result if isinstance(result, tuple) else (result,)
        seeds: Gradients = {}
        for k, r in enumerate(results):
            seed = g.get(k) if isinstance(g, ResultGradients) else g
            if seed is not None:
                accumulate_gradient(seeds, r, seed)
        operands = set(inputs)
        # Only what the formula made is walked: the inputs have users of their own elsewhere.
        order = [n for n in topological(results, operands.__contains__) if n.tracks and n not in operands]
        gradients = pullback(order, seeds, inputs)
        # An operand that is given twice has one gradient, that of all its uses.
        return tuple(gradients.pop(i, None) for i in inputs)

    return vjp


def composite(name: str, formula: Formula, infer: Any = same_types, flops: int = 1, **facets: Any) -> None:
    """Register an operation whose value, gradient and host graph are those of a formula, unless a facet says else."""
    facets = {"vjp": differentiate_formula(formula), "work": elementwise_work(flops)} | facets
    eval = facets.pop("eval", None) or evaluate_formula(formula)
    op(name, infer, eval, composite=formula, **facets)


def pullback(order: Sequence[Node], gradients: Gradients, wrt: Iterable[Node], in_pieces: bool = False) -> Gradients:
    """Gradients pushed from the nodes in `gradients` through those of `order`, which has inputs before users.

    The gradients of `wrt` are kept; others are dropped when they have been used. Pieces stay that with `in_pieces`.
    """
    wanted = set(wrt)
    before = set_merging(True)
    try:
        for n in reversed(order):
            g = gradients.get(n) if n in wanted else gradients.pop(n, None)
            if g is not None and n.inputs:
                push_gradient(gradients, n, g, wanted)
    finally:
        set_merging(before)
    return gradients if in_pieces else {n: materialize_slice(g) for n, g in gradients.items()}


# Each of several results hands its gradient to the node that they are of, whose rule is asked once for all of them.
op(
    "result",
    lambda of, *, index: of[index],
    lambda of, *, index: of[index],
    vjp=lambda g, y, of, *, index: (ResultGradients({index: g}),),
    work=no_work,
    saves=False,
    is_leaf=True,
)


def accumulate_gradient(gradients: Gradients, n: Node, g: Any) -> None:
    """Add a gradient to what a node has already."""
    before = gradients.get(n)
    gradients[n] = g if before is None else _add_gradients(materialize_slice(before), materialize_slice(g))


def _add_gradients(a: Any, b: Any) -> Any:
    """Return the sum of two gradients of one node; those of different parts of one split are joined, not added."""
    if isinstance(a, Node) and isinstance(b, Node) and a.op == b.op == "split_grad":
        cut, other = ({k: v for k, v in n.attrs.items() if k != "indices"} for n in (a, b))
        parts = dict(zip((*a.attrs["indices"], *b.attrs["indices"]), (*a.inputs, *b.inputs), strict=True))
        if cut == other and len(parts) == len(a.inputs) + len(b.inputs):
            ordered = sorted(parts)
            return call("split_grad", *(parts[k] for k in ordered), **cut, indices=tuple(ordered))
    return a + b


gradient_inspector: Callable[[Node, int, Any], None] | None = None
"""Called with a node, the number of an operand and its gradient, while anomalies are looked for."""


def inspect_gradients(function: Callable[[Node, int, Any], None] | None) -> None:
    """Let a function see each gradient from now on; None ends that."""
    global gradient_inspector
    gradient_inspector = function


def push_gradient(gradients: Gradients, n: Node, g: Any, wanted: Container[Node] = ()) -> None:
    """Add what the gradient of a node gives its inputs to theirs.

    The gradient of an automatic cast is converted back at once, unless it is `wanted`: each use has a cast of its own.
    """
    rule = OPS[n.op].vjp
    if rule is None:
        return
    place = n.where or source.where()
    # The front end prints a gradient at the line of its forward operation, with `.bwd` after the module's path.
    with source.fixed_location(place.backward):
        # Strict, so that a rule which forgets an input fails at once and not as a gradient that is missing.
        for at, (i, d) in enumerate(zip(n.inputs, rule(materialize_slice(g), n, *n.inputs, **n.attrs), strict=True)):
            if d is None or not i.tracks:
                continue
            if gradient_inspector is not None:
                gradient_inspector(n, at, d)
            if i.op == "convert" and i not in wanted:
                (x,) = i.inputs
                accumulate_gradient(gradients, x, call("cast", materialize_slice(d), dtype=x.type.dtype))
            else:
                accumulate_gradient(gradients, i, d)
