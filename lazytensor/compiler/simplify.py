"""Algebra as rules: views that cancel, conversions to the same type, transposes read by a matrix product."""

from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.pattern import Bindings, Pat, Rule, RuleSet, any_, filled, pat
from lazytensor.ops import call
from lazytensor.ops.linalg import matmul
from lazytensor.ops.shape import reshape, transpose


def _is_swap(n: Node) -> bool:
    """The last two dimensions exchanged, the others in place."""
    p = n.attrs["permutation"]
    return len(p) >= 2 and p == (*range(len(p) - 2), len(p) - 1, len(p) - 2)


def _flipped(found: Bindings, n: Node) -> Node:
    a, b = n.inputs
    flags = dict(n.attrs)
    if "u" in found:
        a, flags["transpose_a"] = found["u"], not flags["transpose_a"]
    if "v" in found:
        b, flags["transpose_b"] = found["v"], not flags["transpose_b"]
    return matmul(a, b, **flags)


def _through_cast(found: Bindings, n: Node) -> Node:
    """A transpose that stands above a conversion is moved below it, where the product can read it."""
    return transpose(call("cast", found["x"], dtype=n.attrs["dtype"]), found["t"].attrs["permutation"])


def _merged_transpose(found: Bindings, n: Node) -> Node:
    outer, inner = n.attrs["permutation"], n.inputs[0].attrs["permutation"]
    order = tuple(inner[p] for p in outer)
    x = found["x"]
    return x if order == tuple(range(len(order))) else transpose(x, order)


def _swapped(name: str) -> Pat:
    return pat("transpose", any_(name), when=_is_swap)


X = any_("x")
RULES = RuleSet(
    "algebra",
    [
        Rule("x * 1 = x", pat("mul", X, filled(1)), lambda b, n: b["x"]),
        Rule("1 * x = x", pat("mul", filled(1), X), lambda b, n: b["x"]),
        Rule("x / 1 = x", pat("div", X, filled(1)), lambda b, n: b["x"]),
        Rule("x - 0 = x", pat("sub", X, filled(0)), lambda b, n: b["x"] if _positive_zero(n.inputs[1]) else None),
        Rule("transpose(transpose(x))", pat("transpose", pat("transpose", X)), _merged_transpose),
        Rule("reshape(reshape(x))", pat("reshape", pat("reshape", X)), lambda b, n: reshape(b["x"], n.type.shape)),
        Rule("reshape to the same shape", pat("reshape", X), lambda b, n: b["x"] if b["x"].type == n.type else None),
        Rule("cast to the same type", pat("cast", X), lambda b, n: b["x"] if b["x"].type == n.type else None),
        Rule("cast(transpose(x))", pat("cast", pat("transpose", X, name="t", when=_is_swap)), _through_cast),
        Rule("product of a transpose, left", pat("matmul", _swapped("u"), any_("b")), _flipped),
        Rule("product of a transpose, right", pat("matmul", any_("a"), _swapped("v")), _flipped),
    ],
)


def _positive_zero(n: Node) -> bool:
    return str(n.attrs["value"])[0] != "-"


def simplify(graph: Graph) -> Graph:
    """The graph after all rules; every value is the same bit for bit."""
    return RULES.rewrite(graph)
