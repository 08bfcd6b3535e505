"""Operations on rows and parts that CIRH has, while the host uses indexing, slices and concatenations.

These are embeddings, splits, selections, stacks, repeats, padding and rolls.
"""

from typing import Any

from lazytensor.cirh.layers import gather_attributes
from lazytensor.cirh.listing import Listing, ints_text
from lazytensor.cirh.spelling import arguments, function_type, typed_operation
from lazytensor.core.dtype import int32, int64
from lazytensor.errors import CompileError, ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import Legality, legal_by_decomposition
from lazytensor.ir.types import Type
from lazytensor.ops.cirh_only import Pairs, split_limits
from lazytensor.ops.elementwise import cast, ne, where
from lazytensor.ops.formula import composite
from lazytensor.ops.index import index_get, index_put_at
from lazytensor.ops.op import call, full, full_like
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import Dims, reshape, slice_

NO_PADDING_INDEX = -1
"""The padding index that the front end passes if the layer has none."""


def _gather_rows(x: Node, numbers: Node, *, dim: int) -> Node:
    return index_get(x, (cast(numbers, int64),), (dim,))


def _gather_rows_type(x: Type, numbers: Type, *, dim: int) -> Type:
    if len(numbers.shape) != 1 or numbers.dtype.kind != "i":
        raise ShapeError(
            f"rows must be selected by a vector of integers, not by {numbers}",
            hint="Convert the indices to a vector of integers.",
        )
    return Type((*x.shape[:dim], *numbers.shape, *x.shape[dim + 1 :]), x.dtype)


# A separate operation, because CIRH's Gather takes a vector of int32 unchanged, but indexing converts to int64.
composite("gather_rows", _gather_rows, _gather_rows_type, cirh=typed_operation("Gather", gather_attributes))


def _embedding(weight: Node, numbers: Node, *, padding: int) -> Node:
    return index_get(weight, (cast(numbers, int64),), (0,))


def _decompose_embedding(weight: Node, numbers: Node, *, padding: int) -> Node:
    flat = reshape(numbers, (numbers.type.size,))
    # Gather takes one vector: flatten the indices before it, and reshape the rows after it.
    rows = call("gather_rows", weight, flat, dim=0)
    return reshape(rows, (*numbers.type.shape, *weight.type.shape[1:]))


def _embedding_vjp(g: Node, y: Node, weight: Node, numbers: Node, *, padding: int) -> tuple[Node, None]:
    return call("embedding_grad", g, numbers, rows=weight.type.shape[0], padding=padding), None


def _flat_gradient(g: Node, numbers: Node, padding: int) -> tuple[Node, Node]:
    """Return the indices as a vector of n elements, and the rows of the gradient as [n, width].

    Rows of the index `padding` are zero; -1 means that there is no padding index.
    """
    flat = reshape(numbers, (numbers.type.size,))
    rows = reshape(g, (*flat.type.shape, g.type.shape[-1]))
    # Compare with `padding` even if the layer has none, because the front end's text always shows this comparison.
    counts = reshape(ne(flat, padding), (*flat.type.shape, 1))
    wide = call("broadcast_in_dim", counts, shape=rows.type.shape, dims=(0, 1))
    return flat, where(wide, rows, 0)


def _embedding_grad(g: Node, numbers: Node, *, rows: int, padding: int) -> Node:
    table = full(0, Type((rows, g.type.shape[-1]), g.type.dtype))
    flat, values = _flat_gradient(g, numbers, padding)
    return index_put_at(table, values, (cast(flat, int64),), (0,), True)


def _decompose_embedding_grad(g: Node, numbers: Node, *, rows: int, padding: int) -> Node:
    table = full(0, Type((rows, g.type.shape[-1]), g.type.dtype))
    flat, values = _flat_gradient(g, numbers, padding)
    # ScatterNd does not support negative indices, but PyTorch does.
    from_end = flat < 0
    inside = where(from_end, flat + rows, flat)
    return call("scatter_points", table, reshape(inside, (*flat.type.shape, 1)), values)


