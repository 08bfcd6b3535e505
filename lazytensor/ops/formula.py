"""Composite operations: derive value and gradient of an operation from a formula of simpler operations.

A formula is a function from nodes and attributes to a node, or to a tuple of nodes for several results.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazytensor.core import source
from lazytensor.core.dtype import dtype_of_array, round_to
from lazytensor.ir.buffer_slices import materialize_slice
from lazytensor.ir.graph import Node, intern_key, node, topological
from lazytensor.ir.operation import OPS, Formula, elementwise_work, no_work
from lazytensor.ir.types import Type
from lazytensor.ops.op import call, op, same_types

MAX_PLANS = 256
"""Number of remembered evaluations of one formula, by operand types and attributes. A full table is cleared."""


class _Plan(NamedTuple):
    """The operations of a formula, in order.

    - `constants`: the values that do not depend on the operands.
    - `steps`: for each operation its node, and the indices of its operands. Indices count the operands of the formula,
      then the constants, then the operations.
    - `results`: the indices of the results.
    - `is_tuple`: whether the formula returns a tuple.
    """

    constants: tuple[np.ndarray, ...]
    steps: tuple[tuple[Node, tuple[int, ...]], ...]
    results: tuple[int, ...]
    is_tuple: bool


def evaluate_formula(formula: Formula) -> Callable[..., Any]:
    """Return a function of NumPy arrays that computes what `formula` computes of nodes.

    It takes attributes by name, and returns a tuple if `formula` does. Each operation's result is rounded to its dtype.
    Operand arrays are not converted, even if their dtype is wider than that of the node.
    """
    plans: dict[Any, _Plan] = {}

    def eval(*arrays: np.ndarray, **attrs: Any) -> Any:
        key = (*[(a.shape, a.dtype) for a in arrays], intern_key("", (), attrs))
        try:
            plan = plans.get(key)
        except TypeError:  # an attribute is an array
            return _run(_plan(formula, arrays, attrs), arrays)
        if plan is None:
            if len(plans) >= MAX_PLANS:
                plans.clear()
            plan = plans[key] = _plan(formula, arrays, attrs)
        return _run(plan, arrays)

    return eval


def _plan(formula: Formula, arrays: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> _Plan:
    # The graph is built over placeholders with the types of the arrays.
    types = [Type(a.shape, dtype_of_array(a)) for a in arrays]
    leaves = [node("batch", (), {"index": i, "name": "", "type": t}, t) for i, t in enumerate(types)]
    result = formula(*leaves, **attrs)
    roots = result if isinstance(result, tuple) else (result,)
    new = [n for n in topological(roots, leaves.__contains__) if n not in leaves]
    constants = [n for n in new if n.value is not None]
    work = [n for n in new if n.value is None]
    numbers = {n: k for k, n in enumerate((*leaves, *constants, *work))}
    return _Plan(
        tuple(n.value for n in constants if n.value is not None),
        tuple((n, tuple(numbers[i] for i in n.inputs)) for n in work),
        tuple(numbers[r] for r in roots),
        isinstance(result, tuple),
    )


def _run(plan: _Plan, arrays: Sequence[np.ndarray]) -> Any:
    values: list[Any] = [*arrays, *plan.constants]
    # NumPy warns where PyTorch returns NaN or infinity silently, and tests treat warnings as errors.
    with np.errstate(all="ignore"):
        for n, operands in plan.steps:
            result = OPS[n.op].eval(*[values[k] for k in operands], **n.attrs)
            # Each step is rounded, as when the graph runs node by node: half types are stored in float32 arrays.
            values.append(
                result if isinstance(result, tuple) else round_to(np.asarray(result, n.type.dtype.host), n.type.dtype)
            )
    results = tuple(values[k] for k in plan.results)
    return results if plan.is_tuple else results[0]


class ResultGradients:
    """The gradients of the results of a node with several results. Results without a gradient are missing."""

    def __init__(self, parts: dict[int, Node]):
        self._parts = parts

    def get(self, index: int) -> Node | None:
        """Return the gradient of result `index`, or None."""
        return self._parts.get(index)

    def __add__(self, other: "ResultGradients") -> "ResultGradients":
        total = dict(self._parts)
        for index, g in other._parts.items():
            total[index] = total[index] + g if index in total else g
        return ResultGradients(total)


Gradients = dict[Node, Any]
"""Gradients by node: a node, a `GradientSlice`, or `ResultGradients` for a node with several results."""


def differentiate_formula(formula: Formula) -> Callable[..., tuple[Node | None, ...]]:
    """Return the gradient rule of a formula, derived from the rules of the operations in it.

    The rule returns one gradient for each operand, or None for an operand without one. An operand that occurs twice has
    the total first and then None.
    """

    def vjp(g: Any, y: Node, *inputs: Node, **attrs: Any) -> tuple[Node | None, ...]:
        result = formula(*inputs, **attrs)
        results = result if isinstance(result, tuple) else (result,)
        seeds: Gradients = {}
        for k, r in enumerate(results):
            seed = g.get(k) if isinstance(g, ResultGradients) else g
            if seed is not None:
                accumulate_gradient(seeds, r, seed)
        operands = set(inputs)
        # Only nodes of the formula are visited, not what its inputs depend on.
        order = [n for n in topological(results, operands.__contains__) if n.tracks and n not in operands]
        gradients = pullback(order, seeds, inputs)
        # An operand that occurs twice gets its total gradient at the first place, and None at the second.
        return tuple(gradients.pop(i, None) for i in inputs)

    return vjp


def composite(name: str, formula: Formula, infer: Any = same_types, flops: int = 1, **facets: Any) -> None:
    """Register an operation whose value, gradient and host graph are those of `formula`, unless a facet replaces them.

    `infer` is the type rule, and `flops` the flops per element. `facets` are fields of `Op`, such as `vjp`, `work` or
    `eval`.
    """
    facets = {"vjp": differentiate_formula(formula), "work": elementwise_work(flops)} | facets
    eval = facets.pop("eval", None) or evaluate_formula(formula)
    op(name, infer, eval, composite=formula, **facets)


def pullback(order: Sequence[Node], gradients: Gradients, wrt: Iterable[Node], in_pieces: bool = False) -> Gradients:
    """Propagate gradients backward through the nodes of `order`, and return all gradients that remain.

    `order` lists inputs before users. `gradients` holds the gradients to start from, by node, and is modified. The
    gradients of nodes in `wrt`, and of nodes outside of `order`, remain; others are dropped after use. A
    `GradientSlice` becomes a node in the result, unless `in_pieces`.
    """
    wanted = set(wrt)
    for n in reversed(order):
        g = gradients.get(n) if n in wanted else gradients.pop(n, None)
        if g is not None and n.inputs:
            push_gradient(gradients, n, g, wanted)
    return gradients if in_pieces else {n: materialize_slice(g) for n, g in gradients.items()}


# A "result" passes its gradient to its operation, whose rule is called once with the gradients of all results.
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
    """Add a gradient `g` of node `n` to the one in `gradients`, which is modified.

    The first gradient of a node is stored as it is, and a `GradientSlice` becomes a node when another one is added.
    """
    before = gradients.get(n)
    gradients[n] = g if before is None else _add_gradients(materialize_slice(before), materialize_slice(g))


def _add_gradients(a: Any, b: Any) -> Any:
    """Return the sum of two gradients of one node.

    Two "split_grad" nodes of the same split with different parts become one "split_grad" node instead.
    """
    if isinstance(a, Node) and isinstance(b, Node) and a.op == b.op == "split_grad":
        cut, other = ({k: v for k, v in n.attrs.items() if k != "indices"} for n in (a, b))
        parts = dict(zip((*a.attrs["indices"], *b.attrs["indices"]), (*a.inputs, *b.inputs), strict=True))
        if cut == other and len(parts) == len(a.inputs) + len(b.inputs):
            ordered = sorted(parts)
            return call("split_grad", *(parts[k] for k in ordered), **cut, indices=tuple(ordered))
    return a + b


gradient_inspector: Callable[[Node, int, Any], None] | None = None
"""A function (node, operand number, gradient) that is called for each gradient in anomaly detection mode, or None."""


def inspect_gradients(function: Callable[[Node, int, Any], None] | None) -> None:
    """Set the function that is called with each gradient from now on; None disables it.

    It gets the node, the number of its operand, and the gradient of that operand.
    """
    global gradient_inspector
    gradient_inspector = function


def push_gradient(gradients: Gradients, n: Node, g: Any, wanted: Container[Node] = ()) -> None:
    """Apply the gradient rule of node `n` to its gradient `g`, and add the results to those of its inputs in
    `gradients`, which is modified.

    Do nothing if the operation has no rule. The gradient of an automatic cast ("convert") is converted back and added
    to that of the cast's operand, unless the cast is in `wanted`. Inputs that do not track gradients are skipped. The
    new nodes get the source location of `n`, marked as backward.
    """
    rule = OPS[n.op].vjp
    if rule is None:
        return
    place = n.where or source.where()
    # Gradients get the location of their forward operation, with `.bwd` after the module's path, as in the front end.
    with source.fixed_location(place.backward):
        # Strict, so that a rule that omits an input fails here.
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
