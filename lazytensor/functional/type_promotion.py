"""Type promotion and broadcasting: give the operands of an operation one dtype and one shape."""

from typing import Any, TypeAlias

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.autocast import convert_operand, half_type
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import CPU, Device, Tensor, operand_node
from lazytensor.errors import ArgumentInvalid, ShapeError, refuse
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import OPS, call, full
from lazytensor.ops.op import refuse_elements, refuse_overflow
from lazytensor.ops.shape import broadcast_to

Number = bool | int | float
Operand: TypeAlias = Tensor | Number

_default_dtype: DType = dt.float32


def default_dtype() -> DType:
    """Return the dtype of new floating-point tensors, float32 unless `set_default_dtype` changed it.

    >>> default_dtype()
    lazytensor.float32
    """
    return _default_dtype


def set_default_dtype(dtype: DType) -> None:
    """Set the dtype of new floating-point tensors in this process. Raises ShapeError if `dtype` is not floating-point.

    >>> import lazytensor as lt
    >>> lt.set_default_dtype(lt.float64)
    >>> lt.ones(2).dtype
    lazytensor.float64
    >>> lt.set_default_dtype(lt.float32)
    """
    global _default_dtype
    if dtype.kind != "f":
        raise ShapeError(
            f"only floating-point types are supported as the default type, got {dtype}",
            where=source.where(),
            hint="Pass torch.float32 or another floating-point dtype.",
        )
    _default_dtype = dtype


def mixed_dtypes_error(dtype: DType, other: DType, text: str) -> ShapeError:
    """Return a ShapeError with the message `text` and a hint to convert operands of `other` to `dtype`."""
    hint = f"Convert the operand of type {other} with .to({dtype})."
    if half_type() is not None:
        hint += " Automatic casts compute products in a half type, and sums, powers and losses in float32."
    return ShapeError(text, where=source.where(), hint=hint)


def scalar_dtype(value: Any) -> DType:
    """Return the dtype of a Python number: bool, int64, or the default dtype for a float.

    Raises TypeError otherwise.
    """
    if isinstance(value, bool):
        return dt.bool_
    if isinstance(value, int):
        return dt.int64
    if isinstance(value, float):
        return _default_dtype
    raise ArgumentInvalid(
        f"expected a tensor or a number, got {type(value).__name__}",
        where=source.where(),
        hint="Convert the value first, for example with torch.tensor(value).",
    )


def python_number(value: np.generic) -> Number:
    """Return a NumPy number as a Python number, so that it takes part in type promotion as a number.

    A NumPy bool becomes 1.0 or 0.0.
    """
    # PyTorch converts a NumPy bool to 1.0 or 0.0.
    return float(value) if isinstance(value, np.bool_) else value.item()


# Only a higher category raises the result dtype; within a category the stronger operand decides.
_CATEGORY_RANK = {"b": 0, "i": 1, "f": 2}


def result_type(*operands: Operand) -> DType:
    """Return the promoted dtype of the operands by PyTorch's rules.

    Tensors with dimensions take precedence over 0-d tensors, and these over Python numbers. An operand of lower
    precedence only matters if its category (bool < integer < floating-point) is higher.

    >>> import lazytensor as lt
    >>> lt.result_type(lt.tensor([1]), 1.5)
    lazytensor.float32
    """
    by_weakness: list[DType | None] = [None, None, None]
    for o in operands:
        # 0 for a tensor with dimensions, 1 for a 0-d tensor, 2 for a Python number.
        weakness = 2 if not isinstance(o, Tensor) else 0 if o.spec.shape else 1
        d = o.dtype if isinstance(o, Tensor) else scalar_dtype(o)
        before = by_weakness[weakness]
        by_weakness[weakness] = d if before is None else dt.promote(before, d)
    result: DType | None = None
    for weaker in by_weakness:
        if weaker is not None and (result is None or _CATEGORY_RANK[weaker.kind] > _CATEGORY_RANK[result.kind]):
            result = weaker
    assert result is not None
    return result


