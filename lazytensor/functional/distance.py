"""Distances and similarities of vectors."""

import math

import numpy as np

from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.tensor import Tensor, from_array, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.statistics import vector_norm
from lazytensor.functional.type_promotion import require_elements
from lazytensor.functional.views import expand, reshape, unsqueeze, view
from lazytensor.ops import call
from lazytensor.ops.index import index_get
from lazytensor.ops.op import refuse_elements


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between the vectors of `x1` and `x2` along `dim`, which is removed.

    The shapes broadcast. Each length is at least `eps` in the division.

    >>> import lazytensor as lt
    >>> lt.nn.functional.cosine_similarity(lt.tensor([[1.0, 0.0]]), lt.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    # As in PyTorch, the gradient ignores that short lengths are raised to eps.
    first, second = (
        tensor_of(call("at_least", operand_node(_vector_length(x, dim)), least=float(eps)), x) for x in (x1, x2)
    )
    return reduction.sum(x1 / first * (x2 / second), dim)


def _vector_length(x: Tensor, dim: int) -> Tensor:
    """Return the Euclidean norm of `x` along `dim`, which is kept. The gradient at zero is zero."""
    return vector_norm(x, 2, dim, True)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Return the `p`-norm of x1 - x2 + eps along the last dimension: [..., D] -> [...].

    If `keepdim` is true, the result is [..., 1]. The shapes of `x1` and `x2` broadcast.

    >>> import lazytensor as lt
    >>> lt.nn.functional.pairwise_distance(lt.tensor([[3.0, 0.0]]), lt.tensor([[0.0, 4.0]]))
    tensor([5.])
    """
    # PyTorch adds eps to the difference itself: equal vectors are at a distance of eps * D^(1/p).
    d = x1 - x2 + float(eps)
    return _p_norm(d, p, keepdim)


def _p_norm(d: Tensor, p: float, keepdim: bool) -> Tensor:
    """Return the `p`-norm of `d` along the last dimension, which is removed unless `keepdim` is true.

    `p` = 0 counts the elements that are not 0; inf and -inf give the largest and the least magnitude. A zero vector has
    the gradient 0.
    """
    size = pw.abs(d)
    if p == 0:
        # A count has no gradient; adding d * 0 gives it the gradient 0.
        return reduction.sum(pw.cast_to(d != 0.0, d.dtype) + d * 0.0, -1, keepdim)
    if math.isinf(p):
        return reduction.amax(size, -1, keepdim) if p > 0 else reduction.amin(size, -1, keepdim)
    if p == 1:
        return reduction.sum(size, -1, keepdim)
    if p == 2:
        out = _vector_length(d, -1)
        return out if keepdim else view(out, out.spec.shape[:-1])
    # A zero vector has the norm 0 and the gradient 0.
    positive = p > 0
    is_zero = reduction.all(size == 0.0, -1, True) if positive else None
    safe = pw.where(is_zero, 1.0, size) if is_zero is not None else size
    out = pw.pow(reduction.sum(pw.pow(safe, float(p)), -1, True), 1 / float(p))
    out = pw.where(is_zero, 0.0, out) if is_zero is not None else out
    return out if keepdim else reshape(out, out.spec.shape[:-1])


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the `p`-norm distances of all pairs of rows i < j of `input` [N, M]: [N * (N - 1) / 2].

    The pairs are in row-major order. Raises ShapeError unless `input` has two dimensions.

    >>> import lazytensor as lt
    >>> lt.nn.functional.pdist(lt.tensor([[0.0, 0.0], [3.0, 4.0]]))
    tensor([5.])
    """
    if input.ndim != 2:
        raise ShapeError(
            f"pdist only supports 2D tensors, got: {input.ndim}D",
            where=source.where(),
            hint="Pass a matrix with one row for each point.",
        )
    n = input.spec.shape[0]
    x = operand_node(input)
    if p == 2 and n > 1 and input.spec.shape[1] and input.dtype.kind == "f" and not input.dtype.is_half:
        places = np.ravel_multi_index(np.triu_indices(n, 1), (n, n))
        pairs = call("reshape", call("pair_distances", x, x), shape=(n * n,))
        return tensor_of(index_get(pairs, (from_array(places).node,), (0,)), input)
    # The pairs depend on shapes only, so both sides are gathers with constant indices.
    first = tuple(i for i in range(n) for _ in range(i + 1, n))
    second = tuple(j for i in range(n) for j in range(i + 1, n))
    a, b = (tensor_of(call("pick_along", x, index=index, dim=0), input) for index in (first, second))
    return _p_norm(a - b, p, False)


@method
def dist(x: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the `p`-norm of x - other over all elements, as a 0-d tensor. The shapes broadcast.

    >>> import lazytensor as lt
    >>> lt.dist(lt.tensor([3.0, 0.0]), lt.tensor([0.0, 4.0]))
    tensor(5.)
    """
    return vector_norm(x - other, float(p))


def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """Return the `p`-norm distance of each row of `x1` to each row of `x2`: [..., P, M], [..., R, M] -> [..., P, R].

    `compute_mode` is ignored. Raises ShapeError if the rows have different lengths or an operand has fewer than two
    dimensions. Raises TypeUnsupported for integers, and for half types outside a step for the wafer.

    >>> import lazytensor as lt
    >>> lt.cdist(lt.tensor([[0.0, 0.0]]), lt.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if x1.ndim < 2 or x2.ndim < 2 or x1.spec.shape[-1] != x2.spec.shape[-1]:
        raise ShapeError(
            f"X1 and X2 must have the same number of columns. X1: {list(x1.shape)} X2: {list(x2.shape)}",
            where=source.where(),
            hint="Pass points with equal numbers of coordinates.",
        )
    for x in (x1, x2):
        require_elements(x, "f", "cdist")
        if x.dtype.is_half and half_type() is None:
            refuse_elements("cdist", x.spec)
    if p == 2 and x1.dtype is x2.dtype and not x1.dtype.is_half and x1.spec.size and x2.spec.size:
        lead = np.broadcast_shapes(x1.spec.shape[:-2], x2.spec.shape[:-2])
        a, b = (operand_node(expand(x, (*lead, *x.spec.shape[-2:]))) for x in (x1, x2))
        return tensor_of(call("pair_distances", a, b), x1, x2)
    difference = unsqueeze(x1, -2) - unsqueeze(x2, -3)
    if not x1.spec.shape[-1]:
        return reduction.sum(difference, -1)
    return vector_norm(difference, float(p), -1)
