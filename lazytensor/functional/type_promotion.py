"""Type promotion and broadcasting: operands of an operation get one dtype and one shape before a node is made."""

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
    """The type of new floating point tensors.

    >>> default_dtype()
    lazytensor.float32
    """
    return _default_dtype


def set_default_dtype(dtype: DType) -> None:
    """Set the type of new floating point tensors. Raises ShapeError for other kinds.

    >>> import lazytensor as lt
    >>> lt.set_default_dtype(lt.float64)
    >>> lt.ones(2).dtype
    lazytensor.float64
    >>> lt.set_default_dtype(lt.float32)
    """
    global _default_dtype
    if dtype.kind != "f":
        raise ShapeError(f"only floating-point types are supported as the default type, got {dtype}")
    _default_dtype = dtype


def mixed_dtypes_error(dtype: DType, other: DType, text: str) -> ShapeError:
    """The error `text` of operands that have to be of one type, with the conversion that makes them so."""
    hint = f"Convert one of them: .to({dtype}) where it is {other}."
    if half_type() is not None:
        hint += " Automatic casts give products in a half type, and sums, powers and losses in float32."
    return ShapeError(text, where=source.where(), hint=hint)


def scalar_dtype(value: Any) -> DType:
    """The dtype a Python number has on its own. Raises TypeError for anything else."""
    if isinstance(value, bool):
        return dt.bool_
    if isinstance(value, int):
        return dt.int64
    if isinstance(value, float):
        return _default_dtype
    raise ArgumentInvalid(f"expected a tensor or a number, got {type(value).__name__}", where=source.where())


def python_number(value: np.generic) -> Number:
    """A NumPy number as Python's: as an array it would bring a type of its own into promotion."""
    # PyTorch sees a truth value of NumPy as 1.0 or 0.0, for it is no bool and can be a float.
    return float(value) if isinstance(value, np.bool_) else value.item()


# Only the step from one kind of number to the next lifts a result; within a kind the stronger operand decides.
_CATEGORY_RANK = {"b": 0, "i": 1, "f": 2}


def result_type(*operands: Operand) -> DType:
    """PyTorch's promotion: tensors with dimensions decide, then 0-d tensors, then Python numbers.

    A weaker operand only matters if its category (bool, integer, floating) is higher.

    >>> import lazytensor as lt
    >>> lt.result_type(lt.tensor([1]), 1.5)
    lazytensor.float32
    """
    by_weakness: list[DType | None] = [None, None, None]
    for o in operands:
        # The weaker an operand, the higher its number: a tensor with dimensions, one without, a Python number.
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
    """Return float32 for half types beside a float32 scalar, in operations whose operands automatic casts widen."""
    if OPS[name].autocast != "widest":
        return None
    dtypes = {v.dtype for v in values if isinstance(v, Tensor) and v.dtype.kind == "f"}
    return dt.float32 if dt.float32 in dtypes and any(d.is_half for d in dtypes) else None


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape. Raises ShapeError naming the dimension that does not fit."""
    rank = max(map(len, shapes), default=0)
    out = [1] * rank
    for s in shapes:
        for i, e in enumerate(s, rank - len(s)):
            # An extent of 0 is like any other: it meets 1 and itself only.
            if e != 1 and out[i] not in (1, e):
                raise ShapeError(
                    f"The size of tensor a ({out[i]}) must match the size of tensor b ({e}) at non-singleton "
                    f"dimension {i}; the shapes are {', '.join(str(list(s)) for s in shapes)}",
                    where=source.where(),
                    hint="Reshape or unsqueeze one of them so that the dimensions line up.",
                )
            out[i] = e if e != 1 else out[i]
    return tuple(out)


def prepare_operands(*values: Operand, dtype: DType | None = None) -> list[Node]:
    """The operands of a pointwise operation as nodes of one type."""
    first = values[0]
    # Two tensors of one type, or a tensor and a float: nearly every call, so it is answered before anything is worked
    # out.
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
    """An operand beside tensors: there a number wraps that PyTorch refuses where one is stored."""
    if isinstance(value, int) and dtype.kind == "i" and -(1 << 63) <= value < 1 << 63:
        return dt.wrap_integer(value, dtype)
    return value


def require_elements(x: Tensor, kinds: str, what: str) -> None:
    """Raises TypeUnsupported unless the elements of x are of one of the kinds that PyTorch has `what` for."""
    if x.dtype.kind not in kinds:
        refuse_elements(what, x.spec)


def common_shape(*values: Operand) -> tuple[int, ...]:
    """The shape that the tensors among the operands broadcast to."""
    return broadcast_shape(*(v.spec.shape for v in values if isinstance(v, Tensor)))


def prepare_operand(value: Operand, dtype: DType, shape: tuple[int, ...]) -> Node:
    """One operand converted and broadcast."""
    if isinstance(value, Tensor):
        return broadcast_to(convert_operand(operand_node(value), dtype), shape)
    return full(value, Type(shape, dtype))


def prepare_branch(value: Operand, dtype: DType, shape: tuple[int, ...]) -> Node:
    """Return a value that `where` selects, converted and broadcast."""
    if half_type() is None or not isinstance(value, Tensor) or value.dtype is dtype or value.spec.shape == shape:
        return prepare_operand(value, dtype, shape)
    return call("broadcast_cast", operand_node(value), shape=shape, dtype=dtype)


def prepare_stored(value: Operand, dtype: DType, shape: tuple[int, ...]) -> Node:
    """The same for one that is stored as it is. Raises NumberTooLarge for a number outside of the type."""
    if dtype.kind == "f" and not isinstance(value, Tensor):
        refuse_overflow(value, dtype)
    return prepare_operand(value, dtype, shape)


def device_of(*values: Any) -> Device:
    """The device of a result. Raises ShapeError if two tensors with dimensions are on different ones."""
    device = CPU
    for v in values:
        if isinstance(v, Tensor) and v.device is not CPU:
            device = v.device
    # A number [] on the CPU mixes with everything, as PyTorch lets it; only tensors with dimensions are refused.
    if device is CPU:
        return CPU
    for v in values:
        # Mostly they are on one and the same, as its only object.
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
    """Whether a type may be written into another: floating to integer may not, nor a number to bool.

    >>> import lazytensor as lt
    >>> lt.can_cast(lt.float32, lt.int32)
    False
    """
    # Kinds in PyTorch's order; within one kind everything may be cast.
    order = "bif"
    return order.index(from_.kind) <= order.index(to.kind)
