"""Operations that CIRH knows whole and everybody else as a formula: activations with a parameter, lengths, biases."""

from typing import Any

import numpy as np

from lazytensor.cirh.layers import boundary, length, rank, slope, softplus_parameters
from lazytensor.cirh.spelling import method, number, typed
from lazytensor.dtype import int16
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import Formula, decomposed, no_work, per_element
from lazytensor.ir.types import Type
from lazytensor.ops.elementwise import eq, gelu_vjp, where
from lazytensor.ops.formula import derived, evaluated
from lazytensor.ops.op import call, full_like, op, same_types
from lazytensor.ops.reduce import kept_shape, reduce
from lazytensor.ops.shape import Dims, reshape


def whole(name: str, formula: Formula, infer: Any = same_types, flops: int = 1, **facets: Any) -> None:
    """Register an operation whose value, gradient and host graph are those of a formula, unless a facet says else."""
    facets = {"vjp": derived(formula), "work": per_element(flops)} | facets
    op(name, infer, evaluated(formula), composite=formula, **facets)


def softplus(x: Node, *, beta: float, threshold: float) -> Node:
    """log(1 + exp(beta x)) / beta, and x itself above the threshold."""
    scaled = x * beta
    # The branch that is not chosen must not overflow: its gradient would be 0 times infinity.
    bounded = call("minimum", scaled, full_like(threshold, x))
    soft = call("log1p", call("exp", bounded)) / beta
    return where(scaled > threshold, x, soft)


def elu(x: Node, *, alpha: float) -> Node:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    above = x > 0
    return where(above, x, call("expm1", where(above, 0, x)) * alpha)


def leaky_relu(x: Node, *, slope: float) -> Node:
    """x where it is positive, else slope * x."""
    return where(x > 0, x, x * slope)


def log_sigmoid(x: Node) -> Node:
    """log(sigmoid(x)) without overflow."""
    smaller = call("minimum", x, full_like(0, x))
    return smaller - call("log1p", call("exp", -call("abs", x)))


def _log_sigmoid_parts(x: Node) -> Node:
    """-(m + log(exp(-m) + exp(-x - m))) with m = max(-x, 0), as the front end writes it."""
    less = -x
    most = call("maximum", less, full_like(0, x))
    total = call("exp", -most) + call("exp", less - most)
    return -(most + call("log", total))


whole("softplus", softplus, lambda x, **attrs: x, 24, cirh=typed("Softplus", softplus_parameters, arrow=False))
whole(
    "elu",
    elu,
    lambda x, **attrs: x,
    12,
    vjp=lambda g, y, x, **attrs: (call("elu_grad", g, x, **attrs),),
    cirh=typed("Elu", slope("alpha"), arrow=False),
)
whole(
    "leaky_relu",
    leaky_relu,
    lambda x, **attrs: x,
    2,
    vjp=lambda g, y, x, **attrs: (call("leaky_relu_grad", g, x, **attrs),),
    cirh=typed("LeakyRelu", slope("slope"), arrow=False),
)
whole("log_sigmoid", log_sigmoid, flops=24, cirh=decomposed(_log_sigmoid_parts))


def _square(x: Node) -> Node:
    return x * x


# Its gradient is the front end's: x times two, where that of a product has two terms.
whole("square", _square, vjp=lambda g, y, x: (g * (x * 2),), gradient_name="Pow")


def _binary_entropy(x: Node, target: Node) -> Node:
    return (1 - target) * x - call("log_sigmoid", x)


def _binary_entropy_vjp(g: Node, y: Node, x: Node, target: Node) -> tuple[Node, Node]:
    return g * (call("sigmoid", x) - target), g * -x


whole("binary_entropy", _binary_entropy, flops=26, vjp=_binary_entropy_vjp)


def _gelu_grad(g: Node, x: Node, *, approximate: str) -> Node:
    return gelu_vjp(g, x, x, approximate=approximate)[0]


def _elu_grad(g: Node, x: Node, *, alpha: float) -> Node:
    above = x > 0
    below = g * (call("exp", where(above, 0, x)) * alpha)
    return where(above, g, below)


def _leaky_grad(g: Node, x: Node, *, slope: float) -> Node:
    return where(x > 0, g, g * slope)


whole("gelu_grad", _gelu_grad, lambda g, x, **attrs: x, 30, cirh=typed("GeluGrad", method, arrow=False))
whole("elu_grad", _elu_grad, lambda g, x, **attrs: x, 12, cirh=typed("EluGrad", slope("alpha"), arrow=False))
whole("leaky_relu_grad", _leaky_grad, lambda g, x, **attrs: x, 2, cirh=typed("LeakyReluGrad", slope("slope")))


