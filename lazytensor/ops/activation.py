"""Activations with a parameter, and their gradients. CIRH has them as operations; the host computes formulas."""

import numpy as np

from lazytensor.cirh.layers import alpha_attribute, softplus_parameters
from lazytensor.cirh.spelling import gelu_attribute, typed_operation
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import elementwise_work, legal_by_decomposition
from lazytensor.ops.elementwise import gelu_vjp, rounded_once, where
from lazytensor.ops.formula import composite
from lazytensor.ops.op import call, full_like, op, same_types


def softplus(x: Node, *, beta: float, threshold: float) -> Node:
    """Return log(1 + exp(beta x)) / beta, and x itself where beta x is above `threshold`."""
    scaled = x * beta
    # The branch that is not selected must not overflow: its gradient would be 0 times infinity.
    bounded = call("minimum", scaled, full_like(threshold, x))
    # log1p, because for x below -17 in float32 1 + exp(x) is 1, but the result is exp(x).
    soft = call("log1p", call("exp", bounded)) / beta
    return where(scaled > threshold, x, soft)


def _softplus_grad(g: Node, x: Node, *, beta: float, threshold: float) -> Node:
    scaled = x * beta
    z = call("exp", call("minimum", scaled, full_like(threshold, x)))
    return where(scaled > threshold, g, g * z / (z + 1))


def _decompose_softplus_grad(g: Node, x: Node, *, beta: float, threshold: float) -> Node:
    """Return the gradient of softplus in the front end's form: `g` where beta x is above `threshold`, else g z / (z +
    1) with z = exp(beta x).

    The exponent has no bound, so z may overflow in the branch that is not selected.
    """
    scaled = x * beta
    z = call("exp", scaled)
    return where(scaled > threshold, g, g * z / (z + 1))


def elu(x: Node, *, alpha: float) -> Node:
    """Return x where x > 0, and alpha * (exp(x) - 1) elsewhere."""
    above = x > 0
    # The exponential gets no positive x: it could overflow, and its gradient would be 0 times infinity.
    return where(above, x, call("expm1", where(above, 0, x)) * alpha)


def leaky_relu(x: Node, *, slope: float) -> Node:
    """Return x where x > 0, and slope * x elsewhere."""
    return where(x > 0, x, x * slope)


def log_sigmoid(x: Node) -> Node:
    """Return log(sigmoid(x)), computed without overflow."""
    # log(1 / (1 + exp(-x))) overflows for x below -88 in float32. Here no exponent is above 0.
    smaller = call("minimum", x, full_like(0, x))
    return smaller - call("log1p", call("exp", -call("abs", x)))


def _log_sigmoid_total(x: Node) -> tuple[Node, Node]:
    """Return m = max(-x, 0), and exp(-m) + exp(-x - m)."""
    less = -x
    most = call("maximum", less, full_like(0, x))
    return most, call("exp", -most) + call("exp", less - most)


def _decompose_log_sigmoid(x: Node) -> Node:
    """Return -(m + log(exp(-m) + exp(-x - m))) with m = max(-x, 0), the front end's formula."""
    most, total = _log_sigmoid_total(x)
    return -(most + call("log", total))


def _log_sigmoid_grad(g: Node, x: Node) -> Node:
    z = call("exp", -call("abs", x))
    is_negative, one = x < 0, full_like(1, x)
    return (where(is_negative, one, 0) - where(is_negative, one, -1) * (z / (1 + z))) * g


def _decompose_log_sigmoid_grad(g: Node, x: Node) -> Node:
    _, total = _log_sigmoid_total(x)
    is_negative, one = x < 0, full_like(1, x)
    slope = where(is_negative, full_like(-1, x), 0) * -1 - where(is_negative, one, -1) * ((total - 1) / total)
    return slope * g


composite(
    "softplus",
    rounded_once(softplus),
    lambda x, **attrs: x,
    24,
    vjp=lambda g, y, x, **attrs: (call("softplus_grad", g, x, **attrs),),
    cirh=typed_operation("Softplus", softplus_parameters, arrow=False),
    autocast="float32",
    elements="f",
)
composite(
    "elu",
    rounded_once(elu),
    lambda x, **attrs: x,
    12,
    vjp=lambda g, y, x, **attrs: (call("elu_grad", g, x, **attrs),),
    cirh=typed_operation("Elu", alpha_attribute("alpha"), arrow=False),
    elements="f",
)
composite(
    "leaky_relu",
    rounded_once(leaky_relu),
    lambda x, **attrs: x,
    2,
    vjp=lambda g, y, x, **attrs: (call("leaky_relu_grad", g, x, **attrs),),
    cirh=typed_operation("LeakyRelu", alpha_attribute("slope"), arrow=False),
    elements="f",
)
composite(
    "log_sigmoid",
    rounded_once(log_sigmoid),
    flops=24,
    vjp=lambda g, y, x: (call("log_sigmoid_grad", g, x),),
    cirh=legal_by_decomposition(_decompose_log_sigmoid),
    elements="f",
)


