"""Identity operations: they keep the value, and have a meaning for autograd or for the printed graph.

`custom_vjp` takes its gradient from a Python function: tensor hooks, and autograd functions of the user.
"""

import numpy as np

from lazytensor.cirh.layers import boundary_attributes
from lazytensor.cirh.spelling import typed_operation
from lazytensor.core.dtype import round_to
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import DEFAULT_HINT, illegal_with_hint, no_work
from lazytensor.ir.types import Type
from lazytensor.ops.op import call, full_like, op, same_types

VJP_KEY = "vjp"
"""Key in a node's memo of the function from a gradient to those of the inputs. Without it, the first input gets all."""


def _vjp(g: Node, y: Node, *inputs: Node, uid: object) -> tuple[Node | None, ...]:
    vjp = None if y.memo is None else y.memo.get(VJP_KEY)
    return (g, *(None for _ in inputs[1:])) if vjp is None else vjp(g)


def _first_type(x: Type, *others: Type, uid: object) -> Type:
    return x


def _first(x: np.ndarray, *others: np.ndarray, uid: object) -> np.ndarray:
    return x


def _first_node(x: Node, *others: Node, uid: object) -> Node:
    return x


# A `uid` keeps two hooks on equal values apart. Inputs other than the first only receive gradients.
op(
    "custom_vjp",
    _first_type,
    _first,
    vjp=_vjp,
    put=lambda base, value, *, uid: value,
    work=no_work,
    composite=_first_node,
    saves=False,
)

op(
    # The missing `vjp` stops the gradient. On the host it costs nothing, because its composite is its operand.
    "detach",
    lambda x: x,
    lambda x: x,
    put=lambda base, value: value,
    work=no_work,
    composite=lambda x: x,
    saves=False,
    renames=True,
)
# An automatic cast. `formula.push_gradient` converts its gradient back for each use, unlike that of explicit casts.
op(
    "convert",
    lambda x, *, dtype: Type(x.shape, dtype),
    lambda x, *, dtype: round_to(x.astype(dtype.host), dtype),
    vjp=lambda g, y, x, *, dtype: (call("cast", g, dtype=x.type.dtype) if x.type.dtype.kind == "f" else None,),
    composite=lambda x, *, dtype: call("cast", x, dtype=dtype),
    saves=False,
    renames=True,
    gradient_name="ToCopy",
)
# The identity that marks a leaf of autograd. A `uid` keeps leaves with equal values apart.
op(
    "variable",
    lambda x, *, uid: x,
    lambda x, *, uid: x,
    put=lambda base, value, *, uid: value,
    work=no_work,
    composite=lambda x, *, uid: x,
    saves=False,
    gradient_name="Clone",
    is_leaf=True,
    renames=True,
)

# A value written over another one (x) that it does not depend on: the gradient of x is zero.
op(
    "overwritten",
    lambda value, x: same_types(value, x),
    lambda value, x: value,
    vjp=lambda g, y, value, x: (g, full_like(0, x)),
    work=no_work,
    composite=lambda value, x: value,
    saves=False,
    gradient_name="Fill",
)

# A value written to a storage without autograd, as by `.data`: the gradient goes to the old value x.
op(
    "written_past",
    lambda value, x: same_types(value, x),
    lambda value, x: value,
    vjp=lambda g, y, value, x: (None, g),
    work=no_work,
    composite=lambda value, x: value,
    saves=False,
)

# The value of a storage that was copied from another one. It is not interned, so that backward distinguishes them.
op(
    "clone",
    lambda x: x,
    lambda x: x,
    vjp=lambda g, y, x: (g,),
    work=no_work,
    composite=lambda x: x,
    saves=False,
)

# The identity that marks a result that CIRH cannot express, although its operand could be lowered. `rule` is the key by
# which a check reports it, `function` the public name, and `place` its line: equal calls of two lines are two refusals.
op(
    "unsupported",
    lambda x, *, message, hint, rule, function, place: x,
    lambda x, *, message, hint, rule, function, place: x,
    vjp=lambda g, y, x, *, message, hint, rule, function, place: (g,),
    put=lambda base, value, *, message, hint, rule, function, place: value,
    work=no_work,
    composite=lambda x, *, message, hint, rule, function, place: x,
    cirh=illegal_with_hint(DEFAULT_HINT),
    saves=False,
)


GRADIENT_BOUNDARIES = {
    "BEGIN_FORWARD": "END_BACKWARD",
    "END_FORWARD": "BEGIN_BACKWARD",
    "BEGIN_BACKWARD": "END_FORWARD",
    "END_BACKWARD": "BEGIN_FORWARD",
}
"""For each kind of boundary in the forward pass, the kind that the gradient crosses there."""


def _boundary_vjp(g: Node, y: Node, x: Node, *, boundary: str, scope: str) -> tuple[Node]:
    return (call("scope_boundary", g, boundary=GRADIENT_BOUNDARIES[boundary], scope=scope),)


# The identity that marks the boundary of a named scope in the printed graph.
op(
    "scope_boundary",
    lambda x, *, boundary, scope: x,
    lambda x, *, boundary, scope: x,
    vjp=_boundary_vjp,
    work=no_work,
    composite=lambda x, *, boundary, scope: x,
    cirh=typed_operation("ScopeBoundary", boundary_attributes),
)
