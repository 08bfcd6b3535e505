"""Sparse tensors in coordinate form: places and values, with the products that networks over graphs need.

A product gathers the rows of the dense side and adds them up at their places, so that nothing dense of the sparse
shape is formed, and gradients reach values and dense operand. Every other function sees the dense tensor, which is a
node like any other and is formed when somebody looks.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import lazytensor
from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Device, Tensor, from_array, tensor_from_storage
from lazytensor.functional import gather_scatter, reduction
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import as_tensor, zeros
from lazytensor.functional.indexing import index_put
from lazytensor.functional.joining_and_splitting import stack
from lazytensor.functional.type_promotion import result_type


class SparseTensor(Tensor):
    """Values [n, ...] at places [dims, n] of a shape; places may stand twice, and are added up then."""

    def __new__(cls, *_: Any) -> "SparseTensor":
        """Past the constructor of old, which takes sizes or data."""
        return object.__new__(cls)

    def __init__(self, indices: Tensor, values: Tensor, size: Sequence[int], is_coalesced: bool = False):
        self._places, self._values, self._extents = indices, values, tuple(int(e) for e in size)
        self._is_coalesced = is_coalesced
        # Lazy: the dense tensor is computed only if somebody asks for it.
        dense = index_put(
            zeros(self._extents, dtype=values.dtype), tuple(indices[d] for d in range(len(indices))), values, True
        )
        self._init(dense.cell, dense.view_ops, dense.history)
        self.device = values.device

    @property
    def layout(self) -> str:
        """Sparse."""
        return "torch.sparse_coo"

    @property
    def is_sparse(self) -> bool:
        """True."""
        return True

    def indices(self) -> Tensor:
        """The places. Raises RuntimeError before `coalesce`."""
        if not self._is_coalesced:
            raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
        return self._places

    def values(self) -> Tensor:
        """The values. Raises RuntimeError before `coalesce`."""
        if not self._is_coalesced:
            raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
        return self._values

    def _indices(self) -> Tensor:
        return self._places

    def _nnz(self) -> int:
        return int(self._places.shape[1])

    def is_coalesced(self) -> bool:
        """Whether the places are in order and each stands once."""
        return self._is_coalesced

    def sparse_dim(self) -> int:
        """How many dimensions the places have."""
        return int(self._places.shape[0])

    def dense_dim(self) -> int:
        """How many dimensions a value has."""
        return len(self._extents) - self.sparse_dim()

    def coalesce(self) -> "SparseTensor":
        """The places in order, each once, with the sum of its values."""
        if self._is_coalesced:
            return self
        places = self._places.array("coalesce")
        extents = self._extents[: len(places)]
        flat = np.ravel_multi_index(tuple(places), extents) if places.size else np.zeros(0, np.int64)
        kept, back = np.unique(flat, return_inverse=True)
        ordered = np.stack(np.unravel_index(kept, extents)).astype(np.int64)
        # Added up by the graph, so that gradients find their way back to each value.
        room = zeros((len(kept), *self._values.shape[1:]), dtype=self._values.dtype)
        total = gather_scatter.index_add(room, 0, from_array(back.astype(np.int64).reshape(-1), dt.int64), self._values)
        return SparseTensor(from_array(ordered, dt.int64), total, self._extents, True)

    def to_dense(self, dtype: DType | None = None, **_: Any) -> Tensor:
        """The same without places."""
        dense = tensor_from_storage(self.cell, self.view_ops, self.history)
        return dense if dtype is None else pw.cast_to(dense, dtype)

    def to_sparse(self, *_: Any, **__: Any) -> "SparseTensor":
        """Itself."""
        return self

    to_sparse_coo = to_sparse

    def _with(self, values: Tensor) -> "SparseTensor":
        return SparseTensor(self._places, values, self._extents, self._is_coalesced)

    def to(self, *args: Any, **kwargs: Any) -> "SparseTensor":
        """The same with its values converted or moved."""
        return self._with(self._values.to(*args, **kwargs))

    def cpu(self) -> "SparseTensor":
        """Itself."""
        return self

    def float(self) -> "SparseTensor":
        """The same in float32."""
        return self.to(dt.float32)

    def double(self) -> "SparseTensor":
        """The same in float64."""
        return self.to(dt.float64)

    def detach(self) -> "SparseTensor":
        """The same without gradient."""
        return self._with(self._values.detach())

    def clone(self, **_: Any) -> "SparseTensor":
        """A copy."""
        return self._with(self._values.clone())

    def requires_grad_(self, requires_grad: bool = True) -> "SparseTensor":
        """Ask for the gradient of the values."""
        self._values.requires_grad_(requires_grad)
        return self._with(self._values)

    def t(self) -> "SparseTensor":
        """Rows and columns exchanged."""
        return self.transpose(0, 1)

    def transpose(self, dim0: int, dim1: int) -> "SparseTensor":
        """Two dimensions of the places exchanged."""
        order, extents = list(range(self.sparse_dim())), list(self._extents)
        order[dim0], order[dim1] = order[dim1], order[dim0]
        extents[dim0], extents[dim1] = extents[dim1], extents[dim0]
        return SparseTensor(self._places[order], self._values, extents)

    def matmul(self, other: Any) -> Tensor:
        """The product with a dense matrix or vector, or a sparse matrix."""
        return mm(self, other)

    def mm(self, b: Any) -> Tensor:
        """As `matmul`."""
        return mm(self, b)

    def mv(self, b: Any) -> Tensor:
        """As `matmul`."""
        return mm(self, b)

    spmm = smm = mm

    def __matmul__(self, other: Any) -> Tensor:
        return mm(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return lazytensor.matmul(other, self.to_dense())

    def __mul__(self, other: Any) -> Any:
        return self._with(self._values * other) if _is_number(other) else self.to_dense() * other

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._with(self._values / other) if _is_number(other) else self.to_dense() / other

    def __neg__(self) -> "SparseTensor":
        return self._with(-self._values)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, SparseTensor):
            return self.to_dense() + other
        # Both lists one behind the other; what stands in both is added up.
        places = stack([*self._places.unbind(1), *other._places.unbind(1)], 1)
        dtype = result_type(self._values, other._values)
        values = stack([*pw.cast_to(self._values, dtype).unbind(0), *pw.cast_to(other._values, dtype).unbind(0)], 0)
        return SparseTensor(places, values, self._extents).coalesce()

    __radd__ = __add__

    def __repr__(self) -> str:
        return (
            f"tensor(indices={self._places!r},\n       values={self._values!r},\n"
            f"       size={tuple(self._extents)}, nnz={self._nnz()}, layout=torch.sparse_coo)"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, Tensor) and value.dim() == 0)


def mm(input: Any, mat2: Any, **options: Any) -> Tensor:
    """The product of two matrices of which one may be sparse, or of a matrix and a vector."""
    return _multiply_sparse(lazytensor.mm, input, mat2, options)


def matmul(input: Any, other: Any, **options: Any) -> Tensor:
    """The product of vectors, matrices or stacks, of which one may be sparse."""
    return _multiply_sparse(lazytensor.matmul, input, other, options)


def _multiply_sparse(dense_product: Any, a: Any, b: Any, options: dict[str, Any]) -> Tensor:
    if not isinstance(a, SparseTensor):
        product: Tensor = dense_product(a, b.to_dense() if isinstance(b, SparseTensor) else b, **options)
        return product
    if isinstance(b, SparseTensor):
        # Where rows of one meet columns of the other is known only by the values' places: by way of the dense one.
        return to_sparse(mm(a, b.to_dense()))
    is_vector = b.dim() == 1
    dense = b.unsqueeze(1) if is_vector else b
    rows, columns = a._places[0], a._places[1]
    # Each value times the row that its column names.
    weighed = a._values.unsqueeze(1) * gather_scatter.index_select(dense, 0, columns)
    room = zeros((a._extents[0], dense.shape[1]), dtype=weighed.dtype)
    out = gather_scatter.index_add(room, 0, rows, weighed)
    return out.squeeze(1) if is_vector else out


spmm = mm


def addmm(input: Tensor, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)"""
    product: Tensor = beta * input + alpha * mm(mat1, mat2)
    return product


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A sparse tensor of places [dims, n] and values [n, ...]; without a size the smallest that has all places.

    Raises RuntimeError for places outside of the size.
    """
    places = pw.cast_to(as_tensor(indices), dt.int64)
    entries = as_tensor(values)
    entries = entries if dtype is None else pw.cast_to(entries, dtype)
    if requires_grad:
        entries = entries.detach().clone().requires_grad_()
    array = places.array("sparse_coo_tensor")
    if size is None:
        size = (*(int(e) + 1 for e in array.max(1)), *entries.shape[1:])
    # Checked here: a place outside would be an error deep inside of a product.
    limits = np.asarray(tuple(size)[: len(array)])[:, None]
    if array.size and ((array < 0) | (array >= limits)).any():
        raise RuntimeError(f"size is inconsistent with indices: they reach {array.max(1).tolist()} in {list(size)}")
    return SparseTensor(places, entries, size, bool(is_coalesced))


def to_sparse(x: Tensor, *_: Any, **__: Any) -> SparseTensor:
    """The elements of a tensor that are not zero, with their places."""
    places = gather_scatter.nonzero(x).t()
    values = x[tuple(places[d] for d in range(x.dim()))]
    return SparseTensor(places, values, x.shape, True)


def sparse_sum(input: Any, dim: Any = None, dtype: DType | None = None) -> Tensor:
    """The sum of all values, or along dimensions."""
    dense = input.to_dense() if isinstance(input, SparseTensor) else input
    return reduction.sum(dense, dim, dtype=dtype) if dim is not None else reduction.sum(dense, dtype=dtype)


def softmax(input: SparseTensor, dim: int, dtype: DType | None = None) -> SparseTensor:
    """The softmax over the places that there are, along a dimension of a matrix."""
    source = input.coalesce()
    group = source._places[1 - dim % 2]
    count = source._extents[1 - dim % 2]
    # The largest value is taken off, so that nothing overflows.
    shifted = pw.exp(source._values - source._values.max())
    totals = gather_scatter.index_add(zeros((count,), dtype=shifted.dtype), 0, group, shifted)
    return source._with(shifted / gather_scatter.index_select(totals, 0, group))
