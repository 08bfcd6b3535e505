"""Scaled dot-product attention, and attention with several heads as PyTorch's function of all its weights."""

import math

import numpy as np

from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import bool_
from lazytensor.core.tensor import CPU, MAX_CONST_BYTES, Tensor, from_array, operand_node
from lazytensor.errors import ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction
from lazytensor.functional.creation import arange
from lazytensor.functional.dropout import dropout
from lazytensor.functional.matmul import matmul
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.views import expand, reshape, transpose, unsqueeze
from lazytensor.ops import call


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value; [..., L, E], [..., S, E], [..., S, V] -> [..., L, V].

    A boolean mask says where to look, another one is added. With enable_gqa, heads (dimension -3) of key and value are
    repeated to those of the query. Raises ShapeError if is_causal and attn_mask are both given.

    >>> import lazytensor as lt
    >>> q = lt.ones(1, 2, 5, 4)
    >>> lt.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).shape
    lazytensor.Size([1, 2, 5, 4])
    """
    if is_causal and attn_mask is not None:
        raise ShapeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got "
            f"{query.spec}, {key.spec} and {value.spec}",
            where=source.where(),
        )
    if enable_gqa:
        key, value = (_repeat_heads(t, query.spec.shape[-3]) for t in (key, value))
    weights = attention_weights(query, key, attn_mask, is_causal, scale)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return matmul(weights, value)


def attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    is_causal: bool = False,
    scale: float | None = None,
    is_safe: bool = True,
) -> Tensor:
    """How much each query [..., L, E] looks at each key [..., S, E]: [..., L, S].

    A query that may look nowhere gets zeros, and NaN from a mask of numbers unless the softmax `is_safe`.
    """
    factor = 1 / math.sqrt(query.spec.shape[-1]) if scale is None else scale
    scores = _scores(query, transpose(key, -2, -1), float(factor))
    rows, columns = scores.spec.shape[-2:]
    if is_causal and half_type() is not None and rows * columns <= MAX_CONST_BYTES:
        return reduction.softmax(tensor_of(call("causal_scores", operand_node(scores)), scores), -1)
    if is_causal:
        mask = _causal_mask(scores)
    if mask is None:
        return reduction.softmax(scores, -1)
    if mask.dtype is not bool_:
        scores = scores + mask
        if not is_safe or half_type() is not None or query.device is not CPU or _hides_no_row(mask):
            return reduction.softmax(scores, -1)
        return _safe_softmax(scores, reduction.any(pw.ne(mask, -math.inf), -1, True))
    # A row without a single True is 0 / 0. A causal row always sees its own place, so only given masks are checked.
    scores = pw.where(mask, scores, -math.inf)
    if not is_causal and half_type() is None and query.device is CPU:
        return _safe_softmax(scores, reduction.any(mask, -1, True))
    seen = reduction.softmax(scores, -1)
    return seen if is_causal else pw.where(reduction.any(mask, -1, True), seen, 0.0)


def _safe_softmax(scores: Tensor, is_seen: Tensor) -> Tensor:
    """softmax of the rows that see something, zeros in others; no NaN reaches the gradient of those either."""
    return pw.where(is_seen, reduction.softmax(pw.where(is_seen, scores, 0.0), -1), 0.0)


def _hides_no_row(mask: Tensor) -> bool:
    """Whether a mask of numbers is known to hide no row, without computing anything."""
    value = mask.node.value
    return value is not None and bool((value != -math.inf).any(-1).all())


def _causal_mask(scores: Tensor) -> Tensor:
    """True where a query [..., L, S] may look: at its own place and those before."""
    rows, columns = scores.spec.shape[-2:]
    if rows * columns > MAX_CONST_BYTES:
        # Compared where it is used: a constant of this size would be sent and held for each layer.
        places = arange(rows, device=scores.device), arange(columns, device=scores.device)
        return pw.ge(unsqueeze(places[0], -1), places[1])
    mask = from_array(np.tri(rows, columns, dtype=bool))
    mask.device = scores.device
    return mask


def _scores(query: Tensor, columns: Tensor, factor: float) -> Tensor:
    """query [..., L, E] @ columns [..., E, S] * factor."""
    # The front end gives each operand the root of the factor, as ATen's formula does.
    if half_type() is not None and factor > 0:
        root = math.sqrt(factor)
        return matmul(query * root, columns * root)
    # The query is scaled, not the scores: [L, E] is the smaller of the two, and half types do not overflow.
    return matmul(query * factor, columns)


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    *lead, own, length, width = x.spec.shape
    if own == heads:
        return x
    if heads % own:
        raise ShapeError(f"{heads} heads of the query cannot share {own} of the key", where=source.where())
    # Neighbouring heads of the query share one: each head of the key is repeated in place, not the whole list.
    wide = expand(unsqueeze(x, -3), (*lead, own, heads // own, length, width))
    return reshape(wide, (*lead, heads, length, width))
