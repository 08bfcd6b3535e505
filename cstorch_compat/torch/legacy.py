"""The typed constructors from before dtypes: `torch.FloatTensor(2, 3)`, `isinstance(x, torch.LongTensor)`."""

from types import SimpleNamespace
from typing import Any

from lazytensor.dtype import DType
from lazytensor.functions.constructors import of_kind
from lazytensor.functions.promotion import set_default_dtype
from lazytensor.functions.protocols import KINDS
from lazytensor.tensor import Tensor


class TypedTensor(type):
    """The class of such names: calling one makes a tensor, and tensors of its type count as its instances."""

    dtype: DType
    is_cuda: bool

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        # The names of a GPU are there in a CPU build too, and only fail when they are called.
        if cls.is_cuda:
            raise _unavailable(cls)
        return of_kind(cls.dtype, *args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and not cls.is_cuda


TypedTensor.__module__ = "torch"
TypedTensor.__name__ = TypedTensor.__qualname__ = "tensortype"


def _unavailable(kind: type) -> TypeError:
    return TypeError(f"type {kind.__module__}.{kind.__name__} not available. Torch not compiled with CUDA enabled.")


def _typed(name: str, module: str = "torch") -> TypedTensor:
    return TypedTensor(name, (), {"dtype": KINDS[name], "is_cuda": module != "torch", "__module__": module})


ON_THE_CPU = SimpleNamespace(**{name: _typed(name) for name in KINDS})
ON_A_GPU = SimpleNamespace(**{name: _typed(name, "torch.cuda") for name in KINDS})


def set_default_tensor_type(t: Any, /) -> None:
    """Set the type of new floating point tensors by a class such as `torch.DoubleTensor`, or by its name.

    Raises TypeError for what is no such type, and for one of a GPU.
    """
    module, _, name = t.rpartition(".") if isinstance(t, str) else ("", "", "")
    where = {"torch": ON_THE_CPU, "torch.cuda": ON_A_GPU}.get(module)
    kind = getattr(where, name, None) if isinstance(t, str) else t
    # The messages are PyTorch's, which tells a GPU's type before a type of integers.
    if not isinstance(kind, TypedTensor):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    if kind.is_cuda:
        raise _unavailable(kind)
    if kind.dtype.kind != "f":
        raise TypeError("only floating-point types are supported as the default type")
    set_default_dtype(kind.dtype)
