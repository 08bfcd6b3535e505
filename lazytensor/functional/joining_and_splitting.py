"""Functions that join, split, stack and tile tensors, that build grids, and copying forms of views (`view_copy`)."""

from collections.abc import Callable, Sequence
from typing import Any

from lazytensor.core import source
from lazytensor.core.dtype import int64
from lazytensor.core.tensor import Size, Tensor, operand_node, wrap
from lazytensor.core.tensor_members import method
from lazytensor.docstrings import documented
from lazytensor.errors import ArgumentInvalid, IndexInvalid, OptionInvalid, ShapeError
from lazytensor.functional import views
from lazytensor.functional.creation import parse_size
from lazytensor.functional.padding_and_shuffles import constant_pad_nd
from lazytensor.functional.pointwise import cast_to, clone, tensor_of
from lazytensor.functional.type_promotion import broadcast_shape, result_type
from lazytensor.functional.views import (
    mark_multi_output_views,
    normalize_dim,
    permute,
    ravel,
    slice_dim,
    transpose,
    unsqueeze,
    view,
)
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import call, full
from lazytensor.ops.elementwise import cast
from lazytensor.ops.shape import sum_to

Sections = int | Sequence[int] | Tensor


def as_tensor_tuple(tensors: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return the tensors of a call `f(a, b)` or `f([a, b])` as a tuple."""
    return tuple(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors


@method
def split(
    x: Tensor,
    split_size_or_sections: int | Sequence[int] | Tensor | None = None,
    dim: int = 0,
    *,
    split_size: int | Sequence[int] | Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Return views of consecutive pieces of `x` along `dim`.

    `split_size_or_sections`, or `split_size`, is the size of each piece, where the last may be smaller, or a list of
    sizes. Raises ShapeError if the sizes do not add up to the extent or the size is not positive. Raises
    ArgumentInvalid (a TypeError) if no size is given.

    >>> import lazytensor as lt
    >>> lt.split(lt.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    at = normalize_dim(dim, x.ndim)
    extent = x.spec.shape[at]
    # The method's first parameter is called `split_size`.
    sizes = split_size_or_sections if split_size is None else split_size
    if sizes is None:
        raise ArgumentInvalid(
            "split() missing 1 required positional argument: 'split_size_or_sections'",
            where=source.where(),
            hint="Pass the size of a part, or a list of sizes.",
        )
    # PyTorch truncates a fraction here.
    if isinstance(sizes, Tensor) and sizes.spec.size == 1:
        sizes = int(sizes)
    if isinstance(sizes, Tensor):
        text = f"split(): argument 'split_sizes' (position 2) must be tuple of ints, not {sizes.spec}"
        raise ArgumentInvalid(text, where=source.where(), hint="Pass an integer, or a list of integers.")
    if isinstance(sizes, int):
        if sizes <= 0 and (sizes or extent):
            raise ShapeError(
                f"split expects split_size be positive, but got {sizes}",
                where=source.where(),
                hint="Pass sizes of at least 0, and a single size above 0.",
            )
        # An extent of 0 gives one empty piece.
        sizes = [min(sizes, extent - i) for i in range(0, extent, sizes or 1)] or [0]
    if sum(sizes) != extent:
        raise ShapeError(
            f"split sizes {list(sizes)} do not add up to the extent {extent}",
            where=source.where(),
            hint="Pass sizes whose sum is the extent.",
        )
    # Each piece stores all sizes, since CIRH has one split operation with several results.
    name = "SplitWithSizes" if isinstance(split_size_or_sections, list | tuple) else "Split"
    return mark_multi_output_views(
        name, [x.make_view("part", dim=at, sizes=tuple(sizes), index=i) for i in range(len(sizes))]
    )


@method
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return at most `chunks` views of `x` along `dim`, of equal size except that the last may be smaller.

    The size is ceil(extent / chunks), so there may be fewer pieces. Raises ShapeError if `chunks` is not positive.

    >>> import lazytensor as lt
    >>> lt.chunk(lt.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    if chunks <= 0:
        raise ShapeError(
            f"chunk expects `chunks` to be greater than 0, got: {chunks}",
            where=source.where(),
            hint="Pass a positive number of chunks.",
        )
    # Rounded up, so there may be fewer chunks than requested, as in PyTorch.
    return split(x, max(1, -(-x.spec.shape[normalize_dim(dim, x.ndim)] // chunks)), dim)


@method
def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return a view of `x` at each index along `dim`, without that dimension.

    Raises IndexError if `x` does not have the dimension.

    >>> import lazytensor as lt
    >>> lt.unbind(lt.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    if not x.ndim:
        raise IndexInvalid(
            f"Dimension specified as {dim} but tensor has no dimensions",
            where=source.where(),
            hint="Pass dim=0, or unsqueeze the tensor.",
        )
    d = normalize_dim(dim, x.ndim)
    shape = (*x.spec.shape[:d], *x.spec.shape[d + 1 :])
    # Sliced, not selected, as in the vendor's front end: the gradient of a slice is padding.
    return mark_multi_output_views("Unbind", (view(slice_dim(x, d, i, i + 1), shape) for i in range(x.spec.shape[d])))


def require_tensors(tensors: Sequence[Tensor], what: str) -> None:
    """Raise ShapeError if `tensors` is empty. `what` is the function's name in the error."""
    if not len(tensors):
        raise ShapeError(
            f"{what} expects a non-empty TensorList", where=source.where(), hint="Pass at least one tensor."
        )


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return `tensors` concatenated along `dim`. All other extents have to agree, and dtypes are promoted.

    Empty vectors [0] fit every shape. Raises OptionInvalid (a ValueError) if there are no tensors, and ShapeError for
    0-d tensors and for extents that differ.

    >>> import lazytensor as lt
    >>> lt.cat([lt.zeros(2), lt.ones(1)])
    tensor([0., 0., 1.])
    """
    if not len(tensors):
        raise OptionInvalid(
            "torch.cat(): expected a non-empty list of Tensors", where=source.where(), hint="Pass at least one tensor."
        )
    # The user's line is looked up once for all tensors.
    with source.fixed_location(source.where()):
        return tensor_of(_concat_node(tensors, dim), *tensors)


def _concat_node(tensors: Sequence[Tensor], dim: int) -> Node:
    """Return the node of `tensors` concatenated along `dim`, in their promoted dtype.

    Empty vectors [0] take the shape of the others. Raises ShapeError for a 0-d tensor.
    """
    types = [x.spec for x in tensors]
    if not all(t.shape for t in types):
        raise ShapeError(
            f"zero-dimensional tensor cannot be concatenated: the shapes are {[list(t.shape) for t in types]}",
            where=source.where(),
            hint="Use torch.stack.",
        )
    # Dtypes are promoted over all tensors.
    dtypes = {t.dtype for t in types}
    dtype = result_type(*tensors) if len(dtypes) > 1 else dtypes.pop()
    # An empty vector is compatible with every shape: scripts start a collection with `torch.tensor([])`.
    like = next((t.shape for t in types if t.shape != (0,)), (0,))
    at = normalize_dim(dim, len(like))
    if like != (0,):
        nothing = (*like[:at], 0, *like[at + 1 :])
        tensors = [view(x, nothing) if x.spec.shape == (0,) else x for x in tensors]
    return call("concat", *[cast(operand_node(x), dtype) for x in tensors], dim=at)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return `tensors` of one shape [...] joined along a new dimension `dim`: [..., n, ...]. Dtypes are promoted.

    Raises ShapeError if there are no tensors or their shapes differ.

    >>> import lazytensor as lt
    >>> lt.stack([lt.zeros(2), lt.ones(2)], dim=1)
    tensor([[0., 1.],
            [0., 1.]])
    """
    require_tensors(tensors, "stack")
    at = normalize_dim(dim, tensors[0].ndim + 1)
    dtypes = {x.dtype for x in tensors}
    dtype = result_type(*tensors) if len(dtypes) > 1 else dtypes.pop()
    with source.fixed_location(source.where()):
        return tensor_of(call("stack", *[cast(operand_node(x), dtype) for x in tensors], dim=at), *tensors)


def broadcast_shapes(*sizes: Any) -> Size:
    """Return the Size that the given shapes broadcast to. An integer counts as a shape with one dimension.

    Raises ShapeError if the shapes do not broadcast.

    >>> import lazytensor as lt
    >>> lt.broadcast_shapes((2, 1), (3,))
    lazytensor.Size([2, 3])
    """
    return Size(broadcast_shape((), *((s,) if isinstance(s, int) else tuple(s) for s in sizes)))


@method
def sum_to_size(x: Tensor, *args: Any, size: Sequence[int] | None = None) -> Tensor:
    """Return `x` summed over the dimensions that broadcasting `size` to the shape of `x` would expand.

    `x` itself is returned if it has that shape and is not 0-d. Integers and bools are summed in int64. Raises
    ShapeError if `size` does not broadcast to the shape of `x`.
    """
    shape = parse_size(args if size is None else (size,))
    lead = x.ndim - len(shape)
    if lead < 0 or any(e not in (1, x.spec.shape[lead + i]) for i, e in enumerate(shape)):
        raise ShapeError(
            f"size {{{list(shape)}}} is not expandable to size {{{list(x.shape)}}}.",
            where=source.where(),
            hint="Pass a shape whose extents are 1 or equal to the target's.",
        )
    # PyTorch returns the tensor itself here, not a copy.
    if shape and shape == x.spec.shape:
        return x
    n = operand_node(x) if x.dtype.kind == "f" else cast(operand_node(x), int64)  # as in PyTorch
    return tensor_of(sum_to(n, shape, tuple(range(lead, x.ndim))), x)


@method
def split_with_sizes(x: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of consecutive pieces of `x` along `dim` with the sizes `split_sizes`.

    Raises ShapeError if the sizes do not add up to the extent.

    >>> import lazytensor as lt
    >>> lt.split_with_sizes(lt.arange(4), [1, 3])
    (tensor([0]), tensor([1, 2, 3]))
    """
    return split(x, list(split_sizes), dim)


@method
def unsafe_split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return `split(x, split_size, dim)`: views of consecutive pieces.

    >>> import lazytensor as lt
    >>> lt.unsafe_split(lt.arange(4), 3)
    (tensor([0, 1, 2]), tensor([3]))
    """
    return split(x, split_size, dim)


@method
def unsafe_chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return `chunk(x, chunks, dim)`: at most `chunks` views of equal size.

    >>> import lazytensor as lt
    >>> lt.unsafe_chunk(lt.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    return chunk(x, chunks, dim)


unsafe_split_with_sizes = split_with_sizes


@method
def tensor_split(
    x: Tensor,
    indices_or_sections: Sections | None = None,
    dim: int = 0,
    *,
    indices: Sequence[int] | None = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:
    """Return views of `x` split along `dim` into nearly equal sections, or at given indices.

    `indices_or_sections` is a number of sections, or a sequence or tensor of indices; `sections` and `indices` are its
    keyword forms. If the extent is not divisible, the first sections are one longer. An index beyond the end gives an
    empty piece. Raises ShapeError if `x` has no dimensions or the number of sections is not positive.

    >>> import lazytensor as lt
    >>> lt.tensor_split(lt.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if not x.ndim:
        raise ShapeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a 0-d one",
            where=source.where(),
            hint="Add a dimension with unsqueeze(0).",
        )
    at = normalize_dim(dim, x.ndim)
    extent, wanted = x.spec.shape[at], indices_or_sections
    wanted = indices if indices is not None else sections if sections is not None else wanted
    # The number of pieces decides the structure of the graph, so a tensor of indices is read.
    cuts = wanted.tolist() if isinstance(wanted, Tensor) else wanted
    if isinstance(cuts, int):
        if cuts <= 0:
            raise ShapeError(
                f"number of sections must be larger than 0, got {cuts}",
                where=source.where(),
                hint="Pass a positive number of sections.",
            )
        # The first extent % sections pieces are one longer.
        cuts = [extent // cuts * i + min(i, extent % cuts) for i in range(1, cuts)]
    # A slice limits indices to the extent and counts negative ones from the end, as PyTorch does here.
    places = [slice(a, b).indices(extent) for a, b in zip([0, *cuts], [*cuts, extent], strict=True)]  # type: ignore
    return mark_multi_output_views("Split", (slice_dim(x, at, a, max(a, b)) for a, b, _ in places))


def _even_split(x: Tensor, what: str, sections: Sections, dim: int) -> tuple[Tensor, ...]:
    """Return `tensor_split` of `x`. Raises ShapeError if a number of sections does not divide the extent.

    `what` is the function's name in the error. A list of indices is not checked.
    """
    # NumPy's rule: unequal sections are an error, except in `tensor_split`.
    if isinstance(sections, int) and (sections <= 0 or x.spec.shape[dim] % sections):
        raise ShapeError(
            f"torch.{what} attempted to split along dimension {dim}, but the size of the dimension "
            f"{x.spec.shape[dim]} is not divisible by the split_size {sections}!",
            where=source.where(),
            hint="Choose a divisor of the size, or use torch.tensor_split.",
        )
    return tensor_split(x, sections, dim)


def _require_rank(x: Tensor, what: str, rank: int) -> None:
    if x.ndim < rank:
        raise ShapeError(
            f"torch.{what} requires a tensor with at least {rank} dimension, "
            f"but got a tensor with {x.ndim} dimensions!",
            where=source.where(),
            hint="Add dimensions with unsqueeze().",
        )


@method
def hsplit(x: Tensor, indices_or_sections: Sections) -> tuple[Tensor, ...]:
    """Return views of `x` split along dimension 1, or along dimension 0 if it is a vector.

    `indices_or_sections` is a number of equal sections, or the indices at which to split. Raises ShapeError if `x` has
    no dimensions, or if the extent is not divisible by the number of sections.

    >>> import lazytensor as lt
    >>> lt.hsplit(lt.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    _require_rank(x, "hsplit", 1)
    return _even_split(x, "hsplit", indices_or_sections, 0 if x.ndim == 1 else 1)


@method
def vsplit(x: Tensor, indices_or_sections: Sections) -> tuple[Tensor, ...]:
    """Return views of `x` split along dimension 0 into equal sections or at given indices.

    Raises ShapeError if `x` has fewer than two dimensions, or if the extent is not divisible by the number of sections.

    >>> import lazytensor as lt
    >>> lt.vsplit(lt.tensor([[1, 2], [3, 4]]), 2)
    (tensor([[1, 2]]), tensor([[3, 4]]))
    """
    _require_rank(x, "vsplit", 2)
    return _even_split(x, "vsplit", indices_or_sections, 0)


@method
def dsplit(x: Tensor, indices_or_sections: Sections) -> tuple[Tensor, ...]:
    """Return views of `x` split along dimension 2 into equal sections or at given indices.

    Raises ShapeError if `x` has fewer than three dimensions, or if the extent is not divisible by the number of
    sections.

    >>> import lazytensor as lt
    >>> [part.shape for part in lt.dsplit(lt.ones(1, 2, 4), 2)]
    [lazytensor.Size([1, 2, 2]), lazytensor.Size([1, 2, 2])]
    """
    _require_rank(x, "dsplit", 3)
    return _even_split(x, "dsplit", indices_or_sections, 2)


def _make_atleast_nd(rank: int, shapes: str, example: str) -> Callable[..., Any]:
    """Return the function `atleast_1d`, `atleast_2d` or `atleast_3d`, according to `rank`.

    `shapes` is the sentence of its docstring that states the new shapes.
    """

    def one(x: Tensor) -> Tensor:
        if x.ndim >= rank:
            return x
        shape = x.spec.shape
        # NumPy's rule for images: a matrix becomes [m, n, 1], and a vector [1, n, 1].
        if rank == 3:
            return view(x, (1, 1, 1) if not shape else (1, *shape, 1) if len(shape) == 1 else (*shape, 1))
        return view(x, (*(1,) * (rank - len(shape)), *shape))

    def function(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return one(tensors[0])
        return tuple(one(x) for x in as_tensor_tuple(tensors))

    text = (
        f"Return views of tensors with at least {rank} dimension{'s'[: rank - 1]}. {shapes}\n\n"
        "Tensors with enough dimensions are returned themselves. The result is a tensor if the only argument is one.\n"
        "For several tensors, and for a sequence of tensors, it is a tuple."
    )
    return documented(function, f"atleast_{rank}d", text, example)


atleast_1d = _make_atleast_nd(1, "A 0-d tensor becomes [1].", ">>> lt.atleast_1d(lt.tensor(3))\ntensor([3])")
atleast_2d = _make_atleast_nd(
    2, "A vector [n] becomes [1, n], and a 0-d tensor [1, 1].", ">>> lt.atleast_2d(lt.tensor([1, 2]))\ntensor([[1, 2]])"
)
atleast_3d = _make_atleast_nd(
    3,
    "[m, n] becomes [m, n, 1], [n] [1, n, 1], and a 0-d tensor [1, 1, 1].",
    ">>> lt.atleast_3d(lt.tensor([1, 2])).shape\nlazytensor.Size([1, 2, 1])",
)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return `tensors` concatenated along dimension 1, or along dimension 0 if the first is a vector.

    0-d tensors become vectors. Raises ShapeError if there are no tensors or other extents differ.

    >>> import lazytensor as lt
    >>> lt.hstack([lt.tensor([1, 2]), lt.tensor([8, 9])])
    tensor([1, 2, 8, 9])
    """
    require_tensors(tensors, "hstack")
    # The rank of the first tensor decides, as in NumPy.
    raised = atleast_1d(list(tensors))
    return cat(raised, 0 if raised and raised[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return `tensors` concatenated along dimension 0. Vectors [n] become rows [1, n].

    Raises ShapeError if there are no tensors or other extents differ.

    >>> import lazytensor as lt
    >>> lt.vstack([lt.tensor([1, 2]), lt.tensor([8, 9])])
    tensor([[1, 2],
            [8, 9]])
    """
    require_tensors(tensors, "vstack")
    return cat(atleast_2d(list(tensors)), 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return `tensors` concatenated along dimension 2. Vectors become [1, n, 1] and matrices [m, n, 1].

    Raises ShapeError if there are no tensors or other extents differ.

    >>> import lazytensor as lt
    >>> lt.dstack([lt.tensor([1, 2]), lt.tensor([8, 9])])
    tensor([[[1, 8],
             [2, 9]]])
    """
    require_tensors(tensors, "dstack")
    return cat(atleast_3d(list(tensors)), 2)


row_stack = vstack


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Return `tensors` concatenated along dimension 1. Vectors [n] become columns [n, 1], 0-d tensors [1, 1].

    Raises ShapeError if there are no tensors or the row counts differ.

    >>> import lazytensor as lt
    >>> lt.column_stack([lt.tensor([1, 2]), lt.tensor([8, 9])])
    tensor([[1, 8],
            [2, 9]])
    """
    require_tensors(tensors, "column_stack")
    # Only vectors become columns; matrices stay as they are.
    return cat([view(x, (x.spec.size, 1)) if x.ndim < 2 else x for x in tensors], 1)


@method
def tile(x: Tensor, *args: Any, dims: Sequence[int] | None = None) -> Tensor:
    """Return `x` repeated `dims` times along each dimension, given as `tile(x, 2, 3)`, `tile(x, (2, 3))` or by name.

    If `dims` has fewer numbers than `x` dimensions, it is preceded by ones. If it has more, `x` gets leading dimensions
    of extent 1.

    >>> import lazytensor as lt
    >>> lt.tile(lt.tensor([1, 2]), (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    times = parse_size(args if dims is None else (dims,))
    # `tile` fills missing numbers with leading ones; `repeat` refuses them.
    return views.repeat(x, (*(1,) * (x.ndim - len(times)), *times))


def block_diag(*tensors: Tensor) -> Tensor:
    """Return a matrix with the given matrices along its diagonal and zeros elsewhere. Vectors count as rows.

    Dtypes are promoted. Without arguments the result is an empty row [1, 0]. Raises ShapeError for more than two
    dimensions.

    >>> import lazytensor as lt
    >>> lt.block_diag(lt.tensor([[1, 2]]), lt.tensor([[3]]))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    # Without arguments PyTorch returns one empty row.
    blocks = [atleast_2d(x) for x in tensors] or [wrap(full(0.0, Type((1, 0), result_type(0.0))))]
    if any(b.ndim > 2 for b in blocks):
        raise ShapeError(
            "torch.block_diag: Input tensors must have 2 or fewer dimensions."
            f" Got {[b.ndim for b in blocks]} dimensions.",
            where=source.where(),
            hint="Pass matrices, vectors or scalars.",
        )
    dtype = result_type(*blocks)
    columns = sum(b.spec.shape[1] for b in blocks)
    lines, at = [], 0
    # Each block is padded to the full width, then all are concatenated by rows.
    for b in blocks:
        width = b.spec.shape[1]
        lines.append(constant_pad_nd(cast_to(b, dtype), (at, columns - at - width)))
        at += width
    return cat(lines, 0)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Return coordinate grids from vectors, one view of shape [n0, n1, ...] for each vector.

    The vectors are separate arguments or one sequence; a 0-d tensor counts as a vector of one element. Grid k has the
    values of vector k along dimension k. `indexing="xy"` exchanges the first two dimensions of the grids. Raises
    ShapeError for another `indexing`, without vectors, for matrices, and for different dtypes.

    >>> import lazytensor as lt
    >>> lt.meshgrid(lt.tensor([1, 2]), lt.tensor([8, 9]), indexing="ij")[0]
    tensor([[1, 1],
            [2, 2]])
    """
    vectors = as_tensor_tuple(tensors)
    if indexing not in ("ij", "xy"):
        raise ShapeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}',
            where=source.where(),
            hint='Pass indexing="ij" or indexing="xy".',
        )
    if not vectors or any(v.ndim > 1 or v.dtype is not vectors[0].dtype for v in vectors):
        raise ShapeError(
            f"torch.meshgrid expects scalars or vectors of one dtype, but got {[str(v.spec) for v in vectors]}",
            where=source.where(),
            hint="Flatten the tensors, and convert them to one dtype.",
        )
    # "xy" is "ij" of the exchanged vectors, with the results exchanged back.
    swap = indexing == "xy" and len(vectors) > 1
    order = [vectors[1], vectors[0], *vectors[2:]] if swap else list(vectors)
    shape = tuple(v.spec.size for v in order)
    grids = [
        views.expand(view(v, tuple(-1 if d == i else 1 for d in range(len(order)))), shape) for i, v in enumerate(order)
    ]
    return (grids[1], grids[0], *grids[2:]) if swap else tuple(grids)


def cartesian_prod(*tensors: Any) -> Tensor:
    """Return the Cartesian product of vectors, one combination per row: [n0 * n1 * ..., number of vectors].

    A single vector is returned itself. Raises ShapeError for matrices and for different dtypes.

    >>> import lazytensor as lt
    >>> lt.cartesian_prod(lt.tensor([1, 2]), lt.tensor([8, 9]))
    tensor([[1, 8],
            [1, 9],
            [2, 8],
            [2, 9]])
    """
    vectors = as_tensor_tuple(tensors)
    # PyTorch returns a single vector as it is, without a second dimension.
    if len(vectors) == 1:
        return vectors[0]
    return stack([ravel(g) for g in meshgrid(*vectors)], 1)


def _make_copy_function(name: str, function: Callable[..., Any], example: str, doc: str = "") -> Callable[..., Any]:
    """Return a function `name` that returns copies of the views that `function` returns.

    `doc` becomes its docstring. The default refers to the public function without the suffix "_copy".
    """

    # PyTorch provides these for compilers that allow no aliases. Here they clone the view.
    def copied(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        out = function(x, *args, **kwargs)
        return clone(out) if isinstance(out, Tensor) else tuple(clone(o) for o in out)

    base = name.removesuffix("_copy")
    default = (
        f"Return the result of `{base}` with the same arguments as a copy with a separate storage.\n\n"
        f"If `{base}` returns a tuple of views, the result is a tuple of copies. Gradients pass to `x`."
    )
    return documented(copied, name, doc or default, example)


def _slice_along(x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    at = normalize_dim(dim, x.ndim)
    first, last, step = slice(start, end, step).indices(x.spec.shape[at])
    return slice_dim(x, at, first, max(first, last), step)


alias_copy = _make_copy_function(
    "alias_copy",
    lambda x: x,
    ">>> lt.alias_copy(lt.tensor([1.0, 2.0]))\ntensor([1., 2.])",
    "Return a copy of `x` with a separate storage. Gradients pass to `x`.",
)
expand_copy = _make_copy_function(
    "expand_copy",
    views.expand,
    ">>> lt.expand_copy(lt.tensor([[1], [2]]), (2, 3))\ntensor([[1, 1, 1],\n        [2, 2, 2]])",
)
narrow_copy = method(
    _make_copy_function("narrow_copy", views.narrow, ">>> lt.narrow_copy(lt.arange(5), 0, 1, 3)\ntensor([1, 2, 3])")
)
permute_copy = _make_copy_function(
    "permute_copy",
    permute,
    ">>> lt.permute_copy(lt.arange(6).reshape(2, 3), (1, 0))\ntensor([[0, 3],\n        [1, 4],\n        [2, 5]])",
)
select_copy = _make_copy_function(
    "select_copy", views.select, ">>> lt.select_copy(lt.arange(4).reshape(2, 2), 0, 1)\ntensor([2, 3])"
)
slice_copy = _make_copy_function(
    "slice_copy",
    _slice_along,
    ">>> lt.slice_copy(lt.arange(5), 0, 1, 4)\ntensor([1, 2, 3])",
    "Return a copy of x[start:end:step] along the dimension `dim`, with a separate storage.\n\n"
    "The arguments are `x`, `dim` (by default 0), `start`, `end` and `step` (by default 1), as in a Python slice.\n"
    "Gradients pass to `x`.",
)
split_copy = _make_copy_function(
    "split_copy", split, ">>> lt.split_copy(lt.arange(3), 2)\n(tensor([0, 1]), tensor([2]))"
)
split_with_sizes_copy = _make_copy_function(
    "split_with_sizes_copy",
    split_with_sizes,
    ">>> lt.split_with_sizes_copy(lt.arange(3), (1, 2))\n(tensor([0]), tensor([1, 2]))",
)
squeeze_copy = _make_copy_function(
    "squeeze_copy", views.squeeze, ">>> lt.squeeze_copy(lt.tensor([[1, 2]]))\ntensor([1, 2])"
)
t_copy = _make_copy_function(
    "t_copy", views.t, ">>> lt.t_copy(lt.arange(4).reshape(2, 2))\ntensor([[0, 2],\n        [1, 3]])"
)
transpose_copy = _make_copy_function(
    "transpose_copy",
    transpose,
    ">>> lt.transpose_copy(lt.arange(4).reshape(2, 2), 0, 1)\ntensor([[0, 2],\n        [1, 3]])",
)
unbind_copy = _make_copy_function("unbind_copy", unbind, ">>> lt.unbind_copy(lt.arange(2))\n(tensor(0), tensor(1))")
unsqueeze_copy = _make_copy_function(
    "unsqueeze_copy", unsqueeze, ">>> lt.unsqueeze_copy(lt.tensor([1, 2]), 1)\ntensor([[1],\n        [2]])"
)
view_copy = _make_copy_function(
    "view_copy", view, ">>> lt.view_copy(lt.arange(4), (2, 2))\ntensor([[0, 1],\n        [2, 3]])"
)
