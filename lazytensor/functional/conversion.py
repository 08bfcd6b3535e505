"""Conversion of a tensor to another dtype or device."""

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
def to(
    x: Tensor,
    *args: Any,
    dtype: DType | None = None,
    device: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
    other: Tensor | None = None,
) -> Tensor:
    """Return `x` with another dtype, on another device, or both; `x` itself if nothing changes.

    A positional argument may be a dtype, a device or its name, or a tensor `other` whose dtype and device are used. Of
    positional bools the first is `non_blocking` and the second is `copy`. `copy=True` copies even if nothing changes.
    `non_blocking` and `memory_format` have no effect. Raises ArgumentInvalid (a TypeError) for any other positional
    argument, and TraceError if a step moves a tensor without a value to the CPU.
    """
    # PyTorch selects the overload of `to` by the argument types.
    copy = copy or [a for a in args if isinstance(a, bool)][1:2] == [True]
    for a in (*args, other):
        if isinstance(a, DType):
            dtype = a
        elif isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        elif isinstance(a, Device | str):
            device = a
        elif a is not None and not isinstance(a, bool):  # None requests no change
            raise ArgumentInvalid(
                f"to() received an invalid combination of arguments - got ({type(a).__name__}), but expected one of: "
                "a torch.device, a torch.dtype or another tensor",
                where=source.where(),
                hint="Pass a dtype, a device or a tensor.",
            )
    out = cast_to(x, dtype) if dtype is not None else x
    return _move_to_device(clone(out) if copy and out is x else out, device)


def _move_to_device(x: Tensor, device: Any) -> Tensor:
    """Return a copy of `x` on `device`; `x` itself if `device` is None or its device.

    Raises TraceError if a step moves a tensor without a value to the CPU.
    """
    if device is None:
        return x
    target = resolve_device(device)
    if target == x.device:
        return x
    if target is CPU:
        # Inside a step the tensor has no value, so reading it raises TraceError at the user's line.
        x.array(".to('cpu')")
    out = clone(x)
    out.device = target
    return out


@method(names="__pos__")
def identity(x: Tensor) -> Tensor:
    """Return `x` itself, for every dtype including bool."""
    return x


@method
def cpu(x: Tensor) -> Tensor:
    """Return `x` on the CPU; `x` itself if it is there already. Raises TraceError if `x` has no value yet."""
    return _move_to_device(x, CPU)


@method
def cuda(x: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """Raise DeviceAbsent, since there is no GPU."""
    return _move_to_device(x, "cuda")


@method
def xpu(x: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """Raise DeviceAbsent, since there is no GPU."""
    return _move_to_device(x, "xpu")


@method
def detach_(x: Tensor) -> Tensor:
    """Detach `x` from the graph that computed it, in place, and return `x`.

    `x` then is a leaf that requires no gradient; `x.grad` stays. Raises ShapeError (a RuntimeError) if `x` is a view.
    """
    if any(step[0] != "variable" for step in x.view_ops):
        raise ShapeError(
            "Can't detach views in-place. Use detach() instead.", where=source.where(), hint="Write x = x.detach()."
        )
    device, gradient = x.device, x.grad
    x._init(x.cell, (), History())
    x.device, x.grad = device, gradient
    return x


@method
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """Return `x` converted to the dtype of `other`; `x` itself if it has that dtype."""
    return cast_to(x, other.dtype)


def _converter(name: str, dtype: DType) -> Callable[[Tensor], Tensor]:
    def converted(x: Tensor) -> Tensor:
        return cast_to(x, dtype)

    converted.__name__ = converted.__qualname__ = name
    rule = {"i": " Fractions are truncated.", "b": " Nonzero elements become True."}.get(dtype.kind, "")
    converted.__doc__ = f"Return `x` converted to {dtype.name}; `x` itself if it has that dtype.{rule}"
    return method(converted)


# The functions are named `to_...`, since the names `float` and `int` would hide Python's types in this module.
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
