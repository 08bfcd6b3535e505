"""Binary cross entropy of probabilities on the host, with PyTorch's limits and checks."""

import numpy as np

from lazytensor.core import source
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import legal_by_decomposition, no_work
from lazytensor.ops.formula import composite
from lazytensor.ops.op import call, full_like, op

MIN_LOG, MIN_VARIANCE = -100.0, 1e-12
"""PyTorch's bounds: the minimum of log(probability), and the minimum of x * (1 - x), the divisor of the gradient."""


def check_probabilities(x: np.ndarray, *, what: str) -> np.ndarray:
    """Return x. Raise ShapeError, naming `what`, unless all elements are in 0..1. NaN is refused too."""
    # A comparison with NaN is False, so NaN is refused as well.
    if not ((x >= 0) & (x <= 1)).all():
        raise ShapeError(
            f"all elements of {what} should be between 0 and 1",
            where=source.where(),
            hint="Apply torch.sigmoid first, or use F.binary_cross_entropy_with_logits.",
        )
    return x


def _logarithm(x: Node) -> Node:
    return call("maximum", call("log", x), full_like(MIN_LOG, x))


def _entropy(x: Node, t: Node) -> Node:
    # (t - 1) log(1 - x) - t log x, in PyTorch's order of rounding.
    return (t - 1) * _logarithm(1 - x) - t * _logarithm(x)


def _entropy_grad(g: Node, x: Node, t: Node) -> Node:
    spread = call("maximum", (1 - x) * x, full_like(MIN_VARIANCE, x))
    return g * (x - t) / spread


def _entropy_vjp(g: Node, y: Node, x: Node, t: Node) -> tuple[Node, Node]:
    return call("probability_entropy_grad", g, x, t), g * (call("log", 1 - x) - call("log", x))


# The identity, with a check when the step runs: no value can be read while it is recorded.
op(
    "probability",
    lambda x, *, what: x,
    check_probabilities,
    vjp=lambda g, y, x, *, what: (g,),
    work=no_work,
    cirh=legal_by_decomposition(lambda x, *, what: x),
    elements="f",
)
composite("probability_entropy", _entropy, flops=25, vjp=_entropy_vjp, elements="f")
composite("probability_entropy_grad", _entropy_grad, lambda g, x, t: x, flops=6, elements="f")
