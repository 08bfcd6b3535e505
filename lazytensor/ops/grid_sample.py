"""Sampling of images at coordinates, as torch.nn.functional.grid_sample.

A sample is a sum of pixels times weights, and the weights are products of one weight for each dimension. Sampling is
linear in the image, so that the gradient by the image is the transposed operation, and the gradient of that is sampling
again.
"""

import functools
import math
import operator
from itertools import product
from typing import Any

from lazytensor.core.dtype import int64
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import illegal_with_hint
from lazytensor.ir.types import Type, Work
from lazytensor.ops.elementwise import cast, where
from lazytensor.ops.formula import differentiate_formula, evaluate_formula
from lazytensor.ops.op import call, full, full_like, op
from lazytensor.ops.shape import Dims, broadcast_to, reshape, slice_

CUBIC_COEFFICIENT = -0.75
"""The parameter of the cubic kernel (Keys 1981) that PyTorch uses."""
_HINT = "Resample with F.interpolate, or compute the samples in the data loader."

Tap = tuple[Node, Node, Node]
"""Of one dimension: the index of a pixel, whether it is in the image, and its weight. The shape is that of the grid."""


def cubic_weights(t: Any) -> list[Any]:
    """Return the cubic kernel's weights of the four samples around a point.

    `t` is its distance from the second sample.
    """
    near = [((CUBIC_COEFFICIENT + 2) * u - (CUBIC_COEFFICIENT + 3)) * u * u + 1 for u in (t, 1 - t)]
    far = [
        ((CUBIC_COEFFICIENT * u - 5 * CUBIC_COEFFICIENT) * u + 8 * CUBIC_COEFFICIENT) * u - 4 * CUBIC_COEFFICIENT
        for u in (t + 1, 2 - t)
    ]
    return [far[0], near[0], near[1], far[1]]


def _pixel_coordinate(at: Node, extent: int, align_corners: bool) -> Node:
    """Return a coordinate from -1 to 1 as a pixel coordinate of a dimension."""
    return (at + 1) * ((extent - 1) / 2) if align_corners else (at + 1) * (extent / 2) - 0.5


def _moved_inside(at: Node, extent: int, padding_mode: str, align_corners: bool) -> Node:
    """Return pixel coordinates moved into the dimension by `padding_mode`; "zeros" leaves them unchanged.

    "border" limits them to 0 to `extent` - 1; there and outside the slope is 0. "reflection" first mirrors them at the
    ends: the centres of the outer pixels if `align_corners` is true, else their outer edges.
    """
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        low, high = (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)
        span = high - low
        if span > 0:
            # Reflection folds the coordinate: even spans count up, odd ones down.
            off = call("abs", at - low)
            turns = call("floor", off / span)
            rest = off - turns * span
            is_odd = call("eq", call("fmod", turns, full_like(2, turns)), full_like(1, turns))
            at = where(is_odd, span - rest, rest) + low
        else:
            at = at * 0
    top = full_like(extent - 1, at)
    return where(at > full_like(0, at), where(at < top, at, top), full_like(0, at))


def _tap(at: Node, extent: int, weight: Node) -> Tap:
    """Return the tap at the whole pixel coordinates `at`."""
    is_inside = call("logical_and", at >= full_like(0, at), at <= full_like(extent - 1, at))
    # A pixel outside is read at 0 and its value replaced by 0, since every index has to be valid.
    return cast(where(is_inside, at, 0), int64), is_inside, weight


def _taps(at: Node, extent: int, mode: str, padding_mode: str, align_corners: bool) -> list[Tap]:
    """Return the taps of one dimension for its coordinates `at`, from -1 to 1.

    There are two taps, one if `mode` is "nearest", and four if it is "bicubic".
    """
    raw = _pixel_coordinate(at, extent, align_corners)
    if mode == "bicubic":
        # Each neighbour is moved into the image separately, not the coordinate.
        low = call("floor", raw)
        places = [_moved_inside(low + k, extent, padding_mode, align_corners) for k in range(-1, 3)]
        return [_tap(p, extent, w) for p, w in zip(places, cubic_weights(raw - low), strict=True)]
    inside = _moved_inside(raw, extent, padding_mode, align_corners)
    if mode == "nearest":
        # The nearest pixel is a step function of the grid, so the gradient by the grid is zero, not missing.
        return [_tap(call("round", inside), extent, inside * 0 + 1)]
    low = call("floor", inside)
    return [_tap(low, extent, low + 1 - inside), _tap(low + 1, extent, inside - low)]


