"""Attributes of a tensor such as extents, sizes in bytes and dtype, and the exchange with other libraries by DLPack."""

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

# PyTorch's legacy names of dtypes, which scripts still pass to `type()`.
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
    """Return the values as a NumPy array for export. Raises BufferError if `x` requires a gradient or is bfloat16."""
    # As in PyTorch, since other libraries could change values that the graph needs.
    if x.requires_grad:
        raise BufferError(
            "Can't export tensors that require gradient, use tensor.detach()\n  Call tensor.detach() first."
        )
    # NumPy has no bfloat16, so there is no array to export.
    if x.dtype.is_half and x.dtype is not dt.float16:
        raise BufferError(f"{x.dtype} is not supported here\n  Call .float() first.")
    return x.numpy()


@method
def __array_wrap__(x: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """Return the result of a NumPy ufunc on a tensor as a tensor without a gradient.

    It lets `np.sin(x)` return a Tensor. A bool result becomes uint8, as in PyTorch.
    """
    return tensor_over_array(np.array(array, np.uint8 if array.dtype == bool else array.dtype))


@method
def __contains__(x: Tensor, element: Any) -> bool:
    """Return whether any element of `x` equals `element`, a number or a tensor that broadcasts.

    Raises ShapeError for other objects.
    """
    if not isinstance(element, Tensor | int | float):
        raise ShapeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.",
            where=source.where(),
            hint="Pass a number or a tensor.",
        )
    return bool((x == element).any())


@method
def __dlpack__(x: Tensor, **options: Any) -> Any:
    """Return a DLPack capsule that shares the memory of `x`.

    Raises BufferError if `x` requires a gradient or is bfloat16.
    """
    # A stream belongs to a GPU, and NumPy does not accept it.
    array = _export_array(x)
    # NumPy before 2.1 does not export read-only arrays.
    array = array if array.flags.writeable else np.array(array)
    return array.__dlpack__(**{k: v for k, v in options.items() if k != "stream"})


@method
def __dlpack_device__(x: Tensor) -> tuple[int, int]:
    """Return DLPack's device type and number of the CPU."""
    return (1, 0)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """Return a tensor that shares the memory of `ext_tensor`, an array or an object with `__dlpack__`.

    It is copied, and errors are raised, as by `from_numpy`.

    >>> import lazytensor as lt
    >>> lt.from_dlpack(lt.tensor([1, 2]))
    tensor([1, 2])
    """
    # An array needs no protocol, and NumPy before 2.1 does not export read-only arrays.
    array = ext_tensor if isinstance(ext_tensor, np.ndarray) else np.from_dlpack(ext_tensor)
    return from_numpy(array)


@method
def size(x: Tensor, dim: int | None = None) -> Any:
    """Return the shape, or the extent of dimension `dim`."""
    return x.shape if dim is None else x.shape[dim]


@method(names="dim ndimension")
def dim(x: Tensor) -> int:
    """Return the number of dimensions."""
    return x.ndim


@method(names="numel nelement")
def numel(x: Tensor) -> int:
    """Return the number of elements."""
    return x.spec.size


@method
def element_size(x: Tensor) -> int:
    """Return the size of one element in bytes."""
    return x.dtype.itemsize


@tensor_property()
def itemsize(x: Tensor) -> int:
    """Return the size of one element in bytes."""
    return x.dtype.itemsize


@tensor_property()
def nbytes(x: Tensor) -> int:
    """Return the size of all elements in bytes."""
    return x.spec.size * x.dtype.itemsize


@method
def is_floating_point(x: Tensor) -> bool:
    """Return whether the dtype is floating-point."""
    return x.dtype.is_floating_point


@tensor_property()
def is_cuda(x: Tensor) -> bool:
    """Return False, since there is no GPU."""
    return False


@tensor_property()
def is_cpu(x: Tensor) -> bool:
    """Return whether `x` is on the CPU."""
    return x.device.type == "cpu"


@tensor_property()
def is_sparse(x: Tensor) -> bool:
    """Return False, since all tensors are strided."""
    return False


@tensor_property()
def is_quantized(x: Tensor) -> bool:
    """Return False, since there are no quantized dtypes."""
    return False


@tensor_property()
def is_meta(x: Tensor) -> bool:
    """Return whether `x` is on the device "meta", with a shape and no values."""
    return x.device.type == "meta"


