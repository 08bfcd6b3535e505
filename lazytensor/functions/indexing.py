"""Reading and writing parts of a tensor with integers, slices, None and Ellipsis."""

from typing import Any

from lazytensor import source
from lazytensor.errors import ShapeError
from lazytensor.functions import shapes
from lazytensor.functions.promotion import Operand, prepared
from lazytensor.tensor import Tensor


def getitem(x: Tensor, index: Any) -> Tensor:
    """The part of x that `index` names, as a view. Raises IndexError outside the extents."""
    parts = list(index) if isinstance(index, tuple) else [index]
    taken = sum(p is not None and p is not Ellipsis for p in parts)
    if taken > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    at_rest = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
    parts[at_rest : at_rest + 1] = [slice(None)] * (x.ndim - taken)
    out, d = x, 0
    for p in parts:
        if p is None:
            out, d = shapes.unsqueeze(out, d), d + 1
        elif isinstance(p, slice):
            out, d = _sliced(out, d, p), d + 1
        else:
            out = shapes.select(out, d, _integer(p))
    return out


def _sliced(x: Tensor, d: int, part: slice) -> Tensor:
    extent = x.spec.shape[d]
    if part.step is not None and part.step <= 0:
        raise ValueError("step must be greater than zero")
    start, limit, stride = part.indices(extent)
    if (start, stride) == (0, 1) and limit == extent:
        return x
    return shapes.sliced(x, d, start, max(limit, start), stride)


def _integer(part: Any) -> int:
    if isinstance(part, bool) or not hasattr(part, "__index__") or (isinstance(part, Tensor) and part.ndim):
        raise ShapeError(
            f"indexing with {type(part).__name__} is not known yet",
            where=source.where(),
            todo="Use integers, slices, None or Ellipsis; choose elements with torch.where.",
        )
    return part.__index__()


def setitem(x: Tensor, index: Any, value: Operand) -> None:
    """Write `value`, broadcast, to the part of x that `index` names."""
    part = getitem(x, index)
    part.write(prepared(value, part.dtype, part.spec.shape))