def _sample_formula(x: Node, grid: Node, *, mode: str, padding_mode: str, align_corners: bool) -> Node:
    n, channels, *extents = x.type.shape
    out = grid.type.shape[1:-1]
    count = math.prod(out)
    flat = reshape(grid, (n, count, len(extents)))
    # The last dimension of the image has the first coordinate.
    axes = [reshape(slice_(flat, (0, 0, k), (n, count, k + 1)), (n, 1, count)) for k in reversed(range(len(extents)))]
    taps = [_taps(at, e, mode, padding_mode, align_corners) for at, e in zip(axes, extents, strict=True)]
    image = reshape(x, (n, channels, math.prod(extents)))
    wide = (n, channels, count)
    terms = []
    for corner in product(*taps):
        place = corner[0][0]
        for (index, _, _), extent in zip(corner[1:], extents[1:], strict=True):
            place = place * extent + index
        is_inside = functools.reduce(functools.partial(call, "logical_and"), [tap[1] for tap in corner])
        weight = functools.reduce(operator.mul, [tap[2] for tap in corner])
        value = where(broadcast_to(is_inside, wide), call("at_places", image, broadcast_to(place, wide)), 0)
        terms.append(value * broadcast_to(weight, wide))
    return reshape(functools.reduce(operator.add, terms), (n, channels, *out))


_by_operands = differentiate_formula(_sample_formula)


def _stand_in(n: Node, uid: int) -> Node:
    """Return a node with the value of `n` that tracks gradients."""
    # A uid below 1 belongs to no tensor.
    stand_in = call("variable", n, uid=uid)
    stand_in.tracks = True
    return stand_in


def _image_gradient(g: Node, grid: Node, *, extents: Dims, **modes: Any) -> Node:
    shape = (*g.type.shape[:2], *extents)
    image = _stand_in(full(0, Type(shape, g.type.dtype)), 0)
    total = _by_operands(g, g, image, grid, **modes)[0]
    assert total is not None
    return total


def _grid_gradient(g: Node, x: Node, grid: Node, **modes: Any) -> Node:
    at = grid if grid.tracks else _stand_in(grid, 0)
    total = _by_operands(g, g, x, at, **modes)[1]
    return full_like(0, grid) if total is None else total


def _sample_vjp(g: Node, y: Node, x: Node, grid: Node, **modes: Any) -> tuple[Node | None, Node | None]:
    extents = x.type.shape[2:]
    return (
        call("grid_sample_image_grad", g, grid, extents=extents, **modes) if x.tracks else None,
        call("grid_sample_grid_grad", g, x, grid, **modes) if grid.tracks else None,
    )


def _image_gradient_vjp(
    h: Node, y: Node, g: Node, grid: Node, *, extents: Dims, **modes: Any
) -> tuple[Node | None, Node | None]:
    return (
        call("grid_sample", h, grid, **modes) if g.tracks else None,
        call("grid_sample_grid_grad", g, h, grid, **modes) if grid.tracks else None,
    )


def _sample_type(x: Type, grid: Type, **modes: Any) -> Type:
    rank = len(x.shape) - 2
    if rank not in (2, 3) or len(grid.shape) != rank + 2 or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise ShapeError(f"a grid of {grid} does not fit the images {x}")
    return Type((*x.shape[:2], *grid.shape[1:-1]), x.dtype)


def _work(out: Type, *types: Type, mode: str, **attrs: Any) -> Work:
    """Count the taps: a multiplication and an addition for each."""
    grid = types[-1]
    taps = {"nearest": 1, "bilinear": 2, "bicubic": 4}[mode] ** grid.shape[-1]
    samples = types[0].shape[1] * grid.size // max(grid.shape[-1], 1)
    return Work(2 * taps * samples, sum(t.nbytes for t in types), out.nbytes)


op(
    "grid_sample",
    _sample_type,
    evaluate_formula(_sample_formula),
    vjp=_sample_vjp,
    work=_work,
    cirh=illegal_with_hint(_HINT),
    gradient_name="GridSampler",
)
op(
    # The gradient of grid_sample by the images [N, C, *extents], from that by the samples, `g`.
    "grid_sample_image_grad",
    lambda g, grid, *, extents, **modes: Type((*g.shape[:2], *extents), g.dtype),
    evaluate_formula(_image_gradient),
    vjp=_image_gradient_vjp,
    work=_work,
    cirh=illegal_with_hint(_HINT),
)
op(
    "grid_sample_grid_grad",
    lambda g, x, grid, **modes: grid,
    evaluate_formula(_grid_gradient),
    vjp=differentiate_formula(_grid_gradient),
    work=_work,
    cirh=illegal_with_hint(_HINT),
)