@tensor_property()
def layout(x: Tensor) -> str:
    """Return "torch.strided", the layout of every tensor."""
    # A string, since scripts only print and compare it.
    return "torch.strided"


@method
def data_ptr(x: Tensor) -> int:
    """Return a number that is equal for tensors that start at the same element of the same storage.

    It differs for all others, and it is not an address. A tensor without elements gives 0.
    """
    if not x.spec.size:
        return 0
    # Not an address, but comparable like one: equal for the same start, different for different storages.
    return id(x.cell) + storage_offset(x) * x.dtype.itemsize


@method
def is_same_size(x: Tensor, other: Tensor) -> bool:
    """Return whether both tensors have the same shape.

    >>> import lazytensor as lt
    >>> lt.is_same_size(lt.ones(2), lt.zeros(2))
    True
    """
    return x.spec.shape == other.spec.shape


@method
def is_set_to(x: Tensor, tensor: Tensor) -> bool:
    """Return whether both tensors are the same view of the same storage.

    Different view operations that lead to the same elements are not recognized.
    """
    # The view operations are compared, so different ones that lead to the same elements are not recognized.
    return x.cell is tensor.cell and x.spec == tensor.spec and x.view_ops == tensor.view_ops


@method
def as_subclass(x: Tensor, cls: builtins.type[Tensor]) -> Tensor:
    """Return a tensor of the class `cls` that shares the storage, the view and the autograd history of `x`."""
    out = tensor_of_class(cls, x.cell, x.view_ops, x.history)
    out.device = x.device
    return out


@method
def is_pinned(x: Tensor, device: Any = None) -> bool:
    """Return False, since there is no GPU to copy to."""
    return False


@method
def pin_memory(x: Tensor, device: Any = None) -> Tensor:
    """Return `x` itself, since there is no GPU to copy to."""
    return x


@method
def type(x: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the legacy name of the dtype, such as "torch.FloatTensor", or `x` converted to `dtype` if it is given.

    `dtype` is a dtype, a legacy class, or its name. `non_blocking` is ignored. Raises OptionInvalid (a ValueError) for
    an unknown name, ArgumentInvalid (a TypeError) for another object, and ShapeError (a RuntimeError) for a GPU type.
    """
    if dtype is None:
        return f"torch.{_TENSOR_TYPES.get(x.dtype, 'Tensor')}"
    if isinstance(dtype, DType):
        return pw.cast_to(x, dtype)
    # Legacy forms: a class such as torch.FloatTensor, and its name.
    if not isinstance(dtype, str):
        if not isinstance(getattr(dtype, "dtype", None), DType):
            raise ArgumentInvalid(
                "dtype must be a type, str, or dtype object",
                where=source.where(),
                hint="Pass a dtype such as torch.float32.",
            )
        dtype = f"{dtype.__module__}.{dtype.__name__}"
    module, _, name = dtype.rpartition(".")
    if module == "torch.cuda" and name in DTYPES_BY_TENSOR_TYPE:
        raise ShapeError(
            "Cannot initialize CUDA without ATen_cuda library: no GPU is available.",
            where=source.where(),
            hint="Use a type of the CPU, such as torch.FloatTensor.",
        )
    if module != "torch" or name not in DTYPES_BY_TENSOR_TYPE:
        raise OptionInvalid(
            f"invalid type: {dtype!r}",
            where=source.where(),
            hint='Pass a dtype, or the name of a tensor type such as "torch.FloatTensor".',
        )
    return pw.cast_to(x, DTYPES_BY_TENSOR_TYPE[name])


@method(names="is_complex is_conj is_neg")
def is_complex(input: Tensor) -> bool:
    """Return False, since there are no complex tensors.

    >>> import lazytensor as lt
    >>> lt.is_complex(lt.ones(2))
    False
    """
    return False


@method
def is_signed(input: Tensor) -> bool:
    """Return whether the dtype has negative numbers.

    >>> import lazytensor as lt
    >>> lt.is_signed(lt.ones(2, dtype=lt.uint8))
    False
    """
    return input.dtype.is_signed


@method
def is_nonzero(input: Tensor) -> bool:
    """Return whether the single element is nonzero. Raises ShapeError if there are several.

    >>> import lazytensor as lt
    >>> lt.is_nonzero(lt.tensor([3]))
    True
    """
    return bool(input)
