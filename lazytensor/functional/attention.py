"""Scaled dot-product attention and the attention weights that multi-head attention layers use."""

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
    """Return softmax(query @ key^T * scale + mask) @ value, with shape [..., L, V].

    - `query` [..., L, E], `key` [..., S, E], `value` [..., S, V].
    - `attn_mask`: broadcasts to [..., L, S]. A bool mask is true where a query may attend to a key; any other mask is
      added to the scores. A query that may attend to no key gives zeros, except in a step for the wafer with a mask of
      numbers.
    - `dropout_p`: probability with which attention weights are set to 0.
    - `is_causal`: let query i attend to keys 0 to i only. Must not be combined with `attn_mask`.
    - `scale`: factor of the scores; 1 / sqrt(E) if None.
    - `enable_gqa`: repeat the heads of `key` and `value` (dimension -3) to the number of heads of `query`.

    Raises ShapeError if `is_causal` and `attn_mask` are both given, if an operand has fewer than two dimensions, or if
    the number of query heads is no multiple of the number of key heads.

    >>> import lazytensor as lt
    >>> q = lt.ones(1, 2, 5, 4)
    >>> lt.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).shape
    lazytensor.Size([1, 2, 5, 4])
    """
    if is_causal and attn_mask is not None:
        raise ShapeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True",
            where=source.where(),
            hint="Omit attn_mask, or add the causal mask to it and pass is_causal=False.",
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got "
            f"{query.spec}, {key.spec} and {value.spec}",
            where=source.where(),
            hint="Add dimensions with unsqueeze().",
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
    """Return softmax(query @ key^T * scale + mask) over the keys, with shape [..., L, S].

    `query` is [..., L, E] and `key` is [..., S, E]. `mask`, `is_causal` and `scale` have the meaning of
    `scaled_dot_product_attention`; `is_causal` replaces `mask`. A row whose keys are all excluded by a bool mask
    becomes zeros. A row that a mask of numbers excludes (all -inf) becomes zeros only if `is_safe` is true, on the host
    and without automatic casts; otherwise it becomes NaN.
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
    # A mask row without True would give 0 / 0. A causal row always includes its diagonal element, so only bool masks
    # from the caller are checked.
    scores = pw.where(mask, scores, -math.inf)
    if not is_causal and half_type() is None and query.device is CPU:
        return _safe_softmax(scores, reduction.any(mask, -1, True))
    seen = reduction.softmax(scores, -1)
    return seen if is_causal else pw.where(reduction.any(mask, -1, True), seen, 0.0)


def _safe_softmax(scores: Tensor, is_seen: Tensor) -> Tensor:
    """Return the softmax of `scores` in the rows where `is_seen` is true, and zeros in the others.

    The excluded rows are replaced before the softmax, so that their gradient is zero and not NaN.
    """
    return pw.where(is_seen, reduction.softmax(pw.where(is_seen, scores, 0.0), -1), 0.0)


def _hides_no_row(mask: Tensor) -> bool:
    """Return whether every row of a mask of numbers is known to have an element above -inf.

    Returns False if the value of the mask is not known without computing it.
    """
    value = mask.node.value
    return value is not None and bool((value != -math.inf).any(-1).all())


def _causal_mask(scores: Tensor) -> Tensor:
    """Return the causal bool mask [L, S] for `scores` [..., L, S], on the same device.

    It is true where the key index is at most the query index.
    """
    rows, columns = scores.spec.shape[-2:]
    if rows * columns > MAX_CONST_BYTES:
        # A large mask is computed where it is used. A constant of this size would be sent and stored for each layer.
        places = arange(rows, device=scores.device), arange(columns, device=scores.device)
        return pw.ge(unsqueeze(places[0], -1), places[1])
    mask = from_array(np.tri(rows, columns, dtype=bool))
    mask.device = scores.device
    return mask


def _scores(query: Tensor, columns: Tensor, factor: float) -> Tensor:
    """Return query [..., L, E] @ columns [..., E, S] * factor. `columns` is the transposed key.

    The factor is multiplied to the query before the product; in a step for the wafer, its square root to both operands.
    """
    # The vendor's front end multiplies each operand by the square root of the factor, as ATen's formula does.
    if half_type() is not None and factor > 0:
        root = math.sqrt(factor)
        return matmul(query * root, columns * root)
    # Scaling the query [L, E] costs less than scaling the scores, and half types do not overflow.
    return matmul(query * factor, columns)


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Return `x` with its heads (dimension -3) repeated to `heads`.

    Raises ShapeError if their number does not divide it.
    """
    *lead, own, length, width = x.spec.shape
    if own == heads:
        return x
    if heads % own:
        raise ShapeError(
            f"the query has {heads} heads, which is not a multiple of the {own} heads of the key",
            where=source.where(),
            hint="Choose a number of query heads that is a multiple of the key's heads.",
        )
    # Neighbouring heads of the query share one head of the key, so each head is repeated directly after itself.
    wide = expand(unsqueeze(x, -3), (*lead, own, heads // own, length, width))
    return reshape(wide, (*lead, heads, length, width))
