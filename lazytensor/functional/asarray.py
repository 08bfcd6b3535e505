"""`asarray`: tensors over the memory of arrays, byte buffers and objects that export DLPack."""

from typing import Any

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.device import CPU, default_device, resolve_device
from lazytensor.core.dtype import DType
from lazytensor.core.element_bytes import FILE_DTYPES, decode_elements
from lazytensor.core.tensor import Tensor
from lazytensor.errors import ArgumentInvalid, OptionInvalid
from lazytensor.functional.conversion import to
from lazytensor.functional.creation import from_numpy, tensor
from lazytensor.functional.tensor_attributes import DTYPES_BY_TENSOR_TYPE, from_dlpack
from lazytensor.functional.type_promotion import default_dtype

_TYPE_NAMES = {d: name.removesuffix("Tensor") for name, d in DTYPES_BY_TENSOR_TYPE.items()}


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Return `obj` as a tensor. The tensor shares the memory of `obj` if no conversion is needed.

    - `obj`: a tensor, a NumPy array or scalar, an object that exports DLPack, a buffer of bytes, a number, or nested
      sequences of numbers. Numbers and sequences are always copied. A buffer of bytes is read as elements of `dtype`,
      which defaults to the default dtype; buffers of bfloat16 and of bool are copied.
    - `dtype`, `device`: those of `obj` by default; other ones cause a copy. In a `with device:` block the default is
      the device of the block.
    - `copy`: True always copies. False raises ValueError if the memory cannot be shared. None copies if necessary.
    - `requires_grad`: whether the result requires a gradient, by default as `obj` does. True and None keep the autograd
      history of a tensor. A tensor that needs no copy is returned itself, and `requires_grad` is set on it.

    Inside a traced step the values of arrays and buffers become constants that share no memory. Raises as `tensor` and
    `from_numpy` do.

    >>> import numpy as np
    >>> import lazytensor as lt
    >>> array = np.zeros(3, np.float32)
    >>> shared, copied = lt.asarray(array), lt.asarray(array, copy=True)
    >>> array[0] = 5
    >>> shared, copied
    (tensor([5., 0., 0.]), tensor([0., 0., 0.]))
    """
    _check_options(dtype, copy, requires_grad)
    if copy is False:
        _refuse_unshared(obj, dtype)
    shared = obj if isinstance(obj, Tensor) else _share_memory(obj, dtype)
    if shared is None:
        return tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    dtype, target = dtype or shared.dtype, _choose_device(shared, device)
    is_converted = dtype is not shared.dtype or target != shared.device
    if is_converted and copy is False:
        raise OptionInvalid(
            _conversion_text(shared, dtype, target), where=source.where(), hint="Omit copy, or pass copy=True."
        )
    tracks = shared.requires_grad if requires_grad is None else requires_grad
    if is_converted or copy:
        result = to(shared if tracks else shared.detach(), dtype=dtype, device=target, copy=True)
    else:
        result = shared.detach() if not tracks and not shared.is_leaf else shared
    return result if result.requires_grad == tracks else result.requires_grad_(tracks)


def _check_options(dtype: Any, copy: Any, requires_grad: Any) -> None:
    """Raise ArgumentInvalid (a TypeError) if an option of `asarray` has a wrong type."""
    for name, value, kind in (
        ("dtype", dtype, DType),
        ("copy", copy, bool),
        ("requires_grad", requires_grad, bool),
    ):
        if value is not None and not isinstance(value, kind):
            expected = "torch.dtype" if kind is DType else "bool"
            text = f"asarray(): argument {name!r} must be {expected}, not {type(value).__name__}"
            raise ArgumentInvalid(
                text, where=source.where(), hint="Pass a tensor, an array, a sequence, a number or a buffer."
            )


def _refuse_unshared(obj: Any, dtype: DType | None) -> None:
    """Raise OptionInvalid (a ValueError) if no tensor of type `dtype` can share the memory of `obj`.

    These are NumPy scalars, objects without a memory buffer, and byte buffers read as bfloat16 or bool. Tensors, arrays
    and DLPack objects pass; whether they need a conversion is not checked here.
    """
    if isinstance(obj, Tensor | np.ndarray) or _exports_dlpack(obj):
        return
    if isinstance(obj, np.generic) or not _is_buffer(obj):
        raise OptionInvalid(
            f"can't alias arbitrary sequence into a tensor. Got {type(obj).__name__}.",
            where=source.where(),
            hint="Omit copy, or pass an array or a buffer.",
        )
    if dtype in (dt.bfloat16, dt.bool_):
        raise OptionInvalid(
            f"can't alias a buffer of bytes into dtype {_TYPE_NAMES[dtype]!r}.",
            where=source.where(),
            hint="Remove copy=False.",
        )


def _share_memory(obj: Any, dtype: DType | None) -> Tensor | None:
    """Return a tensor over the memory of `obj`, or None if `obj` is a number or a sequence without a memory buffer.

    The result has the dtype of the memory. Only byte buffers use `dtype`. NumPy scalars are copied.
    """
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if isinstance(obj, np.generic):
        return from_numpy(np.array(obj))
    if _exports_dlpack(obj):
        return from_dlpack(obj)
    return _tensor_of_buffer(obj, dtype or default_dtype()) if _is_buffer(obj) else None


def _exports_dlpack(obj: Any) -> bool:
    return hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__")


def _is_buffer(obj: Any) -> bool:
    try:
        memoryview(obj).release()
    except TypeError:
        return False
    return True


def _tensor_of_buffer(buffer: Any, dtype: DType) -> Tensor:
    """Return the bytes of `buffer` as a vector of `dtype`. It shares the memory, except for bfloat16 and bool.

    Raises OptionInvalid if the buffer is empty, if its length is no multiple of the element size, or if `dtype` cannot
    be read from bytes.
    """
    length = memoryview(buffer).nbytes
    if not length:
        raise OptionInvalid(
            "both buffer length (0) and count (-1) must not be 0",
            where=source.where(),
            hint="Pass a buffer that is not empty.",
        )
    if length % dtype.itemsize:
        raise OptionInvalid(
            f"buffer length ({length} bytes) after offset (0 bytes) must be a multiple of element size "
            f"({dtype.itemsize})",
            where=source.where(),
            hint="Choose a dtype whose size divides the length, or cut the buffer.",
        )
    if dtype not in FILE_DTYPES:
        raise OptionInvalid(
            f"a buffer of bytes cannot hold {dtype}",
            where=source.where(),
            hint="Pass a dtype of NumPy, such as float32.",
        )
    elements = np.frombuffer(buffer, FILE_DTYPES[dtype])
    if dtype in (dt.bfloat16, dt.bool_):
        return to(from_numpy(decode_elements(elements, dtype)), dtype=dtype)
    return from_numpy(elements)


def _choose_device(shared: Tensor, device: Any) -> Any:
    if device is not None:
        return resolve_device(device)
    return shared.device if default_device() is CPU else default_device()


def _conversion_text(shared: Tensor, dtype: DType, target: Any) -> str:
    if target != shared.device:
        return f"can't alias tensor from device '{shared.device}' to '{target}'."
    names = (_TYPE_NAMES.get(d, d.name) for d in (shared.dtype, dtype))
    return "can't alias tensor with dtype {!r} into dtype {!r}.".format(*names)
