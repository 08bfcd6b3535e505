"""Softmax and losses. Each is one operation with its own gradient rule, and a formula of simpler operations."""

import numpy as np

from lazytensor.cirh.spelling import integer_attribute, typed_operation
from lazytensor.core.dtype import DType, float32, int64, round_to
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import elementwise_work, legal_by_decomposition
from lazytensor.ir.types import Type, Work
from lazytensor.ops.elementwise import cast, ne, rounded_once, where
from lazytensor.ops.formula import composite, differentiate_formula, evaluate_formula
from lazytensor.ops.op import call, full, full_like, op, same_types
from lazytensor.ops.reduce import broadcast_reduced, keepdim_shape, reduce

DEFAULT_IGNORE_INDEX = -100
"""The label that PyTorch ignores by default."""


def _softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    # Subtract the maximum, so that no exponent is above 0. `initial` allows empty rows.
    e = np.exp(x - np.max(x, axis=dim, keepdims=True, initial=-np.inf))
    return np.asarray(e / np.sum(e, axis=dim, keepdims=True))


def _log_softmax(x: np.ndarray, *, dim: int, kept: DType | None = None) -> np.ndarray:
    # PyTorch's kernel for half types rounds the sum and its logarithm, so that probabilities do not add up to 1 and
    # gradients are biased. Without this, losses of a training differ from PyTorch's in the second digit.
    store = (lambda a: a) if kept is None else (lambda a: round_to(np.asarray(a, np.float32), kept))
    shifted = x - np.max(x, axis=dim, keepdims=True, initial=-np.inf)
    return np.asarray(shifted - store(np.log(store(np.sum(np.exp(shifted), axis=dim, keepdims=True)))))


def _decompose_log_softmax(x: Node, *, dim: int, kept: DType | None = None) -> Node:
    shape, type = x.type.shape, x.type.dtype
    wide = x if kept is None else cast(x, float32)
    shifted = wide - broadcast_reduced(reduce(wide, "maximum", (dim,)), shape, (dim,))
    total = reduce(call("exp", shifted), "add", (dim,))
    # Take the logarithm of each sum once and broadcast it. The front end takes it for every element (see below).
    if kept is None:
        return shifted - broadcast_reduced(call("log", total), shape, (dim,))
    logarithm = cast(call("log", cast(cast(total, kept), float32)), kept)
    return cast(shifted - broadcast_reduced(cast(logarithm, float32), shape, (dim,)), type)


def _decompose_log_softmax_for_cirh(x: Node, *, dim: int, kept: DType | None = None) -> Node:
    """Return the front end's formula, which broadcasts the sum before it takes the logarithm."""
    shape = x.type.shape
    shifted = x - broadcast_reduced(reduce(x, "maximum", (dim,)), shape, (dim,))
    return shifted - call("log", broadcast_reduced(reduce(call("exp", shifted), "add", (dim,)), shape, (dim,)))


def _softmax_grad(g: Node, y: Node, *, dim: int) -> Node:
    return y * (g - broadcast_reduced(reduce(g * y, "add", (dim,)), y.type.shape, (dim,)))


def _decompose_softmax_grad(g: Node, y: Node, *, dim: int) -> Node:
    """Return the front end's formula: half types in float32, and the sum with keepdim before it is broadcast."""
    # PyTorch's backward kernel accumulates in float32, and CIRH shows the casts.
    wide, probability = (cast(n, float32) if n.type.dtype.is_half else n for n in (g, y))
    shape = y.type.shape
    total = broadcast_reduced(reduce(wide * probability, "add", (dim,)), keepdim_shape(shape, (dim,)), (dim,))
    inner = call("broadcast_in_dim", total, shape=shape, dims=tuple(range(len(shape))))
    return cast(probability * (wide - inner), y.type.dtype)


def _log_softmax_grad(g: Node, y: Node, *, dim: int) -> Node:
    # Half types are computed in float32, as in PyTorch's backward kernel.
    wide, logp = (cast(n, float32) if n.type.dtype.is_half else n for n in (g, y))
    total = broadcast_reduced(reduce(wide, "add", (dim,)), y.type.shape, (dim,))
    # exp(y) is the softmax, already normalized.
    return cast(wide - call("exp", logp) * total, y.type.dtype)


def _decompose_log_softmax_grad(g: Node, y: Node, *, dim: int) -> Node:
    """Return the front end's formula: in the dtype of the operands, and the sum with keepdim before it is broadcast."""
    shape = y.type.shape
    total = broadcast_reduced(reduce(g, "add", (dim,)), keepdim_shape(shape, (dim,)), (dim,))
    inner = call("broadcast_in_dim", total, shape=shape, dims=tuple(range(len(shape))))
    return g - inner * call("exp", y)