def widest_dtype(name: str, *values: Operand) -> DType | None:
    """Return float32 if autocast widens operation `name` and its operands mix half types and float32; else None."""
    if OPS[name].autocast != "widest":
        return None
    dtypes = {v.dtype for v in values if isinstance(v, Tensor) and v.dtype.kind == "f"}
    return dt.float32 if dt.float32 in dtypes and any(d.is_half for d in dtypes) else None


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that `shapes` broadcast to, aligned at their last dimensions; () without shapes.

    Raises ShapeError with the dimension that does not fit.
    """
    rank = max(map(len, shapes), default=0)
    out = [1] * rank
    for s in shapes:
        for i, e in enumerate(s, rank - len(s)):
            # An extent of 0 matches only 0 and 1.
            if e != 1 and out[i] not in (1, e):
                raise ShapeError(
                    f"The size of tensor a ({out[i]}) must match the size of tensor b ({e}) at non-singleton "
                    f"dimension {i}; the shapes are {', '.join(str(list(s)) for s in shapes)}",
                    where=source.where(),
                    hint="Reshape or unsqueeze one of them, so that the dimensions match.",
                )
            out[i] = e if e != 1 else out[i]
    return tuple(out)


def prepare_operands(*values: Operand, dtype: DType | None = None) -> list[Node]:
    """Return the operands of an elementwise operation as nodes of one shape and dtype.

    If `dtype` is given, it is used instead of the promoted dtype. Integers among the operands wrap to an integer dtype.
    Raises ShapeError if the shapes do not broadcast.
    """
    first = values[0]
    # A fast path for nearly all calls: two tensors of one dtype, or a tensor and a float.
    if len(values) == 2 and dtype is None:
        second = values[1]
        if isinstance(first, Tensor) and isinstance(second, Tensor):
            a, b = operand_node(first), operand_node(second)
            if a.type == b.type:
                return [a, b]
            if a.type.dtype is b.type.dtype:
                shape = broadcast_shape(a.type.shape, b.type.shape)
                return [broadcast_to(a, shape), broadcast_to(b, shape)]
        elif isinstance(first, Tensor) and second.__class__ is float and first.dtype.kind == "f":
            a = operand_node(first)
            return [a, full(second, a.type)]
    values = tuple(python_number(v) if isinstance(v, np.generic) else v for v in values)
    common = dtype or result_type(*values)
    shape = common_shape(*values)
    return [prepare_operand(_wrap_number(v, common), common, shape) for v in values]


def _wrap_number(value: Operand, dtype: DType) -> Operand:
    """Return an integer `value` wrapped to the range of an integer `dtype`; any other value unchanged.

    PyTorch does this with number operands.
    """
    if isinstance(value, int) and dtype.kind == "i" and -(1 << 63) <= value < 1 << 63:
        return dt.wrap_integer(value, dtype)
    return value


def require_elements(x: Tensor, kinds: str, what: str) -> None:
    """Raise TypeUnsupported unless the dtype kind of `x` is in `kinds` ("f", "i", "b").

    `what` is the function's name.
    """
    if x.dtype.kind not in kinds:
        refuse_elements(what, x.spec)


def common_shape(*values: Operand) -> tuple[int, ...]:
    """Return the shape that the tensors among the operands broadcast to."""
    return broadcast_shape(*(v.spec.shape for v in values if isinstance(v, Tensor)))


def prepare_operand(value: Operand, dtype: DType, shape: tuple[int, ...]) -> Node:
    """Return the node of one operand, converted to `dtype` and broadcast to `shape`.

    Raises ShapeError if a tensor does not broadcast to `shape`.
    """
    if isinstance(value, Tensor):
        return broadcast_to(convert_operand(operand_node(value), dtype), shape)
    return full(value, Type(shape, dtype))


def prepare_branch(value: Operand, dtype: DType, shape: tuple[int, ...]) -> Node:
    """Return the node of a value that `where` selects, converted to `dtype` and broadcast to `shape`.

    In a step for the wafer, broadcast and conversion are one operation.
    """
    if half_type() is None or not isinstance(value, Tensor) or value.dtype is dtype or value.spec.shape == shape:
        return prepare_operand(value, dtype, shape)
    return call("broadcast_cast", operand_node(value), shape=shape, dtype=dtype)


def prepare_stored(value: Operand, dtype: DType, shape: tuple[int, ...]) -> Node:
    """Return the node of a value that is stored in a tensor, converted to `dtype` and broadcast to `shape`.

    Raises NumberTooLarge if a number is out of the range of the dtype.
    """
    if dtype.kind == "f" and not isinstance(value, Tensor):
        refuse_overflow(value, dtype)
    return prepare_operand(value, dtype, shape)


def device_of(*values: Any) -> Device:
    """Return the device of a result of `values`.

    Raises ShapeError if two tensors with dimensions are on different devices. A 0-d tensor on the CPU may be combined
    with tensors on any device.
    """
    device = CPU
    for v in values:
        if isinstance(v, Tensor) and v.device is not CPU:
            device = v.device
    # A 0-d tensor on the CPU may be combined with any device, as in PyTorch.
    if device is CPU:
        return CPU
    for v in values:
        # Usually all share one device object.
        if isinstance(v, Tensor) and v.device is not device and v.device != device and v.spec.shape:
            error = ShapeError(
                "Detected tensor arguments with incompatible devices in the following function call: "
                f"one is on {v.device} and one on {device}",
                where=source.where(),
                hint="Prepare the model with cstorch.compile(model, backend), and move constants to the device.",
            )
            refuse("device", error)
    return device


def can_cast(from_: DType, to: DType) -> bool:
    """Return whether a value of dtype `from_` may be written into dtype `to`.

    Floating-point may not become integer or bool, and integer may not become bool.

    >>> import lazytensor as lt
    >>> lt.can_cast(lt.float32, lt.int32)
    False
    """
    # Kinds in PyTorch's order; casts within a kind are allowed.
    order = "bif"
    return order.index(from_.kind) <= order.index(to.kind)
