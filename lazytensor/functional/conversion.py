"""A tensor in another type, or on another device."""

from collections.abc import Callable
from typing import Any

from lazytensor.autograd.shared_histories import History
from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.device import resolve_device
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import CPU, Device, Tensor
from lazytensor.core.tensor_members import method
from lazytensor.errors import ArgumentInvalid, ShapeError
from lazytensor.functional.pointwise import cast_to, clone


@method
def to(x: Tensor, *args: Any, dtype: DType | None = None, device: Any = None, copy: bool = False, **_: Any) -> Tensor:
    """x with another dtype, on another device, or both; x itself if nothing changes."""
    # PyTorch tells the overloads of `to` by the types of what is given; truth values by place are non_blocking and
    # copy, and are passed over.
    for a in args:
        if isinstance(a, DType):
            dtype = a
        elif isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        elif isinstance(a, Device | str):
            device = a
        elif a is not None and not isinstance(a, bool):  # None asks for no change
            raise ArgumentInvalid(
                f"to() received an invalid combination of arguments - got ({type(a).__name__}), but expected one of: "
                "a torch.device, a torch.dtype or another tensor",
                where=source.where(),
            )
    out = cast_to(x, dtype) if dtype is not None else x
    return _move_to_device(clone(out) if copy and out is x else out, device)


def _move_to_device(x: Tensor, device: Any) -> Tensor:
    if device is None:
        return x
    target = resolve_device(device)
    if target == x.device:
        return x
    if target is CPU:
        # In a step there is no value yet: reading it is what refuses the move, at the user's line.
        x.array(".to('cpu')")
    out = clone(x)
    out.device = target
    return out


@method(names="__pos__")
def identity(x: Tensor) -> Tensor:
    """x, also where it is a boolean."""
    return x


@method
def cpu(x: Tensor) -> Tensor:
    """x on the CPU."""
    return _move_to_device(x, CPU)


@method
def cuda(x: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """Raises DeviceAbsent: there is no GPU."""
    return _move_to_device(x, "cuda")


@method
def xpu(x: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """Raises DeviceAbsent: there is no GPU."""
    return _move_to_device(x, "xpu")


@method
def detach_(x: Tensor) -> Tensor:
    """x itself, from now on without the graph that computed it. Raises RuntimeError for a view."""
    if any(step[0] != "variable" for step in x.view_ops):
        raise ShapeError("Can't detach views in-place. Use detach() instead.", where=source.where())
    device, gradient = x.device, x.grad
    x._init(x.cell, (), History())
    x.device, x.grad = device, gradient
    return x


@method
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """x with the dtype of another tensor."""
    return cast_to(x, other.dtype)


def _converter(name: str, dtype: DType) -> Callable[[Tensor], Tensor]:
    def converted(x: Tensor) -> Tensor:
        return cast_to(x, dtype)

    converted.__name__, converted.__qualname__, converted.__doc__ = name, name, f"x as {dtype.name}."
    return method(converted)


# Named `to_...` here, since a module that defines `float` and `int` cannot use Python's.
to_float = _converter("float", dt.float32)
to_double = _converter("double", dt.float64)
to_half = _converter("half", dt.float16)
to_bfloat16 = _converter("bfloat16", dt.bfloat16)
to_long = _converter("long", dt.int64)
to_int = _converter("int", dt.int32)
to_short = _converter("short", dt.int16)
to_char = _converter("char", dt.int8)
to_byte = _converter("byte", dt.uint8)
to_bool = _converter("bool", dt.bool_)
