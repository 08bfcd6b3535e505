"""Views and rearrangements. Operations that a tensor can be a view through have `put`, the write through the view."""

import math
from itertools import pairwise
from typing import Any

import numpy as np

from lazytensor.cirh.spelling import ARANGE, BAND, SLICE, TRANSPOSE, broadcast_dims, integer_attribute, typed_operation
from lazytensor.core import source
from lazytensor.core.dtype import bool_, int32, int64
from lazytensor.errors import ShapeError
from lazytensor.ir.buffer_slices import GradientSlice, JoinedGradient
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import elementwise_work, legal_by_decomposition, no_work
from lazytensor.ir.types import Type
from lazytensor.ops.elementwise import cast, where
from lazytensor.ops.op import call, const, full, full_like, op

Dims = tuple[int, ...]


def _reshape_type(x: Type, *, shape: Dims) -> Type:
    if math.prod(shape) != x.size:
        raise ShapeError(
            f"shape {list(shape)} has {math.prod(shape)} elements, but the input {list(x.shape)} has {x.size}",
            hint="Pass a shape with the same number of elements, or -1 for one extent.",
        )
    return Type(shape, x.dtype)


def _transpose_type(x: Type, *, permutation: Dims) -> Type:
    if sorted(permutation) != list(range(len(x.shape))):
        raise ShapeError(
            f"{list(permutation)} is not a permutation of the {len(x.shape)} dimensions of {list(x.shape)}",
            hint="List every dimension once.",
        )
    return Type(tuple(x.shape[p] for p in permutation), x.dtype)


def _broadcast_type(x: Type, *, shape: Dims, dims: Dims) -> Type:
    if len(dims) != len(x.shape) or any(x.shape[i] not in (1, shape[d]) for i, d in enumerate(dims)):
        raise ShapeError(
            f"{list(x.shape)} does not broadcast to {list(shape)}", hint="Expand only dimensions of extent 1."
        )
    return Type(shape, x.dtype)


def _broadcast_eval(x: np.ndarray, *, shape: Dims, dims: Dims) -> np.ndarray:
    # Reshape to the rank of the result first, because NumPy aligns dimensions at the end.
    middle = [1] * len(shape)
    for i, d in enumerate(dims):
        middle[d] = x.shape[i]
    return np.broadcast_to(x.reshape(middle), shape)


def _broadcast_vjp(g: Node, y: Node, x: Node, *, shape: Dims, dims: Dims) -> tuple[Node]:
    return (sum_to(g, x.type.shape, dims),)


def sum_to(g: Node, shape: Dims, dims: Dims) -> Node:
    """Return the gradient `g` of a broadcast result, summed to the operand's `shape`.

    Dimension i of the operand is dimension `dims[i]` of g. If nothing was broadcast, `g` is only reshaped.
    """
    summed = tuple(d for d in range(len(g.type.shape)) if d not in dims or shape[dims.index(d)] != g.type.shape[d])
    # A separate operation, because the front end writes this sum with more steps than others.
    return call("sum_to", g, shape=shape, dims=summed) if summed else reshape(g, shape)


