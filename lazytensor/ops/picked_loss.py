"""Negative log-likelihood loss of labels, and one-hot vectors, with which the front end writes it."""

from lazytensor.cirh.spelling import one_hot
from lazytensor.core.dtype import int64
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import legal_by_decomposition
from lazytensor.ir.types import Type
from lazytensor.ops.elementwise import eq, ne, where
from lazytensor.ops.formula import composite
from lazytensor.ops.op import call, full
from lazytensor.ops.reduce import broadcast_reduced, reduce
from lazytensor.ops.shape import reshape


def _one_hot_type(labels: Type, *, type: Type, on: float, off: float) -> Type:
    if labels.dtype is not int64 or type.shape[:-1] != labels.shape:
        raise ShapeError(
            f"the labels {labels} do not match the result {type}",
            hint="Pass labels int64[...] for a result of shape [..., C].",
        )
    return type


def _one_hot(labels: Node, *, type: Type, on: float, off: float) -> Node:
    rank = len(type.shape)
    classes = call("arange", start=0, step=1, type=Type(type.shape[-1:], int64))
    wide = call("broadcast_in_dim", labels, shape=type.shape, dims=tuple(range(rank - 1)))
    is_class = eq(wide, call("broadcast_in_dim", classes, shape=type.shape, dims=(rank - 1,)))
    return where(is_class, full(on, type), full(off, type))


composite("one_hot", _one_hot, _one_hot_type, cirh=one_hot(), vjp=None)


def _loss_type(logp: Type, labels: Type, *, reduction: str, ignore_index: int) -> Type:
    if len(logp.shape) != 2 or labels.shape != logp.shape[:1] or labels.dtype is not int64:
        raise ShapeError(
            f"the labels {labels} do not match the log-probabilities {logp}",
            hint="Pass log-probabilities of shape [N, C] and labels int64[N].",
        )
    return Type(labels.shape if reduction == "none" else (), logp.dtype)


def _places(labels: Node, ignore_index: int) -> tuple[Node, Node]:
    """Return which labels count, of shape [N], and their indices in the rows, [N, 1]. An ignored label has index 0."""
    keep = ne(labels, ignore_index)
    return keep, reshape(where(keep, labels, 0), (*labels.type.shape, 1))


def _count_kept(keep: Node, like: Node) -> Node:
    return reduce(where(keep, full(1, Type(keep.type.shape, like.type.dtype)), 0), "add", (0,))


def _loss(logp: Node, labels: Node, *, reduction: str, ignore_index: int) -> Node:
    keep, places = _places(labels, ignore_index)
    loss = where(keep, -reshape(call("at_places", logp, places), labels.type.shape), 0)
    if reduction == "none":
        return loss
    total = reduce(loss, "add", (0,))
    return total / _count_kept(keep, logp) if reduction == "mean" else total


def _loss_grad(g: Node, logp: Node, labels: Node, *, reduction: str, ignore_index: int) -> Node:
    keep, places = _places(labels, ignore_index)
    share = -(g / _count_kept(keep, logp) if reduction == "mean" else g)
    rows = where(keep, share if reduction == "none" else broadcast_reduced(share, labels.type.shape, (0,)), 0)
    values = reshape(rows, places.type.shape)
    return call("put_places", values, places, extent=logp.type.shape[1], accumulate=True)


def _one_hot_weights(logp: Node, labels: Node, ignore_index: int) -> Node:
    """Return weights [N, C]: 1 for the label of each row, and 0 elsewhere.

    Rows with the label `ignore_index`, and with labels that are no class, are zeros.
    """
    hot = call("one_hot", labels, type=logp.type, on=1.0, off=0.0)
    classes = logp.type.shape[1]
    if not 0 <= ignore_index < classes:
        return hot
    others = call(
        "one_hot", full(ignore_index, Type((), int64)), type=Type((classes,), logp.type.dtype), on=0.0, off=1.0
    )
    return call("broadcast_in_dim", others, shape=logp.type.shape, dims=(1,)) * hot


def _decompose_picked_loss(logp: Node, labels: Node, *, reduction: str, ignore_index: int) -> Node:
    """Return the loss as products with one-hot vectors, reduced by `reduction`.

    A label outside of the classes counts as ignored. "mean" divides by the number of rows that are not ignored.
    """
    weights = _one_hot_weights(logp, labels, ignore_index)
    product = weights * (logp * -1)
    if reduction == "none":
        return reduce(product, "add", (1,))
    total = reduce(product, "add", (0, 1))
    return total / reduce(weights, "add", (0, 1)) if reduction == "mean" else total


def _decompose_picked_loss_grad(g: Node, logp: Node, labels: Node, *, reduction: str, ignore_index: int) -> Node:
    shape = logp.type.shape
    weights = _one_hot_weights(logp, labels, ignore_index)
    slope = weights * (broadcast_reduced(g, shape, (1,) if reduction == "none" else (0, 1)) * -1)
    return slope / broadcast_reduced(reduce(weights, "add", (0, 1)), shape, (0, 1)) if reduction == "mean" else slope


composite(
    "nll_loss",
    _loss,
    _loss_type,
    vjp=lambda g, y, logp, labels, **attrs: (call("nll_loss_grad", g, logp, labels, **attrs), None),
    cirh=legal_by_decomposition(_decompose_picked_loss),
    elements="f",
)
composite(
    "nll_loss_grad",
    _loss_grad,
    lambda g, logp, labels, **attrs: logp,
    cirh=legal_by_decomposition(_decompose_picked_loss_grad),
)
