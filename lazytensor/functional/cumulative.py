"""Running sums, products and extremes; differences; flips and rolls."""

import functools
import operator
from collections.abc import Sequence
from typing import Any

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import IndexInvalid, OptionMissing, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction as red
from lazytensor.functional.gather_scatter import at_least_vector
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.reduction import ValuesIndices
from lazytensor.functional.type_promotion import Operand
from lazytensor.functional.views import cat, normalize_dim, reshape, slice_dim, transpose, view
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops import index as at
from lazytensor.ops.cirh_rows import rolled_indices
from lazytensor.ops.elementwise import cast


def _apply_scan(x: Tensor, kind: str, dim: int, dtype: DType | None) -> Tensor:
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    # Integers add up in int64 whatever they are: PyTorch's rule for sums and products.
    result_dtype = dtype or (x.dtype if x.dtype.kind == "f" else dt.int64)
    # A number is scanned as a vector of one, and made a number again.
    out = tensor_of(call("scan", cast(operand_node(base), result_dtype), kind=kind, dim=d, reverse=False), x)
    return out if x.ndim else view(out, ())


@method(in_place=True)
def cumsum(x: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The sum of all elements so far along a dimension: [...] to [...]; integers and bool add up in int64.

    Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.cumsum(lt.arange(5), 0)
    tensor([ 0,  1,  3,  6, 10])
    """
    return _apply_scan(x, "add", dim, dtype)


@method(in_place=True)
def cumprod(x: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The product of all elements so far along a dimension: [...] to [...]; integers and bool multiply in int64.

    Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.cumprod(lt.tensor([1, 2, 3]), 0)
    tensor([1, 2, 6])
    """
    return _apply_scan(x, "mul", dim, dtype)


@method
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """log(cumsum(exp(x))) without overflow: [...] to [...]. Raises NotImplementedError for integers.

    >>> import lazytensor as lt
    >>> lt.logcumsumexp(lt.zeros(2), 0)
    tensor([0.0000, 0.6931])
    """
    if x.dtype.kind != "f":
        raise OptionMissing(f"logcumsumexp is not implemented for {x.dtype.name}", where=source.where())
    return _apply_scan(x, "logaddexp", dim, None)


def _running_extreme(x: Tensor, kind: str, dim: int) -> ValuesIndices:
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    # The value is gathered from its place, so that the gradient goes there alone.
    places = call("arg_scan", operand_node(base), kind=kind, dim=d)
    pair = tensor_of(at.gather(operand_node(base), places, d), x), tensor_of(places, x)
    return ValuesIndices(*(pair if x.ndim else (view(p, ()) for p in pair)))


@method
def cummax(x: Tensor, dim: int) -> ValuesIndices:
    """The largest element so far along a dimension, and its last place: two of [...].

    Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.cummax(lt.tensor([1, 3, 2]), 0).values
    tensor([1, 3, 3])
    """
    return _running_extreme(x, "max", dim)


@method
def cummin(x: Tensor, dim: int) -> ValuesIndices:
    """The smallest element so far along a dimension, and its last place: two of [...].

    Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.cummin(lt.tensor([3, 1, 2]), 0).values
    tensor([3, 1, 1])
    """
    return _running_extreme(x, "min", dim)


@method
def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Differences of neighbours along a dimension, n times: [..., e, ...] -> [..., e - n, ...].

    Of bool, whether they differ. Raises ShapeError for a number, and a negative n.

    >>> import lazytensor as lt
    >>> lt.diff(lt.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if not x.ndim:
        raise ShapeError("diff expects input to be at least one-dimensional", where=source.where())
    if n < 0:
        raise ShapeError(f"order must be non-negative but got {n}", where=source.where())
    if n == 0:
        return pw.clone(x)
    d = normalize_dim(dim, x.ndim)
    # Joined first, then the differences: the seam counts as a pair of neighbours.
    parts = [p for p in (prepend, x, append) if p is not None]
    out = cat(parts, d) if len(parts) > 1 else x
    # More rounds than places leave nothing, and there is nothing less than that.
    for _ in range(min(n, out.spec.shape[d])):
        lower, upper = _neighbours(out, d)
        out = pw.logical_xor(upper, lower) if x.dtype.kind == "b" else upper - lower
    return out


def _neighbours(x: Tensor, d: int) -> tuple[Tensor, Tensor]:
    extent = x.spec.shape[d]
    # Of no or one place both are empty.
    return slice_dim(x, d, 0, max(extent - 1, 0)), slice_dim(x, d, min(1, extent), extent)


def _double_areas(y: Tensor, x: Tensor | None, dx: Operand | None, dim: int) -> Tensor:
    """Twice the area between neighbours: the sum of both heights times their distance.

    Raises ShapeError for x with dx.
    """
    d = normalize_dim(dim, y.ndim)
    lower, upper = _neighbours(y, d)
    # Not halved here: one division at the end instead of one for each area.
    total = lower + upper
    if x is None:
        return total * (1 if dx is None else dx)
    if dx is not None:
        raise ShapeError("the points are given as x or as dx, not both", where=source.where())
    if x.ndim == 1:
        # A vector of points lies along the dimension that is integrated, others broadcast from behind.
        at_dim = [1] * y.ndim
        at_dim[d] = -1
        x = view(x, at_dim)
    elif x.ndim < y.ndim:
        x = view(x, ((1,) * (y.ndim - x.ndim) + x.spec.shape))
    lower, upper = _neighbours(x, d)
    return (upper - lower) * total


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Operand | None = None, dim: int = -1) -> Tensor:
    """The area under points y [..., n, ...] along `dim`, at places x or dx apart, by the trapezoidal rule: [...].

    Raises ShapeError for both x and dx, and for booleans.

    >>> import lazytensor as lt
    >>> lt.trapezoid(lt.tensor([1.0, 3.0, 5.0]))
    tensor(6.)
    """
    if y.dtype.kind == "b":
        text = "trapezoid: received a bool input for `y`, but bool is not supported"
        raise ShapeError(text, where=source.where(), hint="Use .float().")
    areas = _double_areas(y, x, dx, dim)
    # Counted from the end: areas may have gained dimensions in front from the points.
    return red.sum(areas, normalize_dim(dim, y.ndim) - y.ndim) / 2.0


trapz = trapezoid


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Operand | None = None, dim: int = -1) -> Tensor:
    """The area under points y [..., n, ...] so far: [..., n - 1, ...]. Raises ShapeError for both x and dx.

    >>> import lazytensor as lt
    >>> lt.cumulative_trapezoid(lt.tensor([1.0, 3.0, 5.0]))
    tensor([2., 6.])
    """
    return cumsum(_double_areas(y, x, dx, dim), normalize_dim(dim, y.ndim) - y.ndim) / 2.0


