"""What a tensor says of itself: extents, bytes, kind; and how other libraries take it, by DLPack."""

import builtins
from typing import Any

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, tensor_of_class
from lazytensor.core.tensor_members import method, tensor_property
from lazytensor.errors import ArgumentInvalid, OptionInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import from_numpy, tensor_over_array
from lazytensor.functional.strided_views import storage_offset

# PyTorch's names of types from before dtypes, which scripts still give to `type()`.
DTYPES_BY_TENSOR_TYPE = {
    "DoubleTensor": dt.float64,
    "FloatTensor": dt.float32,
    "HalfTensor": dt.float16,
    "BFloat16Tensor": dt.bfloat16,
    "LongTensor": dt.int64,
    "IntTensor": dt.int32,
    "ShortTensor": dt.int16,
    "CharTensor": dt.int8,
    "ByteTensor": dt.uint8,
    "BoolTensor": dt.bool_,
}
_TENSOR_TYPES = {d: name for name, d in DTYPES_BY_TENSOR_TYPE.items()}


def _export_array(x: Tensor) -> np.ndarray:
    """The values in the layout that other libraries expect. Raises for what they cannot hold."""
    # PyTorch's rule, since others could change values behind the graph's back.
    if x.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    # NumPy has no bfloat16, so there is no array to export.
    if x.dtype.is_half and x.dtype is not dt.float16:
        raise BufferError(f"{x.dtype} is not supported here: use .float()")
    return x.numpy()


@method
def __array_wrap__(x: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """The tensor of what a ufunc of NumPy made of x: `np.sin(x)` is a Tensor, outside of any graph.

    Truth values come as uint8, as PyTorch has it.
    """
    return tensor_over_array(np.array(array, np.uint8 if array.dtype == bool else array.dtype))


@method
def __contains__(x: Tensor, element: Any) -> bool:
    """Whether an element of x equals a number, or the one at its place in a tensor that broadcasts."""
    if not isinstance(element, Tensor | int | float):
        raise ShapeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.",
            where=source.where(),
        )
    return bool((x == element).any())


@method
def __dlpack__(x: Tensor, **options: Any) -> Any:
    """A capsule over the memory of x, which the other library shares as NumPy does."""
    # A stream is the order of work on a GPU, for which NumPy has no argument.
    array = _export_array(x)
    # Before 2.1 NumPy exports no array that is read-only.
    array = array if array.flags.writeable else np.array(array)
    return array.__dlpack__(**{k: v for k, v in options.items() if k != "stream"})


@method
def __dlpack_device__(x: Tensor) -> tuple[int, int]:
    """The CPU."""
    return (1, 0)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor that shares the memory of what another library exports.

    >>> import lazytensor as lt
    >>> lt.from_dlpack(lt.tensor([1, 2]))
    tensor([1, 2])
    """
    # An array needs no protocol, and before 2.1 NumPy exports none that is read-only.
    array = ext_tensor if isinstance(ext_tensor, np.ndarray) else np.from_dlpack(ext_tensor)
    return from_numpy(array)


@method
def size(x: Tensor, dim: int | None = None) -> Any:
    """The shape, or one extent."""
    return x.shape if dim is None else x.shape[dim]


@method(names="dim ndimension")
def dim(x: Tensor) -> int:
    """The number of dimensions."""
    return x.ndim


@method(names="numel nelement")
def numel(x: Tensor) -> int:
    """The number of elements."""
    return x.spec.size


@method
def element_size(x: Tensor) -> int:
    """The bytes of one element."""
    return x.dtype.itemsize


@tensor_property()
def itemsize(x: Tensor) -> int:
    """The bytes of one element."""
    return x.dtype.itemsize


@tensor_property()
def nbytes(x: Tensor) -> int:
    """The bytes of all elements."""
    return x.spec.size * x.dtype.itemsize


@method
def is_floating_point(x: Tensor) -> bool:
    """Whether the type is a floating-point one."""
    return x.dtype.is_floating_point


@tensor_property()
def is_cuda(x: Tensor) -> bool:
    """False: there is no GPU."""
    return False


@tensor_property()
def is_cpu(x: Tensor) -> bool:
    """Whether x lives on the CPU."""
    return x.device.type == "cpu"


@tensor_property()
def is_sparse(x: Tensor) -> bool:
    """False: every tensor is strided."""
    return False


@tensor_property()
def is_quantized(x: Tensor) -> bool:
    """False: there are no quantized types."""
    return False


@tensor_property()
def is_meta(x: Tensor) -> bool:
    """Whether the tensor has a shape and no values."""
    return x.device.type == "meta"


@tensor_property()
def layout(x: Tensor) -> str:
    """Strided, as every tensor is."""
    # A text in PyTorch's spelling: it is printed and compared, and nothing else.
    return "torch.strided"


@method
def data_ptr(x: Tensor) -> int:
    """A number that two tensors share exactly if they start at the same element of the same storage."""
    if not x.spec.size:
        return 0
    # No address, but what addresses are compared for: equal for the same start, different for different storages.
    return id(x.cell) + storage_offset(x) * x.dtype.itemsize


@method
def is_same_size(x: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal.

    >>> import lazytensor as lt
    >>> lt.is_same_size(lt.ones(2), lt.zeros(2))
    True
    """
    return x.spec.shape == other.spec.shape