def _embedding_type(weight: Type, numbers: Type, *, padding: int) -> Type:
    if numbers.dtype.kind != "i":
        raise ShapeError(
            f"an embedding must be indexed by integers, not by {numbers}",
            hint="Convert the indices, for example with .long().",
        )
    return Type((*numbers.shape, *weight.shape[1:]), weight.dtype)


composite(
    "embedding", _embedding, _embedding_type, vjp=_embedding_vjp, cirh=legal_by_decomposition(_decompose_embedding)
)
composite(
    "embedding_grad",
    _embedding_grad,
    lambda g, numbers, *, rows, padding: Type((rows, g.shape[-1]), g.dtype),
    cirh=legal_by_decomposition(_decompose_embedding_grad),
)


def _split_part(x: Node, *, dim: int, sizes: Dims, index: int) -> Node:
    return slice_(x, *split_limits(x.type.shape, dim, sizes, index))


def _put_split_part(base: Node, value: Node, *, dim: int, sizes: Dims, index: int) -> Node:
    starts, limits = split_limits(base.type.shape, dim, sizes, index)
    return call("slice_update", base, value, starts=starts, limits=limits, strides=(1,) * len(starts))


def _split_part_vjp(g: Node, y: Node, x: Node, *, dim: int, sizes: Dims, index: int) -> tuple[Node]:
    return (call("split_grad", g, shape=x.type.shape, dim=dim, sizes=sizes, indices=(index,)),)


composite(
    "part",
    _split_part,
    lambda x, *, dim, sizes, index: Type((*x.shape[:dim], sizes[index], *x.shape[dim + 1 :]), x.dtype),
    vjp=_split_part_vjp,
    put=_put_split_part,
    cirh=legal_by_decomposition(lambda x, *, index, **attrs: call("result", call("split", x, **attrs), index=index)),
    saves=False,
    gradient_name="Split",
)


def _join_parts_with_zeros(*parts: Node, shape: Dims, dim: int, sizes: Dims, indices: Dims) -> Node:
    whole = full(0, Type(shape, parts[0].type.dtype))
    for part, index in zip(parts, indices, strict=True):
        starts, limits = split_limits(shape, dim, sizes, index)
        whole = call("slice_update", whole, part, starts=starts, limits=limits, strides=(1,) * len(shape))
    return join_parts(parts, shape, dim) if len(indices) == len(sizes) else whole


def join_parts(parts: tuple[Node, ...], shape: Dims, dim: int) -> Node:
    """Return `parts` concatenated along `dim`; a single part that has the whole shape is returned unchanged."""
    return parts[0] if parts[0].type.shape == shape else call("concat", *parts, dim=dim)


def _decompose_split_grad(*parts: Node, shape: Dims, dim: int, sizes: Dims, indices: Dims) -> Node:
    """Return the gradient of a split in the front end's form: all parts concatenated, zeros for those without a
    gradient.

    `parts` are the gradients of the parts with the numbers `indices`; `sizes` has the extents of all parts along `dim`.
    """
    given = dict(zip(indices, parts, strict=True))
    dtype = parts[0].type.dtype
    zeros = (full(0, Type((*shape[:dim], e, *shape[dim + 1 :]), dtype)) for e in sizes)
    return join_parts(tuple(given.get(k, zero) for k, zero in enumerate(zeros)), shape, dim)


def _split_grad_vjp(gg: Node, y: Node, *parts: Node, shape: Dims, indices: Dims, **attrs: Any) -> list[Node]:
    return [call("part", gg, index=k, **attrs) for k in indices]


composite(
    "split_grad",
    _join_parts_with_zeros,
    lambda *parts, shape, **attrs: Type(shape, parts[0].dtype),
    vjp=_split_grad_vjp,
    cirh=legal_by_decomposition(_decompose_split_grad),
    saves=False,
)


def _select(x: Node, *, dim: int, index: int) -> Node:
    shape = x.type.shape
    return reshape(slice_(x, *_select_limits(shape, dim, index)), (*shape[:dim], *shape[dim + 1 :]))


def _select_limits(shape: Dims, dim: int, index: int) -> tuple[Dims, Dims]:
    starts = tuple(index if d == dim else 0 for d in range(len(shape)))
    return starts, tuple(index + 1 if d == dim else e for d, e in enumerate(shape))


