"""Euclidean distances of all pairs of rows of two matrices, and their gradient."""

from typing import Any

import numpy as np

from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import legal_by_decomposition
from lazytensor.ir.types import Type, Work
from lazytensor.ops.elementwise import eq, where
from lazytensor.ops.op import call, op
from lazytensor.ops.products import matmul
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import broadcast_to, reshape, transpose


def _pairs_type(a: Type, b: Type) -> Type:
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-1] or a.dtype is not b.dtype:
        raise ShapeError(f"{a} and {b} have no distances")
    return Type((*a.shape[:-1], b.shape[-2]), a.dtype)


def _pair_differences(a: Node, b: Node) -> Node:
    """Return a[..., i, :] - b[..., j, :] for all pairs: [..., P, R, M]."""
    *lead, rows, width = a.type.shape
    columns = b.type.shape[-2]
    wide = (*lead, rows, columns, width)
    tall, flat = reshape(a, (*lead, rows, 1, width)), reshape(b, (*lead, 1, columns, width))
    return broadcast_to(tall, wide) - broadcast_to(flat, wide)


def _distances_as_norm(a: Node, b: Node) -> Node:
    difference = _pair_differences(a, b)
    return call("l2_norm", difference, dims=(len(difference.type.shape) - 1,), keepdim=False)


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.sum((a[..., :, None, :] - b[..., None, :, :]) ** 2, -1)))


def _swap(x: Node) -> Node:
    rank = len(x.type.shape)
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _distances_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    """Gradient rule of the distances. The gradient of a pair at distance 0 is 0."""
    zero = eq(y, 0)
    share = where(zero, 0, g / where(zero, 1, y))
    return call("pair_pull", share, a, b), call("pair_pull", _swap(share), b, a)


def _pull(s: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.sum(s[..., None] * (a[..., :, None, :] - b[..., None, :, :]), -2))


def _pull_as_sum(s: Node, a: Node, b: Node) -> Node:
    difference = _pair_differences(a, b)
    shape = difference.type.shape
    wide = broadcast_to(reshape(s, (*shape[:-1], 1)), shape)
    return reduce(wide * difference, "add", (len(shape) - 2,))


def _pull_vjp(g: Node, y: Node, s: Node, a: Node, b: Node) -> tuple[Node, Node, Node]:
    last = len(s.type.shape) - 1
    along = broadcast_to(reshape(reduce(g * a, "add", (last,)), (*s.type.shape[:-1], 1)), s.type.shape)
    weight = broadcast_to(reshape(reduce(s, "add", (last,)), (*s.type.shape[:-1], 1)), g.type.shape)
    return along - matmul(g, b, False, True), g * weight, -matmul(s, g, True, False)


def _work(flops: int) -> Any:
    def work(out: Type, *types: Type) -> Work:
        a, b = types[-2:]
        pairs = a.size * b.shape[-2]
        return Work(flops * pairs, sum(t.nbytes for t in types), out.nbytes)

    return work


op(
    "pair_distances",
    _pairs_type,
    _distances,
    vjp=_distances_vjp,
    work=_work(3),
    cirh=legal_by_decomposition(_distances_as_norm),
    gradient_name="Cdist",
)
op(
    # The sum over j of s[i, j] * (a[i] - b[j]).
    "pair_pull",
    lambda s, a, b: a,
    _pull,
    vjp=_pull_vjp,
    work=_work(3),
    cirh=legal_by_decomposition(_pull_as_sum),
)
