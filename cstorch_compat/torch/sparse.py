"""Sparse tensors in coordinate format (COO): indices and values.

A product with a dense matrix gathers rows of the dense operand and adds them up by row index. No dense tensor of the
sparse shape is created, and gradients reach the values and the dense operand. Other functions use the dense form, which
is a lazy node and is computed only when it is read.
"""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import lazytensor
from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Device, Tensor, from_array, tensor_from_storage
from lazytensor.errors import ShapeError
from lazytensor.functional import gather_scatter, reduction
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import as_tensor, full, zeros
from lazytensor.functional.indexing import index_put
from lazytensor.functional.joining_and_splitting import stack
from lazytensor.functional.tensor_attributes import DTYPES_BY_TENSOR_TYPE
from lazytensor.functional.type_promotion import result_type

ZERO_PRESERVING = (
    "abs asin asinh atan atanh ceil deg2rad erf expm1 floor log1p neg rad2deg relu round sgn sign sin sinh sqrt "
    "tan tanh trunc"
).split()
"""Methods that give 0 for 0, so that a sparse tensor keeps its indices."""


class SparseTensor(Tensor):
    """A sparse tensor with `indices` int64[sparse_dims, n] and `values` [n, ...] of shape `size`.

    Indices may be repeated; their values are added. `is_coalesced` states that the indices are sorted and unique.
    """

    def __new__(cls, *_: Any) -> "SparseTensor":
        """Create the object without the legacy constructor of Tensor, which takes sizes or data."""
        return object.__new__(cls)

    def __init__(self, indices: Tensor, values: Tensor, size: Sequence[int], is_coalesced: bool = False):
        self._places, self._entries, self._extents = indices, values, tuple(int(e) for e in size)
        self._is_coalesced = is_coalesced
        # The dense tensor is lazy and is computed only when it is read.
        dense = index_put(
            zeros(self._extents, dtype=values.dtype), tuple(indices[d] for d in range(len(indices))), values, True
        )
        self._init(dense.cell, dense.view_ops, dense.history)
        self.device = values.device

    @property
    def layout(self) -> str:
        """Return "torch.sparse_coo"."""
        return "torch.sparse_coo"

    @property
    def is_sparse(self) -> bool:
        """Return True."""
        return True

    def indices(self) -> Tensor:
        """Return the indices. Raises RuntimeError if the tensor is not coalesced."""
        if not self._is_coalesced:
            raise ShapeError(
                "Cannot get indices on an uncoalesced tensor, please call .coalesce() first",
                where=source.where(),
                hint="Call .coalesce() first.",
            )
        return self._places

    def values(self) -> Tensor:
        """Return the values. Raises RuntimeError if the tensor is not coalesced."""
        if not self._is_coalesced:
            raise ShapeError(
                "Cannot get values on an uncoalesced tensor, please call .coalesce() first",
                where=source.where(),
                hint="Call .coalesce() first.",
            )
        return self._entries

    def _indices(self) -> Tensor:
        return self._places

    def _values(self) -> Tensor:
        return self._entries

    def _nnz(self) -> int:
        return int(self._places.shape[1])

    def is_coalesced(self) -> bool:
        """Return whether the indices are sorted and unique."""
        return self._is_coalesced

    def sparse_dim(self) -> int:
        """Return the number of sparse dimensions."""
        return int(self._places.shape[0])

    def dense_dim(self) -> int:
        """Return the number of dimensions of each value."""
        return len(self._extents) - self.sparse_dim()

    def coalesce(self) -> "SparseTensor":
        """Return the tensor with sorted and unique indices. Values of equal indices are added.

        A coalesced tensor returns itself. Gradients reach the values.
        """
        if self._is_coalesced:
            return self
        places = self._places.array("coalesce")
        extents = self._extents[: len(places)]
        flat = np.ravel_multi_index(tuple(places), extents) if places.size else np.zeros(0, np.int64)
        kept, back = np.unique(flat, return_inverse=True)
        ordered = np.stack(np.unravel_index(kept, extents)).astype(np.int64)
        # The addition is part of the graph, so that gradients reach each value.
        room = zeros((len(kept), *self._entries.shape[1:]), dtype=self._entries.dtype)
        total = gather_scatter.index_add(
            room, 0, from_array(back.astype(np.int64).reshape(-1), dt.int64), self._entries
        )
        return SparseTensor(from_array(ordered, dt.int64), total, self._extents, True)

    def to_dense(self, dtype: DType | None = None, **_: Any) -> Tensor:
        """Return the dense tensor with the gradient history of this one, cast to `dtype` if that is given.

        Without a cast the result shares the storage of this tensor. Other keyword arguments are ignored.
        """
        dense = tensor_from_storage(self.cell, self.view_ops, self.history)
        return dense if dtype is None else pw.cast_to(dense, dtype)

    def to_sparse(self, *_: Any, **__: Any) -> "SparseTensor":
        """Return the tensor itself."""
        return self

    to_sparse_coo = to_sparse

    def _with(self, values: Tensor) -> "SparseTensor":
        return SparseTensor(self._places, values, self._extents, self._is_coalesced)

    def to(self, *args: Any, **kwargs: Any) -> "SparseTensor":
        """Return a sparse tensor whose values are converted as by `Tensor.to`."""
        return self._with(self._entries.to(*args, **kwargs))

    def cpu(self) -> "SparseTensor":
        """Return the tensor itself."""
        return self

    def float(self) -> "SparseTensor":
        """Return the tensor with float32 values."""
        return self.to(dt.float32)

    def double(self) -> "SparseTensor":
        """Return the tensor with float64 values."""
        return self.to(dt.float64)

    def detach(self) -> "SparseTensor":
        """Return the tensor with detached values."""
        return self._with(self._entries.detach())

    def clone(self, **_: Any) -> "SparseTensor":
        """Return a copy."""
        return self._with(self._entries.clone())

    def requires_grad_(self, requires_grad: bool = True) -> "SparseTensor":
        """Set `requires_grad` of the values, and return a new sparse tensor of them."""
        self._entries.requires_grad_(requires_grad)
        return self._with(self._entries)

    def t(self) -> "SparseTensor":
        """Return the transposed matrix."""
        return self.transpose(0, 1)

    def transpose(self, dim0: int, dim1: int) -> "SparseTensor":
        """Return the tensor with two sparse dimensions exchanged. It is not coalesced and shares the values."""
        order, extents = list(range(self.sparse_dim())), list(self._extents)
        order[dim0], order[dim1] = order[dim1], order[dim0]
        extents[dim0], extents[dim1] = extents[dim1], extents[dim0]
        return SparseTensor(self._places[order], self._entries, extents)

    def matmul(self, other: Any) -> Tensor:
        """Return the product with a dense matrix or vector, or with a sparse matrix."""
        return mm(self, other)

    def mm(self, b: Any) -> Tensor:
        """Return the product, as `matmul`."""
        return mm(self, b)

    def mv(self, b: Any) -> Tensor:
        """Return the product, as `matmul`."""
        return mm(self, b)

    spmm = smm = mm

    def __matmul__(self, other: Any) -> Tensor:
        return mm(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return lazytensor.matmul(other, self.to_dense())

    def mul(self, b: Any) -> Any:
        """Return the product of the elements with a number or with those of a tensor, as a sparse tensor."""
        if _is_number(b):
            return self._with(self._entries * b)
        if isinstance(b, SparseTensor) or tuple(b.shape) != self._extents:
            return to_sparse(self.to_dense() * (b.to_dense() if isinstance(b, SparseTensor) else b))
        # Read the dense operand at the stored indices only.
        return self._with(self._entries * b[tuple(self._places[d] for d in range(self.sparse_dim()))])

    __mul__ = __rmul__ = multiply = mul

    def div(self, b: Any, **options: Any) -> Any:
        """Return the elements divided by a number, sparse, or by those of a tensor, dense."""
        return self._with(self._entries / b) if _is_number(b) and not options else self.to_dense().div(b, **options)

    __truediv__ = divide = true_divide = div

    def add(self, b: Any, scaled: Any = None, *, alpha: Any = 1) -> Any:
        """Return `self` + `alpha` * `b`, sparse if both are."""
        return self + (b if alpha == 1 else b * alpha)

    def sub(self, b: Any, scaled: Any = None, *, alpha: Any = 1) -> Any:
        """Return `self` - `alpha` * `b`, sparse if both are."""
        return self - (b if alpha == 1 else b * alpha)

    def __pow__(self, exponent: Any) -> Any:
        return self.pow(exponent)

    def pow(self, exponent: Any) -> Any:
        """Return the power of each element, as a coalesced tensor. Raises RuntimeError for a negative exponent or 0."""
        if not exponent > 0:
            raise RuntimeError(f"pow: sparse tensors need a positive exponent, but it is {exponent}")
        whole = self.coalesce()
        return whole._with(whole._entries**exponent)

    def type(self, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        """Return the name of the type, "torch.sparse.FloatTensor" for example; with `dtype` the converted tensor."""
        if dtype is None:
            return self._entries.type().replace("torch.", "torch.sparse.")
        return self.to(dtype if isinstance(dtype, DType) else dtype.dtype)

    def __neg__(self) -> "SparseTensor":
        return self._with(-self._entries)

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, SparseTensor) else self.to_dense() - other

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, SparseTensor):
            return self.to_dense() + other
        # Concatenate both lists, and add values of equal indices.
        places = stack([*self._places.unbind(1), *other._places.unbind(1)], 1)
        dtype = result_type(self._entries, other._entries)
        values = stack([*pw.cast_to(self._entries, dtype).unbind(0), *pw.cast_to(other._entries, dtype).unbind(0)], 0)
        return SparseTensor(places, values, self._extents).coalesce()

    __radd__ = __add__

    def __repr__(self) -> str:
        return (
            f"tensor(indices={self._places!r},\n       values={self._entries!r},\n"
            f"       size={tuple(self._extents)}, nnz={self._nnz()}, layout=torch.sparse_coo)"
        )