def _put_select(base: Node, value: Node, *, dim: int, index: int) -> Node:
    shape = base.type.shape
    starts, limits = _select_limits(shape, dim, index)
    row = reshape(value, (*shape[:dim], 1, *shape[dim + 1 :]))
    return call("slice_update", base, row, starts=starts, limits=limits, strides=(1,) * len(shape))


def _select_vjp(g: Node, y: Node, x: Node, **attrs: Any) -> tuple[Node]:
    return (call("select_grad", g, shape=x.type.shape, **attrs),)


composite(
    "select",
    _select,
    lambda x, *, dim, index: Type((*x.shape[:dim], *x.shape[dim + 1 :]), x.dtype),
    # A view in NumPy, so that arrays of the script share memory. The ellipsis gives an array also for one element.
    eval=lambda x, *, dim, index: x[(*(slice(None),) * dim, index, ...)],
    vjp=_select_vjp,
    put=_put_select,
    saves=False,
    gradient_name="Select",
)


def _decompose_select_grad(g: Node, *, shape: Dims, dim: int, index: int) -> Node:
    """Return the gradient of a selection in the front end's form: values scattered into zeros."""
    row = reshape(g, (*shape[:dim], 1, *shape[dim + 1 :]))
    base, places = full(0, Type(shape, g.type.dtype)), full(index, Type(row.type.shape, int32))
    return call("select_scatter", base, places, row, dim=dim, kind="set")


composite(
    "select_grad",
    lambda g, *, shape, **attrs: _put_select(full(0, Type(shape, g.type.dtype)), g, **attrs),
    lambda g, *, shape, **attrs: Type(shape, g.dtype),
    vjp=lambda gg, y, g, *, shape, **attrs: (call("select", gg, **attrs),),
    cirh=legal_by_decomposition(_decompose_select_grad),
    saves=False,
)


def _stack_type(*types: Type, dim: int) -> Type:
    first = types[0]
    for k, t in enumerate(types):
        if t != first:
            raise ShapeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and "
                f"{list(t.shape)} at entry {k}",
                hint="Reshape or pad the tensors to one size.",
            )
    return Type((*first.shape[:dim], len(types), *first.shape[dim:]), first.dtype)


def _decompose_stack(*xs: Node, dim: int) -> Node:
    # The front end writes a stack with broadcasts, not with reshapes.
    shape = xs[0].type.shape
    dims = tuple(d for d in range(len(shape) + 1) if d != dim)
    wide = (*shape[:dim], 1, *shape[dim:])
    return call("concat", *[call("broadcast_in_dim", x, shape=wide, dims=dims) for x in xs], dim=dim)


composite(
    "stack",
    _decompose_stack,
    _stack_type,
    vjp=lambda g, y, *xs, dim: [_select(g, dim=dim, index=k) for k in range(len(xs))],
    saves=False,
    gradient_name="Stack",
)


def _repeat_type(x: Type, *, times: Dims) -> Type:
    lead = len(times) - len(x.shape)
    return Type(tuple(n * e for n, e in zip(times, (*(1,) * lead, *x.shape), strict=True)), x.dtype)


def _repeat(x: Node, *, times: Dims) -> Node:
    """Return x repeated `times[d]` times along each dimension d, as Tensor.repeat.

    If `times` is longer than the rank of x, leading dimensions are inserted. A count of 0 gives an empty dimension.
    """
    x = reshape(x, (*(1,) * (len(times) - len(x.type.shape)), *x.type.shape))
    for d, n in enumerate(times):
        if n == 0:
            x = slice_(x, (0,) * len(times), tuple(0 if k == d else e for k, e in enumerate(x.type.shape)))
        elif n > 1:
            x = call("concat", *[x] * n, dim=d)
    return x


