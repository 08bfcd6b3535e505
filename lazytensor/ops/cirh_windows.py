"""Lower pooling windows to CIRH, where they always have three dimensions: missing ones are inserted and
removed again.
"""

from typing import Any

from lazytensor.ir.graph import Node
from lazytensor.ops.op import call
from lazytensor.ops.shape import Dims, reshape

Window = dict[str, Any]
NEUTRAL_WINDOW = {"kernel": 1, "stride": 1, "padding": (0, 0), "dilation": 1, "around": 0}
"""A window's attributes for an inserted dimension."""


def _to_3d(x: Node, rank: int) -> Node:
    """Return x [N, C, ...] with `rank` spatial dimensions as [N, C, D, H, W].

    Dimensions of extent 1 are inserted before the spatial ones, one reshape for each.
    """
    for k in range(rank, 3):
        lead = len(x.type.shape) - k
        x = reshape(x, (*x.type.shape[:lead], 1, *x.type.shape[lead:]))
    return x


def _from_3d(y: Node, shape: Dims, rank: int) -> Node:
    for k in range(3, rank, -1):
        lead = len(y.type.shape) - k
        y = reshape(y, (*y.type.shape[:lead], *y.type.shape[lead + 1 :]))
    return reshape(y, shape)


def _window_3d(window: Window) -> Window:
    """Return the window's attributes for three dimensions."""
    return {k: (NEUTRAL_WINDOW[k],) * (3 - len(v)) + v if k in NEUTRAL_WINDOW else v for k, v in window.items()}


def call_in_3d(name: str, rank: int, shape: Dims, *xs: Node, **window: Any) -> Node | None:
    """Return the operation `name` over [N, C, ...] with `rank` window dimensions, computed in 3d and reshaped to
    `shape`.

    Missing dimensions get a window of 1, without stride or padding. Return None if an operand has no batch dimension.
    """
    # A window without a batch dimension is refused, with a hint to add one.
    if any(len(x.type.shape) != rank + 2 for x in xs):
        return None
    y = call(name, *(_to_3d(x, rank) for x in xs), **_window_3d(window))
    return _from_3d(y, shape, rank)


def _find_window_argmax(places: Node) -> Node | None:
    """Return the `window_argmax` node of which `places` is a reshape, or None."""
    while places.op == "reshape":
        places = places.inputs[0]
    return places if places.op == "window_argmax" else None


def pool_max(flat: Node, places: Node) -> Node | None:
    """Return a read of `flat` at the indices `places` as max pooling, or None if that is not possible.

    The indices must be those of window maxima of the same elements, and these must have a batch dimension. The result
    has the shape of `places`.
    """
    argmax = _find_window_argmax(places)
    if argmax is None:
        return None
    (x,) = argmax.inputs
    # The indices must refer to the elements that are read. Nodes are interned, so compare by identity.
    if reshape(x, flat.type.shape) is not flat:
        return None
    rank = len(argmax.attrs["kernel"])
    pooled = call_in_3d("pool_max", rank, argmax.type.shape, x, **argmax.attrs)
    return reshape(pooled, places.type.shape) if pooled is not None else None


def pool_max_gradient(g: Node, places: Node, *, extent: int, accumulate: bool) -> Node | None:
    """Return `g` added at the indices of window maxima as the gradient of max pooling.

    Return None if `places` are other indices, if values are set rather than accumulated, or if there is no batch
    dimension. `extent` is the number of elements of a flattened image, and the last extent of the result.
    """
    argmax = _find_window_argmax(places)
    if argmax is None or not accumulate:
        return None
    (x,) = argmax.inputs
    rank, shape = len(argmax.attrs["kernel"]), x.type.shape
    # Undo the flattening of the gradient: the window needs its original shape.
    before = g.inputs[0] if g.op == "reshape" else g
    spread = before if before.type.shape == argmax.type.shape else reshape(g, argmax.type.shape)
    dx = call_in_3d("pool_max_grad", rank, shape, x, spread, **argmax.attrs)
    return reshape(dx, (*g.type.shape[:-1], extent)) if dx is not None else None