def _define_zero_preserving(name: str) -> None:
    """Define the method `name` of SparseTensor, a function of each element with f(0) = 0."""

    def method(self: SparseTensor) -> SparseTensor:
        # Values of equal indices are added first, because f(a) + f(b) is not f(a + b).
        whole = self.coalesce()
        return whole._with(getattr(whole._entries, name)())

    method.__name__ = name
    method.__doc__ = f"Return `{name}` of each stored element, as a coalesced sparse tensor."
    setattr(SparseTensor, name, method)


for _name in ZERO_PRESERVING:
    _define_zero_preserving(_name)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, Tensor) and value.dim() == 0)


def mm(input: Any, mat2: Any, **options: Any) -> Tensor:
    """Return the product of two matrices, or of a matrix and a vector. Either operand may be sparse."""
    return _multiply_sparse(lazytensor.mm, input, mat2, options)


def matmul(input: Any, other: Any, **options: Any) -> Tensor:
    """Return the product of vectors, matrices or batches of matrices. Either operand may be sparse."""
    return _multiply_sparse(lazytensor.matmul, input, other, options)


def _multiply_sparse(dense_product: Any, a: Any, b: Any, options: dict[str, Any]) -> Tensor:
    """Return the product of `a` and `b`, of which each may be sparse; `b` may also be a vector.

    Two sparse operands give a sparse result, which is computed in dense form; other results are dense. If `a` is dense,
    a sparse `b` is converted to its dense form and `dense_product` is called with `options`.
    """
    if not isinstance(a, SparseTensor):
        product: Tensor = dense_product(a, b.to_dense() if isinstance(b, SparseTensor) else b, **options)
        return product
    if isinstance(b, SparseTensor):
        # The pattern of the product depends on index values, so compute it through the dense form.
        return to_sparse(mm(a, b.to_dense()))
    is_vector = b.dim() == 1
    dense = b.unsqueeze(1) if is_vector else b
    rows, columns = a._places[0], a._places[1]
    # Multiply each value by the row of the dense operand that its column index selects.
    weighed = a._entries.unsqueeze(1) * gather_scatter.index_select(dense, 0, columns)
    room = zeros((a._extents[0], dense.shape[1]), dtype=weighed.dtype)
    out = gather_scatter.index_add(room, 0, rows, weighed)
    return out.squeeze(1) if is_vector else out


