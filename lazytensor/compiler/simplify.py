"""Algebraic simplification by rewrite rules.

The rules cancel views and conversions that have no effect, and move transposes into matrix products. Operations on
constants that have one value everywhere are folded, in the arithmetic of their dtype.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from lazytensor.compiler.dump import REWRITES, is_shown, show
from lazytensor.core import source
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.pattern import Bindings, KeepOperand, Pat, Rule, RuleSet, any_, pat
from lazytensor.ops import OPS, call, const, full
from lazytensor.ops.products import matmul
from lazytensor.ops.shape import transpose

MAX_FOLDED_ELEMENTS = 1 << 16
"""A constant is folded with a broadcast only if the result has at most this many elements."""


def _is_swap(n: Node) -> bool:
    """Return whether a transpose exchanges the last two dimensions and leaves the others in place."""
    p = n.attrs["permutation"]
    return len(p) >= 2 and p == (*range(len(p) - 2), len(p) - 1, len(p) - 2)


def _flip_transpose_flags(bindings: Bindings, n: Node) -> Node:
    """Rewrite a product of a transpose to a product with the flag transpose_a or transpose_b inverted."""
    a, b = n.inputs
    flags = dict(n.attrs)
    if "u" in bindings:
        a, flags["transpose_a"] = bindings["u"], not flags["transpose_a"]
    if "v" in bindings:
        b, flags["transpose_b"] = bindings["v"], not flags["transpose_b"]
    return matmul(a, b, **flags)


def _transpose_product(bindings: Bindings, n: Node) -> Node | None:
    """Rewrite the transpose of a stack of products by (a b)^T = b^T a^T: the same sums in the same order.

    Return None for two-dimensional products and for other operands.
    """
    product = bindings["p"]
    # A two-dimensional transpose is free because BLAS reads it in place, so the operand order stays as written.
    if product.op != "matmul" or len(product.type.shape) == 2:
        return None
    a, b = product.inputs
    return matmul(b, a, not product.attrs["transpose_b"], not product.attrs["transpose_a"])


def _move_transpose_below_cast(bindings: Bindings, n: Node) -> Node:
    """Rewrite cast(transpose(x)) to transpose(cast(x)), so that a matrix product can absorb the transpose."""
    return transpose(call("cast", bindings["x"], dtype=n.attrs["dtype"]), bindings["t"].attrs["permutation"])


def _merge_transposes(bindings: Bindings, n: Node) -> Node:
    """Rewrite two transposes to one with the composed permutation, or to none if it is the identity."""
    outer, inner = n.attrs["permutation"], n.inputs[0].attrs["permutation"]
    order = tuple(inner[p] for p in outer)
    x = bindings["x"]
    return x if order == tuple(range(len(order))) else transpose(x, order)


def _swap_pattern(name: str) -> Pat:
    return pat("transpose", any_(name), when=_is_swap)


def _keeps_dims(n: Node) -> bool:
    """Return whether a reduction keeps its reduced dimensions with extent 1."""
    return bool(n.attrs["keepdim"])


def _drop_kept_dims(bindings: Bindings, n: Node) -> Node | None:
    """Rewrite a reshape that removes the kept dimensions of a reduction to the reduction with keepdim=False.

    Return None if the reshape gives another shape.
    """
    inner = n.inputs[0]
    short = call(inner.op, *inner.inputs, **{**inner.attrs, "keepdim": False})
    return short if short.type == n.type else None


def fill_with_value(bindings: Bindings, n: Node) -> Node:
    """Rewrite an operation on a constant of one value to a constant of that value with the type of the result."""
    return full(bindings["k"].attrs["value"], n.type)


def _fold_broadcast(bindings: Bindings, n: Node) -> Node | None:
    """Rewrite a broadcast of a constant to a constant, unless the result has more than MAX_FOLDED_ELEMENTS."""
    # A folded constant takes memory for the life of the program; a broadcast in a nest costs nothing.
    if n.type.size > MAX_FOLDED_ELEMENTS:
        return None
    return const(OPS["broadcast_in_dim"].eval(bindings["k"].value, **n.attrs), n.type)


def _fold_constants(operate: Callable[..., np.ndarray], bindings: Bindings, n: Node) -> Node | None:
    """Fold an operation on two floating-point constants to a constant, in the arithmetic of their host dtype.

    `operate` is NumPy's function. Return None for integers and booleans.
    """
    # Integer overflow and division have special rules, which are not worth repeating here.
    if n.type.dtype.kind != "f":
        return None
    kind = n.type.dtype.host.type
    with np.errstate(all="ignore"):
        return full(float(operate(kind(bindings["k"].attrs["value"]), kind(bindings["other"].attrs["value"]))), n.type)


ANY_X, KEEP_X = any_("x"), KeepOperand("x")
SPLAT_K, SPLAT_OTHER = Pat("full", (), "k"), Pat("full", (), "other")
RULES = RuleSet(
    "algebra",
    [
        # These rules keep all bits, also of NaN, infinities and signed zeros.
        Rule("x * 1 = x", ANY_X * 1, KEEP_X),
        Rule("1 * x = x", 1 * ANY_X, KEEP_X),
        Rule("x / 1 = x", ANY_X / 1, KEEP_X),
        Rule("x - 0 = x", ANY_X - 0, KEEP_X),
        Rule("transpose(transpose(x))", pat("transpose", pat("transpose", ANY_X)), _merge_transposes),
        Rule("reshape(reduce(x, keepdim))", pat("reshape", pat("reduce", ANY_X, when=_keeps_dims)), _drop_kept_dims),
        Rule(
            "reshape(arg_reduce(x, keepdim))",
            pat("reshape", pat("arg_reduce", ANY_X, when=_keeps_dims)),
            _drop_kept_dims,
        ),
        Rule("reshape there and back", pat("reshape", pat("reshape", ANY_X)), KEEP_X),
        # This rule comes before those that absorb transposes of operands, so that no rule undoes another.
        Rule("transpose of a stack of products", _swap_pattern("p"), _transpose_product),
        Rule("broadcast of one value", pat("broadcast_in_dim", SPLAT_K), fill_with_value),
        Rule("broadcast of a constant", pat("broadcast_in_dim", Pat("const", (), "k")), _fold_broadcast),
        Rule("quotient of one value", SPLAT_K / SPLAT_OTHER, partial(_fold_constants, np.divide)),
        Rule("product of one value", SPLAT_K * SPLAT_OTHER, partial(_fold_constants, np.multiply)),
        Rule("reshape to the same shape", pat("reshape", ANY_X), KEEP_X),
        Rule("cast to the same type", pat("cast", ANY_X), KEEP_X),
        Rule(
            "cast(transpose(x))",
            pat("cast", pat("transpose", ANY_X, name="t", when=_is_swap)),
            _move_transpose_below_cast,
        ),
        Rule("product of a transpose, left", pat("matmul", _swap_pattern("u"), any_("b")), _flip_transpose_flags),
        Rule("product of a transpose, right", pat("matmul", any_("a"), _swap_pattern("v")), _flip_transpose_flags),
    ],
)


def simplify(graph: Graph) -> Graph:
    """Return the graph after all rules. Every value keeps its bits.

    At LT_DEBUG level 2 or with LT_DUMP, the applied rules are printed or written to a file.
    """
    if not is_shown(REWRITES):
        return RULES.rewrite(graph, at=source.fixed_location)
    steps: list[str] = []

    def note(rule: Rule, before: Node, after: Node) -> None:
        steps.append(f"{rule.name}: {before} -> {after}")

    lowered = RULES.rewrite(graph, note, at=source.fixed_location)
    show(REWRITES, "rewrites", lambda: "\n".join(steps))
    return lowered
