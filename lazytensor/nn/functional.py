"""Functions of tensors for models: activations, losses, dropout."""

from lazytensor import source
from lazytensor.errors import ShapeError
from lazytensor.functions import matrix, reductions
from lazytensor.functions import pointwise as pw
from lazytensor.functions.creation import rand
from lazytensor.functions.methods import assign
from lazytensor.functions.pointwise import made
from lazytensor.functions.promotion import prepared
from lazytensor.functions.shapes import dim_of, sliced
from lazytensor.ops import call
from lazytensor.precision import lowered, raised
from lazytensor.tensor import Tensor, arg

sigmoid, tanh, silu = pw.sigmoid, pw.tanh, pw.silu
softmax, log_softmax = reductions.softmax, reductions.log_softmax
linear = matrix.linear
_REDUCTIONS = ("none", "mean", "sum")


def _placed(x: Tensor, out: Tensor, inplace: bool) -> Tensor:
    return assign(x, out) if inplace else out


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """x where it is positive, else 0."""
    return _placed(input, pw.relu(input), inplace)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function; "tanh" is the usual approximation."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return made(call("gelu", arg(input), approximate=approximate), input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, else negative_slope * x."""
    return _placed(input, pw.where(pw.gt(input, 0), input, pw.mul(input, float(negative_slope))), inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    below = pw.mul(pw.expm1(pw.minimum(input, 0.0)), float(alpha))
    return _placed(input, pw.where(pw.gt(input, 0), input, below), inplace)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, and x itself above the threshold."""
    scaled = pw.mul(input, float(beta))
    soft = pw.div(pw.log1p(pw.exp(pw.minimum(scaled, float(threshold)))), float(beta))
    return pw.where(pw.gt(scaled, float(threshold)), input, soft)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)) without overflow."""
    return pw.sub(pw.minimum(input, 0.0), pw.log1p(pw.exp(pw.neg(pw.abs(input)))))


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to min_val..max_val."""
    return _placed(input, pw.clamp(input, float(min_val), float(max_val)), inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to 0..6."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * relu6(x + 3) / 6"""
    return _placed(input, pw.div(pw.mul(input, relu6(pw.add(input, 3.0))), 6.0), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))"""
    return _placed(input, pw.mul(input, tanh(softplus(input))), inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half times the sigmoid of the second half of a dimension."""
    at = dim_of(dim, input.ndim)
    extent = input.spec.shape[at]
    if extent % 2:
        raise ShapeError(f"Halving dimension must be even, but dimension {at} is size {extent}", where=source.where())
    half = extent // 2
    return pw.mul(sliced(input, at, 0, half), pw.sigmoid(sliced(input, at, half, extent)))


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability p and scale the others by 1 / (1 - p)."""
    if not training or p == 0:
        return input
    if p == 1:
        return _placed(input, pw.mul(input, 0.0), inplace)
    (x,) = lowered(arg(input))
    u = rand(x.type.shape, dtype=x.type.dtype, device=input.device)
    kept = pw.cast_to(pw.lt(u, 1.0 - p), x.type.dtype)
    return _placed(input, pw.mul(made(x, input), pw.div(kept, 1.0 - p)), inplace)


def _checked(reduction: str) -> str:
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of class scores [N, C] and labels int64[N]; rows labelled `ignore_index` do not count."""
    if weight is not None or label_smoothing:
        raise ShapeError(
            "cross_entropy with class weights or label smoothing is not known yet",
            where=source.where(),
            todo="Write it with log_softmax.",
        )
    (logits,) = raised(arg(input))
    labels = target.node
    attrs = {"ignore_index": ignore_index, "reduction": _checked(reduction)}
    return made(call("cross_entropy", logits, labels, **attrs), input)


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """The mean, sum or elements of (input - target)^2."""
    x, y = raised(arg(input), arg(target))
    if x.type != y.type:
        x, y = (prepared(v, x.type.dtype, input.spec.shape) for v in (input, target))
    return made(call("mse_loss", x, y, reduction=_checked(reduction)), input)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """The mean, sum or elements of |input - target|."""
    d = pw.abs(pw.sub(input, target))
    return d if _checked(reduction) == "none" else reductions.mean(d) if reduction == "mean" else reductions.sum(d)


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Cross entropy of a yes-or-no score and its probability, without overflow."""
    d = pw.sub(pw.mul(pw.sub(1.0, target), input), logsigmoid(input))
    return d if _checked(reduction) == "none" else reductions.mean(d) if reduction == "mean" else reductions.sum(d)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x divided by its p-norm along a dimension."""
    return pw.div(input, pw.maximum(reductions.norm(input, p, dim, True), float(eps)))
