"""Fold the printed graph as the vendor's front end folds before it prints, as seen in its texts.

Not all folds hold in IEEE arithmetic (`x + 0` is not x for -0.0, `x * 0` is not 0 for NaN). So they change only the
printed CIRH; the step that runs is the graph before these folds.
"""

import collections
from collections.abc import Callable

from lazytensor.compiler.simplify import RULES, fill_with_value
from lazytensor.core import source
from lazytensor.ir.graph import Graph, Node, rebuild, replace_inputs, unique_id
from lazytensor.ir.pattern import Bindings, Pat, Rule, RuleSet, pat
from lazytensor.ops import call, full
from lazytensor.ops.products import matmul

SKIPPED_RULE_NAMES = (
    "transpose(transpose(x))",
    "reshape there and back",
    "cast(transpose(x))",
    "reshape(reduce(x, keepdim))",
    "reshape(arg_reduce(x, keepdim))",
)
"""Rules of `simplify` that merge or exchange two operations of a script, which the front end prints separately."""
SPLAT_CAST_RULE = Rule("cast of one value", pat("cast", Pat("full", (), "k")), fill_with_value)
"""A rule that folds a cast of a constant with one value."""


def _is_scalar(n: Node) -> bool:
    return not n.type.shape


def _fold_scalar(bindings: Bindings, n: Node) -> Node:
    value = bindings["k"].value
    assert value is not None, "a constant has its value"
    return full(value.item(), n.type)


SCALAR_PATTERN = pat("const", name="k", when=_is_scalar)
FRONT_END_RULES = RuleSet(
    "front end",
    [
        SPLAT_CAST_RULE,
        Rule("cast of a scalar", pat("cast", SCALAR_PATTERN), _fold_scalar),
        Rule("broadcast of a scalar", pat("broadcast_in_dim", SCALAR_PATTERN), _fold_scalar),
        *(rule for rule in RULES.rules if rule.name not in SKIPPED_RULE_NAMES),
    ],
)


def fold_as_front_end(graph: Graph) -> Graph:
    """Return the graph as the vendor's front end prints it.

    Running statistics keep their old value, the rewrite rules of the front end are applied, and constants, transposes
    and negated differences are folded. An operand that a fold made constant is not folded further.
    """

    def change(old: Node, inputs: tuple[Node, ...]) -> Node:
        # Uses the operands before folding: an operand that a fold made constant is not folded further.
        fold = FOLDS.get(old.op)
        with source.fixed_location(old.where):
            n = _keep_distinct_sum(replace_inputs(old, inputs), old)
            result = fold(n, *(_splat_value(i) for i in old.inputs)) if fold else None
            if result is None and old.op == "mul":
                result = _fold_negated_difference(n, [uses[i] for i in old.inputs])
        return n if result is None else result

    tidy = FRONT_END_RULES.rewrite(_fold_transposed_products(_drop_running_statistics(graph)), at=source.fixed_location)
    uses = _count_uses(tidy)
    mapping = rebuild(tidy.roots(), change)
    return tidy.replace_roots(lambda root: mapping[root])


def _count_uses(graph: Graph) -> collections.Counter[Node]:
    return collections.Counter([i for n in graph.nodes() for i in n.inputs] + list(graph.roots()))


def _fold_transposed_products(graph: Graph) -> Graph:
    """Return the graph with each transpose of a matrix product rewritten to a product, if it is the product's
    only use.

    A transpose that moves nothing is dropped too. Stacks of matrices are unchanged.
    """
    uses = _count_uses(graph)

    def change(old: Node, inputs: tuple[Node, ...]) -> Node:
        n = replace_inputs(old, inputs)
        if n.op != "transpose" or n.inputs[0].op != "matmul" or uses[old.inputs[0]] > 1:
            return n
        with source.fixed_location(old.where):
            return _fold_transpose(n, None) or n

    mapping = rebuild(graph.roots(), change)
    return graph.replace_roots(lambda root: mapping[root])


def _drop_running_statistics(graph: Graph) -> Graph:
    """Return the graph in which running statistics keep their old value, because the vendor's text does not update
    them.

    FusedBatchNorm updates them itself. Running statistics are state that is an operand of a batch norm in training.
    """
    moved = {_strip_casts(i) for n in graph.nodes() if n.op == "batch_norm_training_all" for i in n.inputs[3:]}
    updates = {state: leaf if (leaf := graph.state[state]) in moved else n for state, n in graph.updates.items()}
    return Graph(graph.inputs, graph.state, graph.outputs, updates, graph.output_names)


def _strip_casts(n: Node) -> Node:
    while n.op == "cast":
        n = n.inputs[0]
    return n


def _keep_distinct_sum(n: Node, old: Node) -> Node:
    """Return an "add" whose operands a fold made constants as a node that is not merged with an equal one.

    Other nodes are returned unchanged. The front end merges equal operations before it folds, and not again: two sums
    `0 + 1` are printed twice.
    """
    if n.op != "add" or n is old or not all(i.op == "full" for i in n.inputs):
        return n
    return call("add", *n.inputs, uid=unique_id())


def _splat_value(n: Node) -> float | None:
    """Return the value of a constant that has one value everywhere, or None for other nodes."""
    return n.attrs["value"] if n.op == "full" else None


def _fold_add(n: Node, a: float | None, b: float | None) -> Node | None:
    x, y = n.inputs
    if b == 0 and a is None:
        return x
    return y if a == 0 and b is None else None


def _fold_mul(n: Node, a: float | None, b: float | None) -> Node | None:
    return full(0, n.type) if (a == 0) != (b == 0) else None


def _fold_negated_difference(n: Node, uses: list[int]) -> Node | None:
    """Rewrite -1 * (a - b), in either order, to b - a if the difference has no other use; else return None.

    `uses` has the number of uses of each operand.
    """
    x, y = n.inputs
    for difference, factor, count in ((x, y, uses[0]), (y, x, uses[1])):
        if difference.op == "sub" and _splat_value(factor) == -1 and count == 1:
            a, b = difference.inputs
            return b - a
    return None


def _fold_pow(n: Node, a: float | None, b: float | None) -> Node | None:
    return n.inputs[0] if b == 1 else None


def _fold_pool_reshape(n: Node, a: float | None) -> Node | None:
    """Return the max pooling result of which `n` is only a reshape back to its type, or None."""
    flat = n.inputs[0]
    pooled = flat.inputs[0] if flat.op == "reshape" else n
    window = pooled
    while window.op == "reshape":
        window = window.inputs[0]
    return pooled if pooled.type == n.type and window.op.startswith("pool_max") else None


def _fold_transpose(n: Node, a: float | None) -> Node | None:
    """Return x for a transpose that moves nothing, and b^T a^T for the transpose of a product a b of matrices.

    Return None for other transposes, also of stacks.
    """
    (x,), order = n.inputs, n.attrs["permutation"]
    if order == tuple(range(len(order))):
        return x
    if x.op != "matmul" or order != (1, 0):
        return None
    left, right = x.inputs
    return matmul(right, left, not x.attrs["transpose_b"], not x.attrs["transpose_a"])


def _fold_empty_reduction(n: Node, a: float | None) -> Node | None:
    """Return the operand of a reduction over no dimensions."""
    return None if n.attrs["dims"] else n.inputs[0]


FOLDS: dict[str, Callable[..., Node | None]] = {
    "add": _fold_add,
    "mul": _fold_mul,
    "pow": _fold_pow,
    "reduce": _fold_empty_reduction,
    "reshape": _fold_pool_reshape,
    "transpose": _fold_transpose,
}
"""The fold of an operation, by name. It takes the node, and for each operand its splat value or None."""
