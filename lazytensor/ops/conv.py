"""Convolution over any number of dimensions, and its two gradients.

`conv`, `conv_input` and `conv_weight` are the derivatives of one trilinear form. The gradient of each consists of the
other two, so that gradients of any order exist. A product is patches times weights: `im2col` and one BLAS call per
group.
"""

import math
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lazytensor.cirh.layers import convolution
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type, Work
from lazytensor.ops.op import call, op
from lazytensor.ops.shape import slice_

Dims = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def output_extents(extents: Dims, kernel: Dims, stride: Dims, padding: Pairs, dilation: Dims) -> Dims:
    """Return how often a window of `kernel` taps fits into each padded extent: the spatial shape of a convolution's
    result.

    Raise ShapeError if the window does not fit once.
    """
    padded = tuple(e + low + high for e, (low, high) in zip(extents, padding, strict=True))
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    if any(r > p for r, p in zip(reach, padded, strict=True)):
        raise ShapeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
            f"({' x '.join(map(str, reach))}). Kernel size can't be greater than actual input size",
            hint="Use a smaller kernel, more padding or a larger input.",
        )
    return tuple((p - r) // s + 1 for p, r, s in zip(padded, reach, stride, strict=True))


def _conv_type(x: Type, w: Type, *, stride: Dims, padding: Pairs, dilation: Dims, groups: int) -> Type:
    """Infer rule of a convolution: x [N, C, ...] and w [out, C / groups, ...] give [N, out, ...].

    Raise ShapeError for different ranks or dtypes, for channels that do not match `groups`, and for a window that is
    larger than the padded input.
    """
    if len(x.shape) != len(w.shape) or x.dtype is not w.dtype:
        raise ShapeError(
            f"the input {x} and the weight {w} do not have the same rank and dtype",
            hint="Reshape or convert one of them.",
        )
    if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ShapeError(
            f"Given groups={groups}, weight of size {list(w.shape)}, expected input{list(x.shape)} to have "
            f"{w.shape[1] * groups} channels, but got {x.shape[1]} channels instead",
            hint="Pass an input [N, C, ...] and a weight [out, C / groups, ...], where groups divides out.",
        )
    spatial = output_extents(x.shape[2:], w.shape[2:], stride, padding, dilation)
    # Batch and channels come first in every layout, followed by any number of spatial dimensions.
    return Type((x.shape[0], w.shape[0], *spatial), x.dtype)


def unpadded_index(extents: Dims, padding: Pairs) -> Any:
    """Return an index of the last dimensions that selects the elements without their padding."""
    return (..., *(slice(low, low + e) for e, (low, _) in zip(extents, padding, strict=True)))


def pad_array(x: np.ndarray, padding: Pairs, value: Any = 0) -> np.ndarray:
    """Return x with padding of `value` around its last dimensions. Without padding, return x itself."""
    if not any(low or high for low, high in padding):
        return x
    lead = x.ndim - len(padding)
    around = [e + low + high for e, (low, high) in zip(x.shape[lead:], padding, strict=True)]
    out = np.full((*x.shape[:lead], *around), value, x.dtype)
    out[unpadded_index(x.shape[lead:], padding)] = x
    return out


def _patches(x: np.ndarray, kernel: Dims, out: Dims, groups: int, attrs: dict[str, Any]) -> np.ndarray:
    """Return a copy of the elements under the window at each position: [N, groups, C / groups * taps, positions].

    `kernel` is the spatial shape of the weight, `out` that of the result. `attrs` has stride, padding and dilation.
    """
    x = pad_array(x, attrs["padding"])
    steps = x.strides[2:]
    taps = tuple(s * d for s, d in zip(steps, attrs["dilation"], strict=True))
    moves = tuple(s * t for s, t in zip(steps, attrs["stride"], strict=True))
    # Two strides per dimension: between taps of a window, and between windows.
    windows = as_strided(x, (*x.shape[:2], *kernel, *out), (*x.strides[:2], *taps, *moves), writeable=False)
    # This reshape copies the view into patches: channel by channel, then tap by tap, in the order of the weights.
    rows = x.shape[1] // groups * math.prod(kernel)
    return windows.reshape(x.shape[0], groups, rows, math.prod(out))


def _reshape_to_groups(w: np.ndarray, groups: int) -> np.ndarray:
    """Return a weight as [groups, out / groups, C / groups * taps]."""
    return w.reshape(groups, w.shape[0] // groups, math.prod(w.shape[1:]))


def _conv(x: np.ndarray, w: np.ndarray, *, groups: int, **attrs: Any) -> np.ndarray:
    out = output_extents(x.shape[2:], w.shape[2:], attrs["stride"], attrs["padding"], attrs["dilation"])
    columns = _patches(x, w.shape[2:], out, groups, attrs)
    return np.asarray(np.matmul(_reshape_to_groups(w, groups), columns).reshape(x.shape[0], w.shape[0], *out))


def _conv_input(g: np.ndarray, w: np.ndarray, *, extents: Dims, groups: int, **attrs: Any) -> np.ndarray:
    """Return the gradient of the input, which has the spatial shape `extents`. This is also a transposed convolution.

    Each element of g, times the weight, is added to the input elements under its window.
    """
    n, kernel, out = g.shape[0], w.shape[2:], g.shape[2:]
    places = g.reshape(n, groups, g.shape[1] // groups, math.prod(out))
    columns = np.matmul(_reshape_to_groups(w, groups).swapaxes(1, 2), places)
    columns = columns.reshape(n, w.shape[1] * groups, *kernel, *out)
    # The extents are an attribute, because with a stride inputs of different extents give the same shape of g.
    around = tuple(e + low + high for e, (low, high) in zip(extents, attrs["padding"], strict=True))
    # Build the result with its padding and cut it off at the end, so that products in the padding need no special case.
    total = np.zeros((n, w.shape[1] * groups, *around), g.dtype)
    # One addition per tap: within a tap no two places of g reach the same element, so += is correct.
    for tap in product(*map(range, kernel)):
        total[tap_index(tap, out, attrs["stride"], attrs["dilation"])] += columns[(slice(None), slice(None), *tap)]
    return np.ascontiguousarray(total[unpadded_index(extents, attrs["padding"])])


def tap_index(tap: Dims, out: Dims, stride: Dims, dilation: Dims) -> Any:
    """Return the index, an ellipsis and slices, of the elements that one tap of the window reads at all positions.

    It indexes the padded array. `tap` is the position within the window, and `out` the spatial shape of the result.
    """
    starts = [t * d for t, d in zip(tap, dilation, strict=True)]
    sizes = zip(starts, out, stride, strict=True)
    # The limit is one past the last element used, not a stride past it, because the array may end there.
    return (..., *(slice(a, a + (o - 1) * s + 1 if o else a, s) for a, o, s in sizes))


def _conv_weight(x: np.ndarray, g: np.ndarray, *, kernel: Dims, groups: int, **attrs: Any) -> np.ndarray:
    """Return the gradient of the weight, [out, C / groups, *kernel]: products of patches of x and the gradient g,
    summed over samples.
    """
    n, out = g.shape[0], g.shape[2:]
    columns = _patches(x, kernel, out, groups, attrs)
    places = g.reshape(n, groups, g.shape[1] // groups, math.prod(out))
    # One product per sample, then a sum: one product over all samples would have to copy the patches again.
    total = np.matmul(places, columns.swapaxes(2, 3)).sum(0, dtype=x.dtype)
    return np.asarray(total.reshape(g.shape[1], x.shape[1] // groups, *kernel))


def _conv_vjp(g: Node, y: Node, x: Node, w: Node, **attrs: Any) -> tuple[Node | None, Node | None]:
    # Skip the gradient of an input that does not track: it would cost as much as that of the weight.
    dx = call("conv_input", g, w, extents=x.type.shape[2:], **attrs) if x.tracks else None
    dw = call("conv_weight", x, g, kernel=w.type.shape[2:], **attrs) if w.tracks else None
    return dx, dw


def _transposed_vjp(gg: Node, y: Node, x: Node, w: Node, *, extents: Dims, **attrs: Any) -> tuple[Node, Node]:
    """Return the gradients (input, weight) of a transposed convolution, as CIRH's separate operations for it."""
    dx = call("conv_transposed_input", gg, w, **attrs)
    if dx.type.shape != x.type.shape:  # extents above the smallest: the last windows belong to no element of x
        dx = slice_(dx, (0,) * len(x.type.shape), x.type.shape)
    return dx, call("conv_transposed_weight", gg, x, kernel=w.type.shape[2:], **attrs)


def _conv_input_vjp(gg: Node, y: Node, g: Node, w: Node, *, extents: Dims, **attrs: Any) -> tuple[Node, Node]:
    dg = call("conv", gg, w, **attrs)
    if dg.type.shape != g.type.shape:  # extents above the smallest: the last windows belong to no element of g
        dg = slice_(dg, (0,) * len(g.type.shape), g.type.shape)
    return dg, call("conv_weight", gg, g, kernel=w.type.shape[2:], **attrs)


def _conv_weight_vjp(gg: Node, y: Node, x: Node, g: Node, *, kernel: Dims, **attrs: Any) -> tuple[Node, Node]:
    # In the trilinear form (input, weight, result), each derivative is computed from the other two.
    return call("conv_input", g, gg, extents=x.type.shape[2:], **attrs), call("conv", x, gg, **attrs)


def _input_type(g: Type, w: Type, *, extents: Dims, groups: int, **attrs: Any) -> Type:
    """Infer rule of the input's gradient: g [N, out, ...] and w [out, C / groups, ...] give [N, C, *extents].

    Raise ShapeError for different ranks or dtypes, and for channels that do not match the weight and `groups`. The
    spatial extents are not checked.
    """
    if len(g.shape) != len(w.shape) or g.dtype is not w.dtype or g.shape[1] != w.shape[0] or w.shape[0] % groups:
        raise ShapeError(
            f"Given transposed=1, weight of size {list(w.shape)}, expected input{list(g.shape)} to have {w.shape[0]} "
            f"channels, but got {g.shape[1]} channels instead",
            hint=(
                "Pass an input [N, C, ...] and a weight [C, out / groups, ...] of the same dtype, where groups "
                "divides C."
            ),
        )
    return Type((g.shape[0], w.shape[1] * groups, *extents), g.dtype)


def _work(out: Type, a: Type, b: Type, **attrs: Any) -> Work:
    """Return the work of a convolution or of one of its gradients: two flops per multiplication, and the bytes.

    An attribute "kernel" means the gradient of the weight, "extents" that of the input, and neither the convolution.
    """
    # The three operations share this rule and are distinguished by their attributes.
    if "kernel" in attrs:
        products = b.size * math.prod(out.shape[1:])
    else:
        products = (a.size if "extents" in attrs else out.size) * math.prod(b.shape[1:])
    return Work(2 * products, a.nbytes + b.nbytes, out.nbytes)


def _weight_type(x: Type, g: Type, *, kernel: Dims, groups: int, **attrs: Any) -> Type:
    return Type((g.shape[1], x.shape[1] // groups, *kernel), x.dtype)


def _decompose_conv_transpose(x: Node, w: Node, **attrs: Any) -> Node:
    return call("conv_input", x, w, **attrs)


op(
    "conv",
    _conv_type,
    _conv,
    vjp=_conv_vjp,
    work=_work,
    cirh=convolution("FWD"),
    gradient_name="Convolution",
)
op("conv_input", _input_type, _conv_input, vjp=_conv_input_vjp, work=_work, cirh=convolution("BWD_INPUT", True))
# The transposed convolution as a layer: CIRH distinguishes it from the backward pass of a convolution.
op(
    "conv_transposed",
    _input_type,
    _conv_input,
    vjp=_transposed_vjp,
    work=_work,
    composite=_decompose_conv_transpose,
    cirh=convolution("FWD", True),
    gradient_name="Convolution",
)
op(
    "conv_weight",
    _weight_type,
    _conv_weight,
    vjp=_conv_weight_vjp,
    work=_work,
    cirh=convolution("BWD_KERNEL"),
)
op(
    "conv_transposed_input",
    _conv_type,
    _conv,
    vjp=_conv_vjp,
    work=_work,
    composite=lambda g, w, **attrs: call("conv", g, w, **attrs),
    cirh=convolution("BWD_INPUT"),
)
op(
    "conv_transposed_weight",
    _weight_type,
    _conv_weight,
    vjp=_conv_weight_vjp,
    work=_work,
    composite=lambda g, x, **attrs: call("conv_weight", g, x, **attrs),
    cirh=convolution("BWD_KERNEL", True),
)
