"""Average pooling and its gradient."""

import math
from typing import Any

import numpy as np

from lazytensor.ir.graph import Node
from lazytensor.ir.operation import elementwise_work, legal_by_decomposition
from lazytensor.ir.types import Type
from lazytensor.ops.cirh_windows import call_in_3d
from lazytensor.ops.conv import Dims, Pairs
from lazytensor.ops.formula import composite
from lazytensor.ops.op import call, const
from lazytensor.ops.shape import broadcast_to


def _count_window_elements(
    extents: Dims, *, kernel: Dims, stride: Dims, padding: Pairs, around: Dims, include_pad: bool
) -> Any:
    """Return an int64 array with the number of elements that each window counts, of the shape of the windows.

    `extents` is the spatial shape of the input, and `around` PyTorch's padding of each dimension. With `include_pad`,
    elements of that padding count. Further elements of `padding`, which ceil_mode adds, never count.
    """
    # A window is a product of intervals, so its count is the outer product of one vector per dimension.
    counts = np.ones((), np.int64)
    for e, k, s, pair, p in zip(extents, kernel, stride, padding, around, strict=True):
        # The start of each window, relative to the first element that is not padding.
        starts = np.arange(0, e + sum(pair) - k + 1, s) - p
        # `pair` may exceed `around`: ceil_mode adds elements at the end, which PyTorch never counts.
        low, high = (-p, e + p) if include_pad else (0, e)
        counts = np.multiply.outer(counts, np.minimum(starts + k, high) - np.maximum(starts, low))
    return counts


def _divide_by_counts(total: Node, extents: Dims, divisor: int | None, window: dict[str, Any]) -> Node:
    """Return each window's total divided by its number of elements, or by `divisor` if it is not None.

    `extents` is the spatial shape of the pooled input, and `window` has the arguments of `_count_window_elements`.
    """
    counts = _count_window_elements(extents, **window)
    # One number divides all totals if every window has the same count.
    if divisor is not None or (counts.size and counts.min() == counts.max()):
        return total / (divisor or int(counts.flat[0]))
    dtype = total.type.dtype
    return total / broadcast_to(const(counts.astype(dtype.host), Type(counts.shape, dtype)), total.type.shape)


def _sum_window(window: dict[str, Any]) -> dict[str, Any]:
    return {k: window[k] for k in ("kernel", "stride", "padding")}


def pooled_shape(shape: Dims, *, kernel: Dims, stride: Dims, padding: Pairs, **_: Any) -> Dims:
    """Return the shape of the result of pooling windows over the last dimensions of `shape`.

    Each of these dimensions becomes (extent + padding - kernel) // stride + 1. Other keyword arguments are ignored;
    there is no dilation.
    """
    lead = len(shape) - len(kernel)
    sizes = zip(shape[lead:], kernel, stride, padding, strict=True)
    return (*shape[:lead], *((e + low + high - k) // s + 1 for e, k, s, (low, high) in sizes))


def average(x: Node, *, divisor: int | None = None, **window: Any) -> Node:
    """Return the mean of x under each window.

    `padding` is the padding in effect, and `around` the padding that the script requested (ceil_mode adds more). The
    sum is divided by `divisor` if it is not None, and else by the number of elements, which counts `around` with
    `include_pad`.
    """
    total = call("window_sum", x, **_sum_window(window))
    return _divide_by_counts(total, x.type.shape[-len(window["kernel"]) :], divisor, window)


def _average_gradient(x: Node, g: Node, *, divisor: int | None = None, **window: Any) -> Node:
    extents = x.type.shape[-len(window["kernel"]) :]
    # Divide before spreading: there are fewer windows than elements, and the count belongs to the window.
    return call("window_spread", _divide_by_counts(g, extents, divisor, window), extents=extents, **_sum_window(window))


def _work(out: Type, x: Type, *, kernel: Dims, **window: Any) -> Any:
    return elementwise_work(math.prod(kernel))(out, x)


_DIVISOR_HINT = "Remove divisor_override and scale the result, and add a batch dimension."


def _average_in_3d(x: Node, *, divisor: int | None, **window: Any) -> Node | None:
    # CIRH's Pool divides by the window and has no attribute for another number.
    if divisor is not None:
        return None
    return call_in_3d("pool_average", len(window["kernel"]), pooled_shape(x.type.shape, **window), x, **window)


def _average_gradient_in_3d(x: Node, g: Node, *, divisor: int | None, **window: Any) -> Node | None:
    rank = len(window["kernel"])
    return None if divisor is not None else call_in_3d("pool_average_grad", rank, x.type.shape, x, g, **window)


composite(
    "avg_pool",
    average,
    lambda x, **window: Type(pooled_shape(x.shape, **window), x.dtype),
    vjp=lambda g, y, x, **window: (call("avg_pool_grad", x, g, **window),),
    work=_work,
    cirh=legal_by_decomposition(_average_in_3d, _DIVISOR_HINT),
)
# The values of x are not used; CIRH takes x for its extents.
composite(
    "avg_pool_grad",
    _average_gradient,
    lambda x, g, **window: x,
    work=lambda out, x, g, *, kernel, **window: elementwise_work(math.prod(kernel))(g, out),
    cirh=legal_by_decomposition(_average_gradient_in_3d, _DIVISOR_HINT),
)