@method
def flip(x: Tensor, *axes: Any, dims: int | Sequence[int] | None = None) -> Tensor:
    """The order reversed along dimensions, given as `flip(x, 0, 1)` or `flip(x, (0, 1))`: [...] to [...].

    Raises ShapeError for one that is named twice.

    >>> import lazytensor as lt
    >>> lt.flip(lt.tensor([1, 2, 3]), (0,))
    tensor([3, 2, 1])
    """
    given: Sequence[Any] = axes or (dims,)
    # `flip(x, 0, 1)` and `flip(x, (0, 1))` alike, as PyTorch's methods take dimensions.
    given = given[0] if isinstance(given[0], Sequence) else given
    reversed_dims = tuple(normalize_dim(d, x.ndim) for d in given)
    if len(set(reversed_dims)) != len(reversed_dims):
        raise ShapeError(f"dim {reversed_dims[0]} appears multiple times in the list of dims", where=source.where())
    if not reversed_dims or not x.ndim:
        return pw.clone(x)
    if half_type() is not None:
        # The original selects rows, and its gradient adds them.
        return functools.reduce(
            lambda out, d: _gather_rows(out, at.descending_indices(x.spec.shape[d]), d), sorted(reversed_dims), x
        )
    return tensor_of(call("reverse", operand_node(x), dims=tuple(sorted(reversed_dims))), x)


def _gather_rows(x: Tensor, places: Node, d: int) -> Tensor:
    return tensor_of(call("gather_rows", operand_node(x), places, dim=d), x)


@method
def fliplr(x: Tensor) -> Tensor:
    """The columns in reverse order: [m, n, ...] in and out. Raises ShapeError for less than a matrix.

    >>> import lazytensor as lt
    >>> lt.fliplr(lt.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    if x.ndim < 2:
        raise ShapeError("Input must be >= 2-d.", where=source.where())
    return flip(x, 1)


@method
def flipud(x: Tensor) -> Tensor:
    """The rows in reverse order: [n, ...] in and out. Raises ShapeError for a number.

    >>> import lazytensor as lt
    >>> lt.flipud(lt.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    if x.ndim < 1:
        raise ShapeError("Input must be >= 1-d.", where=source.where())
    return flip(x, 0)


@method
def roll(x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved on along dimensions, those that fall off coming in at the start; else in the flat order.

    Raises ShapeError unless there is a shift for each dimension.

    >>> import lazytensor as lt
    >>> lt.roll(lt.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    if isinstance(shifts, Tensor):
        shifts = operator.index(shifts)
    steps = [shifts] if isinstance(shifts, int) else list(shifts)
    if dims is None or (not isinstance(dims, int) and not dims):
        if len(steps) != 1:
            raise ShapeError("shifts and dimensions must align", where=source.where())
        # Without dimensions PyTorch rolls the flat order, over the ends of rows.
        return view(_roll_dim(reshape(x, -1), steps[0], 0), x.spec.shape)
    given = [dims] if isinstance(dims, int) else list(dims)
    if len(given) != len(steps):
        raise ShapeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(given)}")
    if not x.spec.size:
        return pw.clone(x)
    if not x.ndim:
        raise IndexInvalid(f"Dimension specified as {given[0]} but tensor has no dimensions", where=source.where())
    out = x
    # A dimension may be named twice: its shifts add up.
    for shift, d in zip(steps, given, strict=True):
        out = _roll_dim(out, shift, normalize_dim(d, x.ndim))
    return pw.clone(out) if out is x else out


def _roll_dim(x: Tensor, shift: int, d: int) -> Tensor:
    if not x.ndim or not x.spec.size or not shift % x.spec.shape[d]:
        return x
    if half_type() is not None:
        return _gather_rows(x, rolled_indices(x.spec.shape[d], shift % x.spec.shape[d]), d)
    # PyTorch's shift may be any integer; the operation's is less than the extent, so that equal rolls are one node.
    return tensor_of(call("turn", operand_node(x), shift=shift % x.spec.shape[d], dim=d), x)


@method
def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """The plane of two dimensions turned by k quarters, from the first towards the second.

    Raises ShapeError for other than two dimensions.

    >>> import lazytensor as lt
    >>> lt.rot90(lt.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2 or x.ndim < 2:
        raise ShapeError(f"rot90 turns two dimensions, and got {list(dims)}", where=source.where())
    a, b = (normalize_dim(d, x.ndim) for d in dims)
    turns = k % 4
    if turns == 0:
        return pw.clone(x)
    # Turns are flips and a transpose; three quarters are one quarter back.
    if turns == 2:
        return flip(x, a, b)
    return transpose(flip(x, b), a, b) if turns == 1 else flip(transpose(x, a, b), b)
