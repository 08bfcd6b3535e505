"""The legacy typed constructors: `torch.FloatTensor(2, 3)` and `isinstance(x, torch.LongTensor)`."""

from types import SimpleNamespace
from typing import Any

from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.errors import ArgumentInvalid
from lazytensor.functional.legacy_constructors import construct_legacy_of_dtype
from lazytensor.functional.tensor_attributes import DTYPES_BY_TENSOR_TYPE
from lazytensor.functional.type_promotion import set_default_dtype


class TypedTensor(type):
    """The metaclass of typed constructors.

    Calling such a class creates a tensor of its dtype. Tensors of that dtype count as its instances. Classes of
    `torch.cuda` raise TypeError when called, and have no instances.
    """

    dtype: DType
    is_cuda: bool

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        # As in a CPU build, the names of GPU types exist and fail only when called.
        if cls.is_cuda:
            raise _make_unavailable_error(cls)
        return construct_legacy_of_dtype(cls.dtype, *args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        is_of_dtype = isinstance(instance, Tensor) and instance.dtype is cls.dtype and not instance.is_sparse
        return is_of_dtype and not cls.is_cuda


TypedTensor.__module__ = "torch"
TypedTensor.__name__ = TypedTensor.__qualname__ = "tensortype"


def _make_unavailable_error(kind: type) -> TypeError:
    return TypeError(f"type {kind.__module__}.{kind.__name__} not available. Torch not compiled with CUDA enabled.")


def _make_typed_tensor(name: str, module: str = "torch") -> TypedTensor:
    return TypedTensor(
        name, (), {"dtype": DTYPES_BY_TENSOR_TYPE[name], "is_cuda": module != "torch", "__module__": module}
    )


CPU_TENSOR_TYPES = SimpleNamespace(**{name: _make_typed_tensor(name) for name in DTYPES_BY_TENSOR_TYPE})
CUDA_TENSOR_TYPES = SimpleNamespace(**{name: _make_typed_tensor(name, "torch.cuda") for name in DTYPES_BY_TENSOR_TYPE})


def set_default_tensor_type(t: Any, /) -> None:
    """Set the default floating-point dtype by a class such as `torch.DoubleTensor`, or by its name.

    Raises TypeError for other objects, for integer types and for GPU types.
    """
    module, _, name = t.rpartition(".") if isinstance(t, str) else ("", "", "")
    where = {"torch": CPU_TENSOR_TYPES, "torch.cuda": CUDA_TENSOR_TYPES}.get(module)
    kind = getattr(where, name, None) if isinstance(t, str) else t
    # The order of the checks and the messages are PyTorch's.
    if not isinstance(kind, TypedTensor):
        raise ArgumentInvalid(
            "invalid type object: only floating-point types are supported as the default type",
            where=source.where(),
            hint="Pass torch.FloatTensor or torch.DoubleTensor.",
        )
    if kind.is_cuda:
        raise _make_unavailable_error(kind)
    if kind.dtype.kind != "f":
        raise ArgumentInvalid(
            "only floating-point types are supported as the default type",
            where=source.where(),
            hint="Pass torch.FloatTensor or torch.DoubleTensor.",
        )
    set_default_dtype(kind.dtype)