@method
def is_set_to(x: Tensor, tensor: Tensor) -> bool:
    """Whether both see the same elements of the same storage."""
    # The same way of seeing, too: two lenses that lead to the same elements by different views are not recognised.
    return x.cell is tensor.cell and x.spec == tensor.spec and x.view_ops == tensor.view_ops


@method
def as_subclass(x: Tensor, cls: builtins.type[Tensor]) -> Tensor:
    """The same tensor as one of a class of tensors."""
    out = tensor_of_class(cls, x.cell, x.view_ops, x.history)
    out.device = x.device
    return out


@method
def is_pinned(x: Tensor) -> bool:
    """False: there is no GPU to copy to."""
    return False


@method
def pin_memory(x: Tensor) -> Tensor:
    """x itself: there is no GPU to copy to."""
    return x


@method
def type(x: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the type, as "torch.FloatTensor"; with a dtype or such a name, x converted to it.

    Raises ValueError for an unknown name, RuntimeError for a type of a GPU.
    """
    if dtype is None:
        return f"torch.{_TENSOR_TYPES.get(x.dtype, 'Tensor')}"
    if isinstance(dtype, DType):
        return pw.cast_to(x, dtype)
    # The spellings of old: a class such as torch.FloatTensor, and its name.
    if not isinstance(dtype, str):
        if not isinstance(getattr(dtype, "dtype", None), DType):
            raise ArgumentInvalid("dtype must be a type, str, or dtype object", where=source.where())
        dtype = f"{dtype.__module__}.{dtype.__name__}"
    module, _, name = dtype.rpartition(".")
    if module == "torch.cuda" and name in DTYPES_BY_TENSOR_TYPE:
        raise ShapeError(
            "Cannot initialize CUDA without ATen_cuda library: there is no GPU here.", where=source.where()
        )
    if module != "torch" or name not in DTYPES_BY_TENSOR_TYPE:
        raise OptionInvalid(f"invalid type: {dtype!r}", where=source.where())
    return pw.cast_to(x, DTYPES_BY_TENSOR_TYPE[name])


@method(names="is_complex is_conj is_neg")
def is_complex(input: Tensor) -> bool:
    """False: there are no complex tensors here.

    >>> import lazytensor as lt
    >>> lt.is_complex(lt.ones(2))
    False
    """
    return False


@method
def is_signed(input: Tensor) -> bool:
    """Whether the type has negative numbers.

    >>> import lazytensor as lt
    >>> lt.is_signed(lt.ones(2, dtype=lt.uint8))
    False
    """
    return input.dtype.is_signed


@method
def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not zero. Raises ShapeError for several.

    >>> import lazytensor as lt
    >>> lt.is_nonzero(lt.tensor([3]))
    True
    """
    return bool(input)