def _soft_gate(x: Node) -> Node:
    return call("tanh", call("softplus", x, beta=1.0, threshold=20.0))


def _mish(x: Node) -> Node:
    return x * _soft_gate(x)


def _mish_grad(g: Node, x: Node) -> Node:
    t = _soft_gate(x)
    return g * (t + x * call("sigmoid", x) * (1 - t * t))


def _silu_grad(g: Node, x: Node) -> Node:
    s = call("sigmoid", x)
    return g * (s * (1 + x * (1 - s)))


def _tanh_grad(g: Node, y: Node) -> Node:
    return g * (1 - y * y)


for _name, _formula, _flops in (
    ("mish_grad", _mish_grad, 48),
    ("silu_grad", _silu_grad, 15),
    ("tanh_grad", _tanh_grad, 3),
):
    # PyTorch has one kernel for each, which rounds half types once.
    composite(_name, rounded_once(_formula), flops=_flops, cirh=legal_by_decomposition(_formula), elements="f")
composite(
    "mish",
    rounded_once(_mish),
    flops=36,
    vjp=lambda g, y, x: (call("mish_grad", g, x),),
    cirh=legal_by_decomposition(_mish),
    elements="f",
)


def _square(x: Node) -> Node:
    return x * x


# Its gradient is x * 2, as in the front end; that of a product would have two terms.
composite("square", _square, vjp=lambda g, y, x: (g * (x * 2),), gradient_name="Pow")

# A third power by products. The front end has a power.
composite("cube", lambda x: x * (x * x), flops=2, cirh=legal_by_decomposition(lambda x: x**3), gradient_name="Pow")


# The gradients are operations too: CIRH prints GeluGrad, EluGrad and LeakyReluGrad where PyTorch has its `_backward`.
def _gelu_grad(g: Node, x: Node, *, approximate: str) -> Node:
    return gelu_vjp(g, x, x, approximate=approximate)[0]


def _elu_grad(g: Node, x: Node, *, alpha: float) -> Node:
    # Uses x and not the result, whose sign does not identify the branch if alpha is negative. NaN passes the gradient
    # on, as in PyTorch's loop over single elements; its vector loop, for long tensors, gives NaN.
    slope = call("exp", where(x < 0, x, 0)) * alpha
    return where(call("le", x, full_like(0, x)), g * slope, g)


def _leaky_grad(g: Node, x: Node, *, slope: float) -> Node:
    return where(x > 0, g, g * slope)


def _relu_grad(g: Node, y: Node) -> Node:
    # PyTorch passes the gradient on at NaN.
    return where(call("le", y, full_like(0, y)), 0, g)


# The front end compares y > 0, so that no gradient passes at NaN.
composite("relu_grad", _relu_grad, flops=2, cirh=legal_by_decomposition(lambda g, y: where(y > 0, g, 0)))
composite(
    "softplus_grad",
    rounded_once(_softplus_grad),
    lambda g, x, **attrs: x,
    24,
    cirh=legal_by_decomposition(_decompose_softplus_grad),
    elements="f",
)
composite(
    "log_sigmoid_grad",
    rounded_once(_log_sigmoid_grad),
    flops=24,
    cirh=legal_by_decomposition(_decompose_log_sigmoid_grad),
)
composite(
    "sigmoid_grad",
    rounded_once(lambda g, y: g * (y * (1 - y))),
    flops=3,
    cirh=typed_operation("SigmoidGrad", arrow=False),
)
composite(
    "gelu_grad",
    rounded_once(_gelu_grad),
    lambda g, x, **attrs: x,
    30,
    cirh=typed_operation("GeluGrad", gelu_attribute, arrow=False),
)
composite(
    "elu_grad",
    rounded_once(_elu_grad),
    lambda g, x, **attrs: x,
    12,
    cirh=typed_operation("EluGrad", alpha_attribute("alpha"), arrow=False),
)
composite(
    "leaky_relu_grad",
    rounded_once(_leaky_grad),
    lambda g, x, **attrs: x,
    2,
    cirh=typed_operation("LeakyReluGrad", alpha_attribute("slope")),
)


def _hardtanh_vjp(g: Node, y: Node, x: Node, *, low: float, high: float) -> tuple[Node]:
    outside = call("logical_or", x <= low, x >= high)
    return (where(outside, 0, g),)


# A clamp without a gradient at the bounds; clamp has one there.
op(
    "hardtanh",
    lambda x, *, low, high: same_types(x),
    lambda x, *, low, high: np.clip(x, x.dtype.type(low), x.dtype.type(high)),
    vjp=_hardtanh_vjp,
    work=elementwise_work(2),
    composite=lambda x, *, low, high: call("clamp", x, full_like(low, x), full_like(high, x)),
    elements="fi",
)