op(
    "softmax",
    lambda x, *, dim: x,
    _softmax,
    vjp=lambda g, y, x, *, dim: (call("softmax_grad", g, y, dim=dim),),
    work=elementwise_work(14),
    cirh=typed_operation("Softmax", integer_attribute("axis", "dim"), arrow=False),
)
op(
    "softmax_grad",
    same_types,
    evaluate_formula(rounded_once(_softmax_grad)),
    vjp=differentiate_formula(_softmax_grad),
    work=elementwise_work(4),
    composite=rounded_once(_softmax_grad),
    cirh=legal_by_decomposition(_decompose_softmax_grad),
)
op(
    "log_softmax",
    lambda x, *, dim, kept=None: x,
    _log_softmax,
    vjp=lambda g, y, x, *, dim, kept=None: (call("log_softmax_grad", g, y, dim=dim),),
    work=elementwise_work(24),
    composite=_decompose_log_softmax,
    cirh=legal_by_decomposition(_decompose_log_softmax_for_cirh),
)
op(
    "log_softmax_grad",
    same_types,
    evaluate_formula(_log_softmax_grad),
    vjp=differentiate_formula(_log_softmax_grad),
    work=elementwise_work(14),
    composite=_log_softmax_grad,
    cirh=legal_by_decomposition(_decompose_log_softmax_grad),
)


def _xent(logits: Type, labels: Type) -> tuple[Type, Type]:
    if len(logits.shape) != 2 or labels.shape != logits.shape[:1] or labels.dtype is not int64:
        raise ShapeError(
            f"the labels {labels} do not match the logits {logits}",
            hint="Pass class scores of shape [N, C] and labels int64[N].",
        )
    return Type(labels.shape, logits.dtype), logits