def _slice_type(x: Type, *, starts: Dims, limits: Dims, strides: Dims) -> Type:
    # ceil((e - s) / t) in integers.
    return Type(tuple(max(0, -(-(e - s) // t)) for s, e, t in zip(starts, limits, strides, strict=True)), x.dtype)


def _slice_index(starts: Dims, limits: Dims, strides: Dims) -> tuple[slice, ...]:
    return tuple(slice(s, e, t) for s, e, t in zip(starts, limits, strides, strict=True))


def _slice_update(base: np.ndarray, value: np.ndarray, *, starts: Dims, limits: Dims, strides: Dims) -> np.ndarray:
    out = base.copy()
    out[_slice_index(starts, limits, strides)] = value
    return out


def _concat_type(*types: Type, dim: int) -> Type:
    first = types[0]
    before, behind = first.shape[:dim], first.shape[dim + 1 :]
    for t in types:
        shape = t.shape
        if t.dtype is not first.dtype or shape[:dim] != before or shape[dim + 1 :] != behind:
            raise ShapeError(
                f"{first} and {t} cannot be concatenated along dimension {dim}",
                hint="Pass tensors of one dtype that differ only in the extent of this dimension.",
            )
    return Type((*before, sum([t.shape[dim] for t in types]), *behind), first.dtype)


def _concat_vjp(g: Node, y: Node, *inputs: Node, dim: int) -> list[GradientSlice]:
    joint, pieces, at = JoinedGradient(g, dim, source.where()), [], 0
    for x in inputs:
        type = x.type
        pieces.append(GradientSlice(joint, at, type))
        at += type.shape[dim]
    return pieces


def reshape(x: Node, shape: Dims) -> Node:
    """Return `x` in another shape with the same elements in row-major order, or `x` itself if it has that shape."""
    return x if x.type.shape == shape else call("reshape", x, shape=shape)


def transpose(x: Node, permutation: Dims) -> Node:
    """Return `x` with dimension `permutation[i]` as dimension i."""
    return call("transpose", x, permutation=permutation)


def slice_(x: Node, starts: Dims, limits: Dims, strides: Dims | None = None) -> Node:
    """Return x[starts[d]:limits[d]:strides[d]] in each dimension d.

    Strides are 1 by default; there are no negative indices.
    """
    return call("slice", x, starts=starts, limits=limits, strides=strides or (1,) * len(starts))


def broadcast_to(x: Node, shape: Dims) -> Node:
    """Return `x` broadcast to `shape`, aligned at the last dimension. Raise ShapeError if it does not broadcast."""
    own = x.type.shape
    if own == shape:
        return x
    if len(own) > len(shape):
        raise ShapeError(
            f"expand({x.type}, size={list(shape)}): the number of sizes provided ({len(shape)}) must be greater or "
            f"equal to the number of dimensions in the tensor ({len(own)})",
            where=source.where(),
            hint="Pass as many sizes as the tensor has dimensions, or more.",
        )
    dims = tuple(range(len(shape) - len(own), len(shape)))
    return call("broadcast_in_dim", x, shape=shape, dims=dims)


def inverse_permutation(permutation: Dims) -> Dims:
    """Return the inverse of a permutation."""
    out = [0] * len(permutation)
    for i, p in enumerate(permutation):
        out[p] = i
    return tuple(out)


def _drop_full_slice(x: Node, *, starts: Dims, limits: Dims, strides: Dims) -> Node | None:
    """Return the operand of a slice that leaves nothing out, else None."""
    is_whole = limits == x.type.shape and not any(starts) and all(s == 1 for s in strides)
    return x if is_whole else None


op(
    "reshape",
    _reshape_type,
    lambda x, *, shape: x.reshape(shape),
    vjp=lambda g, y, x, *, shape: (reshape(g, x.type.shape),),
    # A reshape or transpose covers its base, so a write through it replaces all elements.
    put=lambda base, value, *, shape: reshape(value, base.type.shape),
    work=no_work,
    cirh=typed_operation("Reshape"),
    saves=False,
    gradient_name="View",
    renames=True,
)
op(
    "transpose",
    _transpose_type,
    lambda x, *, permutation: np.transpose(x, permutation),
    vjp=lambda g, y, x, *, permutation: (transpose(g, inverse_permutation(permutation)),),
    put=lambda base, value, *, permutation: transpose(value, inverse_permutation(permutation)),
    work=elementwise_work(0),
    cirh=TRANSPOSE,
    saves=False,
    gradient_name="Permute",
    renames=True,
)
op(
    "broadcast_in_dim",
    _broadcast_type,
    _broadcast_eval,
    vjp=_broadcast_vjp,
    work=elementwise_work(0),
    cirh=typed_operation("BroadcastInDim", broadcast_dims),
    saves=False,
    gradient_name="Expand",
    renames=True,
)
op(
    "slice",
    _slice_type,
    lambda x, *, starts, limits, strides: x[_slice_index(starts, limits, strides)],
    vjp=lambda g, y, x, **attrs: (call("slice_update", full_like(0, x), g, **attrs),),
    put=lambda base, value, **attrs: call("slice_update", base, value, **attrs),
    work=elementwise_work(0),
    cirh=SLICE.with_decomposition(_drop_full_slice),
    saves=False,
)


def _slice_update_vjp(g: Node, y: Node, base: Node, value: Node, **attrs: Any) -> tuple[Node, Node]:
    # Overwritten elements of the base get no gradient; the value gets the gradient of its elements.
    inner = call("slice", g, **attrs)
    return call("slice_update", g, full_like(0, inner), **attrs), inner


def _slice_update_as_pad(base: Node, value: Node, *, starts: Dims, limits: Dims, strides: Dims) -> Node | None:
    """Return a slice written into a constant of one value as padding around it, and between its elements if strides are
    above 1.

    Return None for another base, for booleans, and for an empty value.
    """
    # CIRH cannot pad booleans.
    if base.op != "full" or base.type.dtype.kind == "b" or 0 in value.type.shape:
        return None
    ends = (s + (n - 1) * step + 1 for s, n, step in zip(starts, value.type.shape, strides, strict=True))
    pairs = tuple((s, e - end) for s, e, end in zip(starts, base.type.shape, ends, strict=True))
    return call("pad", value, pairs=pairs, value=base.attrs["value"], interior=tuple(s - 1 for s in strides))


def _decompose_slice_update(base: Node, value: Node, *, starts: Dims, limits: Dims, strides: Dims) -> Node:
    """Return a slice written into a tensor: padding if the tensor is a constant, else one scatter per sliced
    dimension.

    Return `value` itself if it covers the whole tensor.
    """
    padded = _slice_update_as_pad(base, value, starts=starts, limits=limits, strides=strides)
    if padded is not None:
        return padded
    cut = [d for d, e in enumerate(base.type.shape) if value.type.shape[d] != e]
    if not cut:
        return value
    # Write dimension by dimension, from the last to the first: each slice is read, written into, and written back.
    bases = [base]
    for d in cut[:-1]:
        own = bases[-1].type.shape
        begins = tuple(starts[d] if k == d else 0 for k in range(len(own)))
        ends = tuple(limits[d] if k == d else e for k, e in enumerate(own))
        steps = tuple(strides[d] if k == d else 1 for k in range(len(own)))
        bases.append(slice_(bases[-1], begins, ends, steps))
    for part, d in zip(reversed(bases), reversed(cut), strict=True):
        value = _scatter_slice(part, value, d, range(starts[d], limits[d], strides[d]))
    return value


def _scatter_slice(base: Node, value: Node, dim: int, places: range) -> Node:
    """Return `base` with `value` written at the indices `places` of dimension `dim`, as a "select_scatter".

    The indices are int32 if `value` is a row with that dimension inserted, and int64 otherwise.
    """
    shape = value.type.shape
    # The front end uses int32 indices for a row selected by an integer, and int64 for slices.
    rest = (*shape[:dim], *shape[dim + 1 :])
    if value.op == "full" and len(places) == 1:
        value = reshape(full(value.attrs["value"], Type(rest, value.type.dtype)), shape)
    is_selected = value.op == "reshape" and value.inputs[0].type.shape == rest
    t = Type(shape, int32 if is_selected else int64)
    column = np.array(places).reshape([-1 if d == dim else 1 for d in range(len(shape))])
    index = full(places[0], t) if len(places) == 1 else const(np.broadcast_to(column, shape), t)
    return call("select_scatter", base, index, value, dim=dim, kind="set")


def join_disjoint_parts(a: Node, b: Node) -> Node | None:
    """Return a + b as writes if both are slices written into zeros and the slices are disjoint; else None.

    `a` may have several slices, `b` must have one, and the slices must be disjoint along one dimension. The result is
    b's slice written into a, or a concatenation if the slices cover everything along that dimension. The gradients of
    the parts of a split add up like this.
    """
    parts, zeros = _slice_updates_of_zeros(a)
    others, more_zeros = _slice_updates_of_zeros(b)
    if zeros is None or more_zeros is None or len(others) != 1:
        return None
    parts += others
    for dim, extent in enumerate(a.type.shape):
        spans = sorted((p.attrs["starts"][dim], p.attrs["limits"][dim]) for p in parts)
        # The parts are disjoint along this dimension.
        if all(end <= start for (_, end), (start, _) in pairwise(spans)):
            ends = [0, *(end for _, end in spans)]
            is_row = [*(start for start, _ in spans), extent] == ends
            if is_row and all(p.inputs[1].type.shape == _replace_extent(a.type.shape, dim, p) for p in parts):
                ordered = sorted(parts, key=lambda p: int(p.attrs["starts"][dim]))
                return call("concat", *(p.inputs[1] for p in ordered), dim=dim)
            return call("slice_update", a, b.inputs[1], **b.attrs)
    return None


def _replace_extent(shape: Dims, dim: int, part: Node) -> Dims:
    return (*shape[:dim], part.inputs[1].type.shape[dim], *shape[dim + 1 :])


def _slice_updates_of_zeros(n: Node) -> tuple[list[Node], Node | None]:
    """Return the slice updates with strides of 1 that `n` consists of, last one first, and the zeros that they write
    into.

    The second member is None if there are no updates or if the tensor below them is not a constant 0.
    """
    parts = []
    while n.op == "slice_update" and all(s == 1 for s in n.attrs["strides"]):
        parts.append(n)
        n = n.inputs[0]
    return parts, n if parts and n.op == "full" and n.attrs["value"] == 0 else None


op(
    "slice_update",
    lambda base, value, **attrs: base,
    _slice_update,
    vjp=_slice_update_vjp,
    work=elementwise_work(0),
    cirh=legal_by_decomposition(_decompose_slice_update),
    saves=False,
    gradient_name="torch::autograd::CopySlices",
)
op(
    "concat",
    _concat_type,
    lambda *xs, dim: np.concatenate(xs, dim),
    vjp=_concat_vjp,
    work=elementwise_work(0),
    cirh=typed_operation("Concat", integer_attribute("axis", "dim")),
    saves=False,
    gradient_name="Cat",
)
op(
    "arange",
    lambda *, start, step, type: type,
    # By multiplication, as in PyTorch: repeated addition of the step would accumulate errors.
    lambda *, start, step, type: (start + step * np.arange(type.size)).astype(type.dtype.host),
    work=no_work,
    cirh=ARANGE,
)


def _band_part_eval(x: np.ndarray, *, lower: int | None, upper: int | None) -> np.ndarray:
    kept = x if lower is None else np.triu(x, -lower)
    return kept if upper is None else np.tril(kept, upper)


def _decompose_band_part(x: Node, *, lower: int | None, upper: int | None) -> Node:
    """Return the front end's form of tril and triu.

    The part on and above a diagonal is selected by comparing row and column indices. The part below the main diagonal
    is x minus the rest.
    """
    if x.type.dtype.kind != "b":
        if upper is None and lower is not None:
            return where(_upper_mask(x.type, -lower), x, 0)
        if lower is None and upper is not None and upper < 0:
            return x - call("matrix_band", x, lower=-upper - 1, upper=None)
    return call("matrix_band", x, lower=lower, upper=upper)


def _upper_mask(t: Type, diagonal: int) -> Node:
    """Return whether column - row >= `diagonal` for each element: on or above that diagonal.

    The mask has the shape of `t`; a stack has one mask for all matrices. Row and column indices have the dtype of the
    elements.
    """
    shape = t.shape[-2:]
    if len(t.shape) == 2 and shape[0] == shape[1]:
        # The front end's function for a square matrix numbers rows from 1 and subtracts 1 again.
        places = call("arange", start=0, step=1, type=Type(shape[:1], t.dtype))
        return broadcast_to(reshape(places + 1, (shape[0], 1)) - 1, shape) <= broadcast_to(places - diagonal, shape)
    wide = []
    for d in range(2):
        numbers = call("arange", start=0, step=1, type=Type((shape[d],), int64))
        kept = cast(reshape(numbers, (shape[d], 1) if d == 0 else (1, shape[d])), t.dtype)
        wide.append(broadcast_to(kept, shape))
    return broadcast_to(wide[1] - wide[0] >= diagonal, t.shape)


op(
    "band_part",
    lambda x, *, lower, upper: x,
    _band_part_eval,
    vjp=lambda g, y, x, **attrs: (call("band_part", g, **attrs),),
    work=elementwise_work(0),
    cirh=legal_by_decomposition(_decompose_band_part),
    saves=False,
)
op("matrix_band", lambda x, *, lower, upper: x, _band_part_eval, work=elementwise_work(0), cirh=BAND)


def _causal_scores(scores: Node) -> Node:
    """Return attention scores [..., L, S], with -inf where the key is after the query."""
    rows, columns = scores.type.shape[-2:]
    mask = const(np.tri(rows, columns) > 0, Type((rows, columns), bool_))
    return where(broadcast_to(mask, scores.type.shape), scores, -math.inf)


def _biased_scores(scores: Node) -> Node:
    """Return the front end's form of causal scores: a matrix of 0 and -inf, made of a triangle, is added."""
    matrix = scores.type.shape[-2:]
    seen = call("matrix_band", full(True, Type(matrix, bool_)), lower=None, upper=0)
    bias = where(call("logical_not", seen), full(-math.inf, Type(matrix, scores.type.dtype)), 0)
    return scores + broadcast_to(bias, scores.type.shape)


op(
    "causal_scores",
    lambda scores: scores,
    lambda scores: np.where(np.tri(*scores.shape[-2:]) > 0, scores, np.asarray(-math.inf, scores.dtype)),
    # Masked scores have probability 0, so their gradient is 0 already.
    vjp=lambda g, y, scores: (g,),
    composite=_causal_scores,
    cirh=legal_by_decomposition(_biased_scores),
    saves=False,
)