def _repeat_vjp(g: Node, y: Node, x: Node, *, times: Dims) -> tuple[Node]:
    """Gradient rule of repeat: a tuple of the sum over all copies.

    New dimensions are summed first, then the repeats.
    """
    lead = len(times) - len(x.type.shape)
    for _ in range(lead):
        g = reduce(g, "add", (0,))
    shape, summed = list[int](), list[int]()
    for n, e in zip(times[lead:], x.type.shape, strict=True):
        if n != 1:
            summed.append(len(shape))
            shape.append(n)
        shape.append(e)
    return (reduce(reshape(g, tuple(shape)), "add", tuple(summed)) if summed else g,)


def _spell_repeat(out: Listing, n: Node) -> str:
    (x,) = n.inputs
    # The front end records the call for any number of dimensions, but its operation requires the operand's rank.
    if len(n.attrs["times"]) != len(x.type.shape):
        raise CompileError(
            "'cirh.Repeat' op `input` and `result` rank must be the same",
            where=n.where,
            hint="Add the new dimensions with unsqueeze first.",
        )
    return f"cirh.Repeat {arguments(out, n)} {{repeats = {ints_text(n.attrs['times'])}}} : {function_type(n)}"


composite(
    "repeat",
    _repeat,
    _repeat_type,
    vjp=_repeat_vjp,
    cirh=Legality(_spell_repeat).with_decomposition(lambda x, *, times: x if all(n == 1 for n in times) else None),
    saves=False,
    gradient_name="Repeat",
)


def _pad_type(x: Type, *, pairs: Pairs, value: float) -> Type:
    return Type(tuple(e + low + high for e, (low, high) in zip(x.shape, pairs, strict=True)), x.dtype)


def _pad(x: Node, *, pairs: Pairs, value: float) -> Node:
    """Return x with padding of `value`; `pairs` has the (low, high) width of each dimension.

    Negative widths cut elements off. If no width is positive, only a slice of x is returned.
    """
    starts = tuple(max(-low, 0) for low, _ in pairs)
    limits = tuple(e + min(high, 0) for e, (_, high) in zip(x.type.shape, pairs, strict=True))
    extents = _pad_type(x.type, pairs=pairs, value=value)
    x = slice_(x, starts, limits)
    if x.type == extents:
        return x
    starts = tuple(max(low, 0) for low, _ in pairs)
    limits = tuple(s + e for s, e in zip(starts, x.type.shape, strict=True))
    return call("slice_update", full(value, extents), x, starts=starts, limits=limits, strides=(1,) * len(starts))


def _pad_vjp(g: Node, y: Node, x: Node, *, pairs: Pairs, value: float) -> tuple[Node]:
    return (call("constant_pad", g, pairs=tuple((-low, -high) for low, high in pairs), value=0),)


def _decompose_pad(x: Node, *, pairs: Pairs, value: float) -> Node | None:
    # CIRH cannot pad booleans.
    if x.type.dtype.kind == "b":
        return None
    return call("pad", x, pairs=pairs, value=value, interior=(0,) * len(pairs))


composite(
    "constant_pad",
    _pad,
    _pad_type,
    vjp=_pad_vjp,
    cirh=legal_by_decomposition(_decompose_pad, "Write torch.where(mask, new, old), or torch.cat of the parts."),
    saves=False,
    gradient_name="ConstantPadNd",
)


def _roll(x: Node, *, shift: int, dim: int) -> Node:
    extent = x.type.shape[dim]
    cut = (extent - shift) % extent
    parts = (split_limits(x.type.shape, dim, (cut, extent - cut), k) for k in (1, 0))
    return call("concat", *(slice_(x, *limits) for limits in parts), dim=dim)


def _decompose_roll(x: Node, *, shift: int, dim: int) -> Node:
    return call("gather_rows", x, rolled_indices(x.type.shape[dim], shift), dim=dim)


def rolled_indices(extent: int, shift: int) -> Node:
    """Return the source index of each element of a dimension rolled by `shift`, as an int64 node of `extent` elements.

    It is (i - shift) mod extent, in integers.
    """
    places = call("arange", start=0, step=1, type=Type((extent,), int64))
    moved = places + (extent - shift) % extent
    # CIRH has no integer remainder, so it is computed from the quotient.
    return moved - call("integer_div", moved, full_like(extent, moved)) * extent


composite("turn", _roll, lambda x, **attrs: x, cirh=legal_by_decomposition(_decompose_roll))