spmm = mm


def addmm(input: Tensor, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return beta * input + alpha * (mat1 @ mat2), where either matrix may be sparse."""
    product: Tensor = beta * input + alpha * mm(mat1, mat2)
    return product


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
    pin_memory: bool = False,
    layout: Any = None,
) -> SparseTensor:
    """Return a sparse tensor with `indices` [sparse_dims, n] and `values` [n, ...].

    Without `size`, the shape is the smallest that contains all indices. Without `values` there are none, and the first
    argument is the size. With `requires_grad` the values are copied.
    With `is_coalesced` the indices have to be sorted and unique, which is not checked. `device`, `check_invariants`,
    `pin_memory` and `layout` have no effect. Raises RuntimeError for indices outside of `size`.
    """
    if values is None:
        # Only a size is given, by position or by name.
        size = tuple(indices if size is None else size)
        indices, values = np.zeros((len(size), 0), np.int64), zeros((0,), dtype=dtype)
    places = pw.cast_to(as_tensor(indices), dt.int64)
    entries = as_tensor(values)
    entries = entries if dtype is None else pw.cast_to(entries, dtype)
    if requires_grad:
        entries = entries.detach().clone().requires_grad_()
    array = places.array("sparse_coo_tensor")
    if size is None:
        size = (*(int(e) + 1 for e in array.max(1)), *entries.shape[1:])
    # Check here, because an index out of range would fail later inside a product.
    limits = np.asarray(tuple(size)[: len(array)])[:, None]
    if array.size and ((array < 0) | (array >= limits)).any():
        largest = array.max(1).tolist()
        raise ShapeError(
            f"size is inconsistent with indices: the size is {list(size)} and the largest indices {largest}",
            where=source.where(),
            hint="Increase the size, or reduce the indices.",
        )
    return SparseTensor(places, entries, size, bool(is_coalesced))


def to_sparse(x: Tensor, *_: Any, **__: Any) -> SparseTensor:
    """Return the nonzero elements of `x` as a coalesced sparse tensor. Other arguments have no effect."""
    places = gather_scatter.nonzero(x).t()
    values = x[tuple(places[d] for d in range(x.dim()))]
    return SparseTensor(places, values, x.shape, True)


def sparse_sum(input: Any, dim: Any = None, dtype: DType | None = None) -> Tensor:
    """Return the sum of all elements, or along `dim`, as a dense tensor."""
    dense = input.to_dense() if isinstance(input, SparseTensor) else input
    return reduction.sum(dense, dim, dtype=dtype) if dim is not None else reduction.sum(dense, dtype=dtype)


def softmax(input: SparseTensor, dim: int, dtype: DType | None = None) -> SparseTensor:
    """Return the softmax of a sparse matrix along `dim`, over the stored elements only.

    The maximum along `dim` is subtracted first, so that large elements do not overflow.
    """
    source = input.coalesce()
    group = source._places[1 - dim % 2]
    count = source._extents[1 - dim % 2]
    lowest = full((count,), -math.inf, dtype=source._entries.dtype)
    largest = gather_scatter.scatter_reduce(lowest, 0, group, source._entries.detach(), "amax")
    shifted = pw.exp(source._entries - gather_scatter.index_select(largest, 0, group))
    totals = gather_scatter.index_add(zeros((count,), dtype=shifted.dtype), 0, group, shifted)
    return source._with(shifted / gather_scatter.index_select(totals, 0, group))


def log_softmax(input: SparseTensor, dim: int, dtype: DType | None = None) -> SparseTensor:
    """Return the logarithm of the softmax of a sparse matrix along `dim`, over the stored elements only."""
    shares = softmax(input, dim, dtype)
    return shares._with(pw.log(shares._entries))


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any = None) -> SparseTensor:
    """Return a sparse matrix with the rows of `diagonals` [k, n] on the diagonals `offsets` [k].

    Element [i, j] of the result, on the diagonal j - i, is element j of that row. `layout` has no effect.

    >>> import torch
    >>> torch.sparse.spdiags(torch.tensor([[1.0, 2.0]]), torch.tensor([1]), (2, 2)).to_dense()
    tensor([[0., 2.],
            [0., 0.]])
    """
    rows = diagonals.reshape(-1, diagonals.shape[-1])
    places, taken = [], []
    for k, offset in enumerate(offsets.reshape(-1).tolist()):
        for column in range(max(0, offset), min(rows.shape[1], shape[0] + offset, shape[1])):
            places.append((column - offset, column))
            taken.append((k, column))
    indices = np.asarray(places, np.int64).reshape(-1, 2).T
    chosen = np.asarray(taken, np.int64).reshape(-1, 2).T
    values = rows[from_array(np.ascontiguousarray(chosen[0])), from_array(np.ascontiguousarray(chosen[1]))]
    return SparseTensor(from_array(np.ascontiguousarray(indices)), values, shape)


class SparseTypedTensor(type):
    """The metaclass of legacy constructors of sparse tensors: `torch.sparse.FloatTensor(indices, values, size)`.

    Sparse tensors of the dtype count as instances.
    """

    dtype: DType

    def __call__(cls, *args: Any, device: Any = None) -> SparseTensor:
        if args and isinstance(args[0], Tensor):
            return sparse_coo_tensor(*args, dtype=cls.dtype)
        size = args[0] if args and not isinstance(args[0], int) else args
        return sparse_coo_tensor(size=tuple(size) or (0,), dtype=cls.dtype)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, SparseTensor) and instance.dtype is cls.dtype


SPARSE_TENSOR_TYPES = SimpleNamespace(
    **{
        name: SparseTypedTensor(name, (), {"dtype": dtype, "__module__": "torch.sparse"})
        for name, dtype in DTYPES_BY_TENSOR_TYPE.items()
        if name != "BoolTensor"
    }
)
"""The legacy constructors by name."""
