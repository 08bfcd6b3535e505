"""Legacy constructors: `torch.Tensor(...)`, `torch.FloatTensor(...)` and `Tensor.new`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Device, Size, Tensor
from lazytensor.core.tensor_members import method
from lazytensor.errors import ArgumentInvalid, ShapeError
from lazytensor.functional.creation import empty, parse_size, tensor
from lazytensor.functional.type_promotion import default_dtype


def construct_legacy(*given: Any, device: Any = None, size: Any = None) -> Tensor:
    """Return the result of `torch.Tensor(...)` in the default dtype.

    Integers or a Size give a tensor of that shape with unspecified values (zeros here). A sequence or an array gives a
    tensor of its data. A tensor gives another tensor over the same storage. Raises ArgumentInvalid (a TypeError) for
    anything else, and ShapeError for a negative extent or a device other than the CPU.
    """
    if len(given) == 1 and isinstance(given[0], Tensor):
        return given[0].make_view("reshape", shape=given[0].spec.shape)
    return construct_legacy_of_dtype(default_dtype(), *given, device=device, size=size)


def construct_legacy_of_dtype(kind: DType, *given: Any, device: Any = None, size: Any = None) -> Tensor:
    """Return the result of `torch.FloatTensor(...)` and similar classes, in the dtype `kind`.

    The arguments are those of `construct_legacy`. Raises ArgumentInvalid (a TypeError) also for a tensor of another
    dtype.
    """
    if device is not None and Device(device).type != "cpu":
        raise ShapeError(
            f"legacy constructor expects device type: cpu but device type: {Device(device).type} was passed",
            where=source.where(),
            hint="Write torch.tensor(data, device=device).",
        )
    if not given:
        return empty(size or 0, dtype=kind, device=device)
    data = given[0]
    if isinstance(data, Tensor) and len(given) == 1 and (data.spec.shape or data.dtype is kind):
        if data.dtype is not kind:
            raise ArgumentInvalid(
                f"expected {kind} (got {data.dtype})",
                where=source.where(),
                hint="Convert the tensor first, or use torch.tensor(data, dtype=...).",
            )
        return data.make_view("reshape", shape=data.spec.shape)
    if isinstance(data, Size) or all(map(_is_extent, given)):
        extents = parse_size((data,)) if isinstance(data, Size) else [int(e) for e in given]
        if any(e < 0 for e in extents):
            first = next(e for e in extents if e < 0)
            raise ShapeError(
                f"Trying to create tensor with negative dimension {first}: {list(extents)}",
                where=source.where(),
                hint="Pass sizes of at least 0.",
            )
        return empty(extents, dtype=kind, device=device)
    if len(given) > 1:
        raise ArgumentInvalid(
            f"new() received an invalid combination of arguments - got ({', '.join(type(g).__name__ for g in given)})",
            where=source.where(),
            hint="Pass sizes, or one sequence of data.",
        )
    if isinstance(data, str):
        raise ArgumentInvalid(
            "new(): invalid data type 'str'",
            where=source.where(),
            hint="Pass a list of numbers, or convert the text first.",
        )
    if not isinstance(data, Sequence | np.ndarray):
        owner = "numpy." if isinstance(data, np.generic) else ""
        raise ArgumentInvalid(
            f"new(): data must be a sequence (got {owner}{type(data).__name__})",
            where=source.where(),
            hint="Pass a sequence of numbers, or sizes as integers.",
        )
    return tensor(data, dtype=kind, device=device)


def _is_extent(value: Any) -> bool:
    """Return whether `value` is an integer: a Python or NumPy integer or a 0-d integer tensor, but not a bool."""
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_number or (isinstance(value, Tensor) and not value.spec.shape and value.dtype.kind == "i")


@method
def new(x: Tensor, *given: Any, device: Any = None, size: Any = None) -> Tensor:
    """Return a tensor of the dtype of `x` from a shape or from data, as the legacy constructors do."""
    return construct_legacy_of_dtype(x.dtype, *given, device=device, size=size)
