"""Cumulative sums, products, minima and maxima along a dimension."""

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import OptionMissing
from lazytensor.functional.gather_scatter import at_least_vector
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.reduction import ValuesIndices
from lazytensor.functional.views import normalize_dim, view
from lazytensor.ops import call
from lazytensor.ops import index as at
from lazytensor.ops.elementwise import cast


def _apply_scan(x: Tensor, kind: str, dim: int, dtype: DType | None) -> Tensor:
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    # Integers and bools accumulate in int64, as in PyTorch.
    result_dtype = dtype or (x.dtype if x.dtype.kind == "f" else dt.int64)
    # A 0-d tensor is scanned as a vector of one element.
    out = tensor_of(call("scan", cast(operand_node(base), result_dtype), kind=kind, dim=d, reverse=False), x)
    return out if x.ndim else view(out, ())


@method(in_place=True)
def cumsum(x: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Return the cumulative sum of `x` along `dim`, in the shape of `x`.

    Element i of the result is the sum of elements 0 to i. Integers and bools give int64 unless `dtype` is given; `x` is
    converted to `dtype` first. Raises IndexError if `x` does not have the dimension.

    >>> import lazytensor as lt
    >>> lt.cumsum(lt.arange(5), 0)
    tensor([ 0,  1,  3,  6, 10])
    """
    return _apply_scan(x, "add", dim, dtype)


@method(in_place=True)
def cumprod(x: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Return the cumulative product of `x` along `dim`, in the shape of `x`.

    Element i of the result is the product of elements 0 to i. Integers and bools give int64 unless `dtype` is given;
    `x` is converted to `dtype` first. Raises IndexError if `x` does not have the dimension.

    >>> import lazytensor as lt
    >>> lt.cumprod(lt.tensor([1, 2, 3]), 0)
    tensor([1, 2, 6])
    """
    return _apply_scan(x, "mul", dim, dtype)


@method
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Return log(cumsum(exp(x))) along `dim` without overflow, in the shape of `x`.

    Raises OptionMissing (a NotImplementedError) if `x` is not floating-point.

    >>> import lazytensor as lt
    >>> lt.logcumsumexp(lt.zeros(2), 0)
    tensor([0.0000, 0.6931])
    """
    if x.dtype.kind != "f":
        raise OptionMissing(
            f"logcumsumexp is not implemented for {x.dtype.name}",
            where=source.where(),
            hint="Convert the tensor first, for example with .float().",
        )
    return _apply_scan(x, "logaddexp", dim, None)


def _running_extreme(x: Tensor, kind: str, dim: int) -> ValuesIndices:
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    # The values are gathered by index, so that each gradient reaches that element only.
    places = call("arg_scan", operand_node(base), kind=kind, dim=d)
    pair = tensor_of(at.gather(operand_node(base), places, d), x), tensor_of(places, x)
    return ValuesIndices(*(pair if x.ndim else (view(p, ()) for p in pair)))


@method
def cummax(x: Tensor, dim: int) -> ValuesIndices:
    """Return the running maximum of `x` along `dim`, and the index where it was last reached.

    The result is a named tuple (values, indices) of two tensors in the shape of `x`. Raises IndexError if `x` does not
    have the dimension.

    >>> import lazytensor as lt
    >>> lt.cummax(lt.tensor([1, 3, 2]), 0).values
    tensor([1, 3, 3])
    """
    return _running_extreme(x, "max", dim)


@method
def cummin(x: Tensor, dim: int) -> ValuesIndices:
    """Return the running minimum of `x` along `dim`, and the index where it was last reached.

    The result is a named tuple (values, indices) of two tensors in the shape of `x`. Raises IndexError if `x` does not
    have the dimension.

    >>> import lazytensor as lt
    >>> lt.cummin(lt.tensor([3, 1, 2]), 0).values
    tensor([3, 1, 1])
    """
    return _running_extreme(x, "min", dim)
