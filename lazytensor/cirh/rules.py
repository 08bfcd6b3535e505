"""What becomes of operations on the way to CIRH where that depends on their operands, or where CIRH sees it otherwise.

A rule takes the inputs, lowered already, and the attributes. It gives a node in the vocabulary of CIRH, or None where
it does not apply: then the operation's own spelling or decomposition counts.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from lazytensor.cirh.places import PLACES
from lazytensor.cirh.windows import WINDOWS
from lazytensor.dtype import bool_, float32, int64
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast, eq, ne, where
from lazytensor.ops.shape import reshape

Lowering = Callable[..., Node | None]


def _where(c: Node, a: Node, b: Node) -> Node | None:
    """The larger of two, written as a choice."""
    return call("larger", a, b) if c.op == "gt" and c.inputs == (a, b) and a.type.dtype.kind == "f" else None


def _is_nan(x: Node) -> Node:
    return ne(x, x)


def _is_finite(x: Node) -> Node | None:
    if x.type.dtype.kind != "f":
        return None
    bounded = ne(call("abs", x), math.inf)
    number = eq(x, x)
    return cast(cast(number, float32) * cast(bounded, float32), bool_)


def _not(x: Node) -> Node:
    truth = cast(x, bool_)
    return eq(truth, False)


def _fmod(a: Node, b: Node) -> Node:
    """a less the whole part of a / b times b."""
    return a - _trunc(a / b) * b


def _trunc(x: Node) -> Node:
    return call("floor", call("abs", x)) * call("sign", x)


def _upper_band(x: Node, *, lower: int | None, upper: int | None) -> Node | None:
    """What lies on and above a diagonal is chosen by comparing the numbers of rows and columns."""
    if upper is not None or lower is None or x.type.dtype.kind != "f":
        return None
    shape = x.type.shape
    rank = len(shape)
    wide = []
    for d in (rank - 2, rank - 1):
        numbers = call("arange", start=0, step=1, type=Type((shape[d],), int64))
        kept = cast(reshape(numbers, (shape[d], 1) if d == rank - 2 else (1, shape[d])), float32)
        wide.append(call("broadcast_in_dim", kept, shape=shape, dims=(rank - 2, rank - 1)))
    distance = wide[1] - wide[0]
    return where(distance >= -lower, x, 0)


RULES: Mapping[str, Lowering] = {
    "where": _where,
    "isnan": _is_nan,
    "isfinite": _is_finite,
    "logical_not": _not,
    "fmod": _fmod,
    "trunc": _trunc,
    "band_part": _upper_band,
    **PLACES,
    **WINDOWS,
}


def lowering(name: str, inputs: tuple[Node, ...], attrs: Mapping[str, Any]) -> Node | None:
    """What the rule for an operation makes of it, if there is one and it applies."""
    rule = RULES.get(name)
    return rule(*inputs, **attrs) if rule is not None else None