def _length(x: Node, *, dims: Dims, keepdim: bool) -> Node:
    return call("sqrt", reduce(x * x, "add", dims, keepdim))


def _length_type(x: Type, *, dims: Dims, keepdim: bool) -> Type:
    kept = kept_shape(x.shape, dims)
    return Type(kept if keepdim else tuple(e for d, e in enumerate(x.shape) if d not in dims), x.dtype)


def _length_vjp(g: Node, y: Node, x: Node, *, dims: Dims, keepdim: bool) -> tuple[Node]:
    """g x / y, and 0 where the length is 0."""
    shape, kept = x.type.shape, tuple(d for d in range(len(x.type.shape)) if keepdim or d not in dims)
    wide = [call("broadcast_in_dim", n, shape=shape, dims=kept) for n in (g, y)]
    zero = eq(wide[1], 0)
    return (where(zero, 0, wide[0] * (x / where(zero, 1, wide[1]))),)


whole("l2_norm", _length, _length_type, 2, vjp=_length_vjp, cirh=typed("L2Norm", length))


def _summed(g: Node, *, shape: Dims, dims: Dims) -> Node:
    return reshape(reduce(g, "add", dims), shape)


def _summed_parts(g: Node, *, shape: Dims, dims: Dims) -> Node:
    """The front end puts the dimensions back before it drops them again; CIRH shows all three steps."""
    kept = kept_shape(g.type.shape, dims)
    rest = tuple(d for d in range(len(kept)) if d not in dims)
    return reshape(call("broadcast_in_dim", reduce(g, "add", dims), shape=kept, dims=rest), shape)


OTHER_SIDE = {
    "BEGIN_FORWARD": "END_BACKWARD",
    "END_FORWARD": "BEGIN_BACKWARD",
    "BEGIN_BACKWARD": "END_FORWARD",
    "END_BACKWARD": "BEGIN_FORWARD",
}
"""The boundary that the gradient crosses where the forward pass crosses this one."""


def _crossed(g: Node, y: Node, x: Node, *, boundary: str, scope: str) -> tuple[Node]:
    return (call("scope_boundary", g, boundary=OTHER_SIDE[boundary], scope=scope),)


# The identity that marks the boundary of a named stretch in the printed graph.
op(
    "scope_boundary",
    lambda x, *, boundary, scope: x,
    lambda x, *, boundary, scope: x,
    vjp=_crossed,
    work=no_work,
    composite=lambda x, *, boundary, scope: x,
    cirh=typed("ScopeBoundary", boundary),
)


def _reaches(x: np.ndarray, *, k: int, dim: int) -> np.ndarray:
    limit = np.take(np.sort(x, dim), [x.shape[dim] - k], dim)
    return (x >= limit).astype(np.int16)


# Whether an element is among the k largest along a dimension.
op(
    "reaches_nth",
    lambda x, *, k, dim: Type(x.shape, int16),
    _reaches,
    work=per_element(10),
    cirh=typed("NthOrderStatistic", rank),
)

# The gradient of what was broadcast.
whole("sum_to", _summed, lambda g, *, shape, dims: Type(shape, g.dtype), cirh=decomposed(_summed_parts), saves=False)


def _biased(x: Node, bias: Node, *, dim: int) -> Node:
    return x + call("broadcast_in_dim", bias, shape=x.type.shape, dims=(dim,))


def _biased_type(x: Type, bias: Type, *, dim: int) -> Type:
    if bias.shape != (x.shape[dim],) or bias.dtype is not x.dtype:
        raise ShapeError(
            f"a bias of {bias} cannot be added along dimension {dim} of {x}",
            hint=f"Give one {x.dtype.name} for each of the {x.shape[dim]} places of that dimension.",
        )
    return x


def _bias_grad(g: Node, *, dim: int) -> Node:
    return reduce(g, "add", tuple(d for d in range(len(g.type.shape)) if d != dim))


whole(
    "bias_add",
    _biased,
    _biased_type,
    vjp=lambda g, y, x, b, *, dim: (g, call("bias_add_grad", g, dim=dim)),
    cirh=typed("BiasAdd", number("dim")),
)
whole(
    "bias_add_grad",
    _bias_grad,
    lambda g, *, dim: Type((g.shape[dim],), g.dtype),
    cirh=typed("BiasAddGrad", number("dim")),
)
