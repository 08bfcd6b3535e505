"""Algebra as rules: views that cancel, conversions to the same type, transposes read by a matrix product.

Operations on constants that have one value everywhere are done here, in the arithmetic of their dtype.
"""

from collections.abc import Callable

import numpy as np

from lazytensor import source
from lazytensor.compiler.show import REWRITES, is_shown, show
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.pattern import Bindings, Pat, Rule, RuleSet, any_, pat
from lazytensor.ops import OPS, call, const, full
from lazytensor.ops.products import matmul
from lazytensor.ops.shape import transpose

FOLDED_ELEMENTS = 1 << 16
"""How large a constant may grow by being repeated."""


def _is_swap(n: Node) -> bool:
    """The last two dimensions exchanged, the others in place."""
    p = n.attrs["permutation"]
    return len(p) >= 2 and p == (*range(len(p) - 2), len(p) - 1, len(p) - 2)


def _flipped(bindings: Bindings, n: Node) -> Node:
    a, b = n.inputs
    flags = dict(n.attrs)
    if "u" in bindings:
        a, flags["transpose_a"] = bindings["u"], not flags["transpose_a"]
    if "v" in bindings:
        b, flags["transpose_b"] = bindings["v"], not flags["transpose_b"]
    return matmul(a, b, **flags)


def _turned_product(bindings: Bindings, n: Node) -> Node | None:
    """(a b)^T = b^T a^T: the same sums in the same order."""
    product = bindings["p"]
    # Of two dimensions a transpose is free: BLAS reads it in place, and the order of operands stays as it was written.
    if product.op != "matmul" or len(product.type.shape) == 2:
        return None
    a, b = product.inputs
    return matmul(b, a, not product.attrs["transpose_b"], not product.attrs["transpose_a"])


def _through_cast(bindings: Bindings, n: Node) -> Node:
    """A transpose that stands above a conversion is moved below it, where the product can read it."""
    return transpose(call("cast", bindings["x"], dtype=n.attrs["dtype"]), bindings["t"].attrs["permutation"])


def _merged_transpose(bindings: Bindings, n: Node) -> Node:
    outer, inner = n.attrs["permutation"], n.inputs[0].attrs["permutation"]
    order = tuple(inner[p] for p in outer)
    x = bindings["x"]
    return x if order == tuple(range(len(order))) else transpose(x, order)


def _swapped(name: str) -> Pat:
    return pat("transpose", any_(name), when=_is_swap)


def _unchanged(bindings: Bindings, n: Node) -> Node | None:
    return bindings["x"] if bindings["x"].type == n.type else None


def _keeps(n: Node) -> bool:
    return bool(n.attrs["keepdim"])


def _dropped(bindings: Bindings, n: Node) -> Node | None:
    """A dimension that is dropped after a reduction was not worth keeping."""
    inner = n.inputs[0]
    short = call(inner.op, *inner.inputs, **{**inner.attrs, "keepdim": False})
    return short if short.type == n.type else None


def _repeated(bindings: Bindings, n: Node) -> Node | None:
    # A repeated constant costs memory for the life of the program, a broadcast in a nest nothing.
    if n.type.size > FOLDED_ELEMENTS:
        return None
    return const(OPS["broadcast_in_dim"].eval(bindings["k"].value, **n.attrs), n.type)


def _folded(operate: Callable[..., np.ndarray], bindings: Bindings, n: Node) -> Node | None:
    """The same operation on two numbers, in the arithmetic of their dtype."""
    # Integers wrap around and divide by rules of their own; nothing is gained by repeating those here.
    if n.type.dtype.kind != "f":
        return None
    kind = n.type.dtype.host.type
    with np.errstate(all="ignore"):
        return full(float(operate(kind(bindings["k"].attrs["value"]), kind(bindings["other"].attrs["value"]))), n.type)


X = any_("x")
ONE, OTHER = Pat("full", (), "k"), Pat("full", (), "other")
RULES = RuleSet(
    "algebra",
    [
        # Each holds bit for bit: NaN, infinities and both zeros come out as they went in.
        Rule("x * 1 = x", X * 1, lambda b, n: b["x"]),
        Rule("1 * x = x", 1 * X, lambda b, n: b["x"]),
        Rule("x / 1 = x", X / 1, lambda b, n: b["x"]),
        Rule("x - 0 = x", X - 0, lambda b, n: b["x"] if _positive_zero(n.inputs[1]) else None),
        Rule("transpose(transpose(x))", pat("transpose", pat("transpose", X)), _merged_transpose),
        Rule("reshape(reduce(x, keepdim))", pat("reshape", pat("reduce", X, when=_keeps)), _dropped),
        Rule("reshape(arg_reduce(x, keepdim))", pat("reshape", pat("arg_reduce", X, when=_keeps)), _dropped),
        Rule("reshape there and back", pat("reshape", pat("reshape", X)), _unchanged),
        # Before products read transposes of their operands, so that no rule undoes another.
        Rule("transpose of a stack of products", _swapped("p"), _turned_product),
        Rule("broadcast of one value", pat("broadcast_in_dim", ONE), lambda b, n: full(b["k"].attrs["value"], n.type)),
        Rule("broadcast of a constant", pat("broadcast_in_dim", Pat("const", (), "k")), _repeated),
        Rule("quotient of one value", ONE / OTHER, lambda b, n: _folded(np.divide, b, n)),
        Rule("product of one value", ONE * OTHER, lambda b, n: _folded(np.multiply, b, n)),
        Rule("reshape to the same shape", pat("reshape", X), _unchanged),
        Rule("cast to the same type", pat("cast", X), _unchanged),
        Rule("cast(transpose(x))", pat("cast", pat("transpose", X, name="t", when=_is_swap)), _through_cast),
        Rule("product of a transpose, left", pat("matmul", _swapped("u"), any_("b")), _flipped),
        Rule("product of a transpose, right", pat("matmul", any_("a"), _swapped("v")), _flipped),
    ],
)


def _positive_zero(n: Node) -> bool:
    return str(n.attrs["value"])[0] != "-"


def simplify(graph: Graph) -> Graph:
    """The graph after all rules; every value is the same bit for bit."""
    if not is_shown(REWRITES):
        return RULES.rewrite(graph, at=source.at)
    steps: list[str] = []

    def note(rule: Rule, before: Node, after: Node) -> None:
        steps.append(f"{rule.name}: {before} -> {after}")

    lowered = RULES.rewrite(graph, note, at=source.at)
    show(REWRITES, "rewrites", lambda: "\n".join(steps))
    return lowered