def _xent_eval(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss [N] of each row of `logits` [N, C], and its gradient [N, C] by the logits.

    Both are NaN for a label outside 0..C-1.
    """
    # Both results need one softmax: d loss / d logits is the probabilities, minus 1 at the label.
    logp = _log_softmax(logits, dim=1)
    rows = np.arange(len(labels))
    good = (labels >= 0) & (labels < logits.shape[1])
    # Use a valid index even for rows that are discarded.
    safe = np.where(good, labels, 0)
    grad = np.exp(logp)
    grad[rows, safe] -= 1
    nan = logits.dtype.type(np.nan)
    return np.where(good, -logp[rows, safe], nan), np.where(good[:, None], grad, nan)


# CIRH's fused operation: the loss of each row and d loss / d logits in one pass.
op(
    "softmax_cross_entropy",
    _xent,
    _xent_eval,
    work=lambda out, logits, labels: Work(
        24 * logits.size, logits.nbytes + labels.nbytes, logits.nbytes + out[0].nbytes
    ),
    cirh=typed_operation(
        "SparseSoftmaxCrossEntropyWithLogits", lambda n: "axis = 1 : i64", results=("loss", "backprop")
    ),
)


def _nll_type(logits: Type, labels: Type, *, reduction: str, ignore_index: int) -> Type:
    rows, _ = _xent(logits, labels)
    return rows if reduction == "none" else Type((), rows.dtype)


def _loss_and_gradient(logits: Node, labels: Node) -> tuple[Node, Node]:
    pair = call("softmax_cross_entropy", logits, labels)
    return call("result", pair, index=0), call("result", pair, index=1)


def _is_counted_label(labels: Node, ignore_index: int) -> Node:
    return ne(labels, ignore_index)


def _count_rows(keep: Node, like: Node) -> Node:
    """Return the number of rows that count, as a scalar of the dtype of `like`."""
    t = Type(keep.type.shape, like.type.dtype)
    return reduce(where(keep, full(1, t), full(0, t)), "add", (0,))


def _nll_exact(logits: Node, labels: Node, *, reduction: str, ignore_index: int) -> Node:
    """Return PyTorch's cross entropy: rows with the label `ignore_index` count neither in the sum nor in the mean.

    With `reduction` "none" their loss is 0. If all rows are ignored, the mean is NaN and the sum is 0.
    """
    loss, _ = _loss_and_gradient(logits, labels)
    keep = _is_counted_label(labels, ignore_index)
    # `where`, not a product: the loss of an ignored label is NaN, and NaN times 0 is NaN.
    loss = where(keep, loss, 0)
    if reduction == "none":
        return loss
    total = reduce(loss, "add", (0,))
    # If all labels are ignored this is 0 / 0, which is NaN as in PyTorch.
    return total / _count_rows(keep, logits) if reduction == "mean" else total


def _decompose_nll(logits: Node, labels: Node, *, reduction: str, ignore_index: int) -> Node:
    """Return the loss by CIRH's fused operation, divided by the batch size for "mean".

    It equals the host's value if no label is ignored. The fused operation supports only the `ignore_index` -100; for
    another one the front end writes the loss out as log-softmax and negative log-likelihood. With "none" it is one loss
    for each row.
    """
    if ignore_index != DEFAULT_IGNORE_INDEX:
        logp = call("log_softmax", logits, dim=1)
        return call("nll_loss", logp, labels, reduction=reduction, ignore_index=ignore_index)
    loss, _ = _loss_and_gradient(logits, labels)
    if reduction == "none":
        return loss
    total = reduce(loss, "add", (0,))
    return total / labels.type.size if reduction == "mean" else total


def _nll_eval(logits: np.ndarray, labels: np.ndarray, *, reduction: str, ignore_index: int) -> np.ndarray:
    keep = labels != ignore_index
    loss = np.where(keep, _xent_eval(logits, labels)[0], logits.dtype.type(0))
    if reduction == "none":
        return loss
    total = np.sum(loss, dtype=logits.dtype)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / logits.dtype.type(np.count_nonzero(keep)) if reduction == "mean" else total)


def _nll_vjp(g: Node, y: Node, logits: Node, labels: Node, *, reduction: str, ignore_index: int) -> tuple[Node, None]:
    # One operation for the whole gradient, so that in CIRH it reads `backprop` of the fused operation that computed the
    # loss: both create that operation from the same nodes, so it is one node.
    return call("cross_entropy_grad", g, logits, labels, reduction=reduction, ignore_index=ignore_index), None


op(
    "cross_entropy",
    _nll_type,
    _nll_eval,
    vjp=_nll_vjp,
    work=lambda out, logits, labels, **attrs: Work(26 * logits.size, logits.nbytes + labels.nbytes, out.nbytes),
    composite=_nll_exact,
    cirh=legal_by_decomposition(_decompose_nll),
    keeps="neither",
    gradient_name="NllLoss",
    autocast="float32",
    elements="f",
)


def _is_one(g: Node) -> bool:
    return g.op == "full" and g.attrs["value"] == 1


def _decompose_xent_grad(g: Node, logits: Node, labels: Node, *, reduction: str, ignore_index: int) -> Node:
    """Return the gradient by CIRH's fused operation, divided by the batch size for "mean".

    It is written out if `ignore_index` is not -100. If the gradient `g` of the loss is the constant 1, there is no
    product.
    """
    if ignore_index != DEFAULT_IGNORE_INDEX:
        logp = call("log_softmax", logits, dim=1)
        slope = call("nll_loss_grad", g, logp, labels, reduction=reduction, ignore_index=ignore_index)
        return call("log_softmax_grad", slope, logp, dim=1)
    _, backprop = _loss_and_gradient(logits, labels)
    shape = logits.type.shape
    if reduction == "none":
        return backprop * broadcast_reduced(g, shape, (1,))
    # `backward()` usually starts from the loss with gradient 1; the front end prints no product with 1.
    if not _is_one(g):
        backprop = backprop * broadcast_reduced(g, shape, (0, 1))
    return backprop / labels.type.size if reduction == "mean" else backprop


def _xent_grad_exact(g: Node, logits: Node, labels: Node, *, reduction: str, ignore_index: int) -> Node:
    """Return PyTorch's gradient of cross entropy by the logits, times the gradient `g` of the loss.

    Rows with the label `ignore_index` are zeros and do not count in the mean.
    """
    _, backprop = _loss_and_gradient(logits, labels)
    shape = logits.type.shape
    keep = _is_counted_label(labels, ignore_index)
    scale = g if reduction != "mean" else g / _count_rows(keep, logits)
    wide = broadcast_reduced(scale, shape, (1,) if reduction == "none" else (0, 1))
    return where(broadcast_reduced(keep, shape, (1,)), backprop * wide, 0)


def _xent_grad_eval(
    g: np.ndarray, logits: np.ndarray, labels: np.ndarray, *, reduction: str, ignore_index: int
) -> np.ndarray:
    keep = labels != ignore_index
    _, backprop = _xent_eval(logits, labels)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = g / logits.dtype.type(np.count_nonzero(keep) if reduction == "mean" else 1)
        out = backprop * (scale[:, None] if reduction == "none" else scale)
    return np.asarray(np.where(keep[:, None], out, logits.dtype.type(0)))


def _xent_grad_vjp(
    gg: Node, y: Node, g: Node, logits: Node, labels: Node, *, reduction: str, ignore_index: int
) -> tuple[Node, Node, None]:
    """Gradient rule of the gradient of cross entropy: the derivative of softmax, with the scaling of the first
    gradient.

    Returns the gradients of `g` and of the logits, and None for the labels. `gg` is the gradient of that gradient. Rows
    with the label `ignore_index` give 0.
    """
    shape = logits.type.shape
    keep = _is_counted_label(labels, ignore_index)
    scale = g if reduction != "mean" else g / _count_rows(keep, logits)
    scale = broadcast_reduced(scale, shape, (1,) if reduction == "none" else (0, 1))
    scale = where(broadcast_reduced(keep, shape, (1,)), scale, 0)
    # The derivative of softmax is diag(p) - p p^T, applied without building that matrix.
    p = call("softmax", logits, dim=1)
    inner = broadcast_reduced(reduce(gg * p, "add", (1,)), shape, (1,))
    unit = call("cross_entropy_grad", full_like(1, g), logits, labels, reduction=reduction, ignore_index=ignore_index)
    dg = reduce(gg * unit, "add", (1,) if reduction == "none" else (0, 1))
    return dg, scale * (p * (gg - inner)), None


op(
    "cross_entropy_grad",
    lambda g, logits, labels, **attrs: logits,
    _xent_grad_eval,
    vjp=_xent_grad_vjp,
    work=elementwise_work(26),
    composite=_xent_grad_exact,
    cirh=legal_by_decomposition(_decompose_xent_grad),
)


def _decompose_mse(x: Node, target: Node, *, reduction: str) -> Node:
    d = x - target
    return _apply_reduction(d * d, reduction)


def _apply_reduction(x: Node, reduction: str) -> Node:
    if reduction == "none":
        return x
    total = reduce(x, "add", tuple(range(len(x.type.shape))))
    return total / x.type.size if reduction == "mean" else total


def _mse_eval(x: np.ndarray, target: np.ndarray, *, reduction: str) -> np.ndarray:
    square = (x - target) ** 2
    if reduction == "none":
        return np.asarray(square)
    total = np.sum(square, dtype=x.dtype)
    return np.asarray(total / x.dtype.type(x.size) if reduction == "mean" else total)


def _scaled_slope(d: Node, g: Node, reduction: str) -> Node:
    """Return the slope d of each element's loss times the gradient g of the loss after `reduction`.

    For "mean" it is divided by the number of elements. If g is the constant 1, there is no product.
    """
    # Divide by the size before the product with g, as in the front end's text.
    if reduction == "mean":
        d = d / d.type.size
    if _is_one(g):
        return d
    return d * (g if reduction == "none" else broadcast_reduced(g, d.type.shape, tuple(range(len(d.type.shape)))))


def _mse_vjp(g: Node, y: Node, x: Node, target: Node, *, reduction: str) -> tuple[Node, ...]:
    # Each operand has a separate difference, as in the front end's text.
    return tuple(_scaled_slope(d * 2, g, reduction) for d in (x - target, target - x))


op(
    "mse_loss",
    lambda x, target, *, reduction: x if reduction == "none" else Type((), x.dtype),
    _mse_eval,
    vjp=_mse_vjp,
    work=elementwise_work(3),
    composite=_decompose_mse,
    autocast="float32",
    elements="f",
)


# From logits: -t log s(x) - (1 - t) log(1 - s(x)). Because 1 - s(x) = s(-x) = s(x) exp(-x), one logarithm is enough.
def _binary_entropy(x: Node, target: Node, *, reduction: str) -> Node:
    return _apply_reduction((1 - target) * x - call("log_sigmoid", x), reduction)


def _binary_entropy_vjp(g: Node, y: Node, x: Node, target: Node, *, reduction: str) -> tuple[Node, Node]:
    # Written explicitly: the slope derived from the formula is a sum of terms that cancel for large x.
    return _scaled_slope(call("sigmoid", x) - target, g, reduction), _scaled_slope(-x, g, reduction)


composite(
    "binary_entropy",
    _binary_entropy,
    lambda x, target, *, reduction: x if reduction == "none" else Type((), x.dtype),
    flops=26,
    vjp=_binary_entropy_vjp,
    elements="f",
)
