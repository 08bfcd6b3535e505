"""Windows and convolutions on the way to CIRH, whose windows always have three dimensions."""

from collections.abc import Callable, Mapping
from typing import Any

from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops.average import pooled
from lazytensor.ops.conv import Dims
from lazytensor.ops.shape import reshape

Lowering = Callable[..., Node | None]
Window = dict[str, Any]
ALONE = {"kernel": 1, "stride": 1, "padding": (0, 0), "dilation": 1, "around": 0}
"""A window's attributes for a dimension that was not there."""


def _volume(x: Node, rank: int) -> Node:
    """[N, C, ...] as [N, C, D, H, W], a dimension at a time."""
    for k in range(rank, 3):
        lead = len(x.type.shape) - k
        x = reshape(x, (*x.type.shape[:lead], 1, *x.type.shape[lead:]))
    return x


def _from_volume(y: Node, shape: Dims, rank: int) -> Node:
    for k in range(3, rank, -1):
        lead = len(y.type.shape) - k
        y = reshape(y, (*y.type.shape[:lead], *y.type.shape[lead + 1 :]))
    return reshape(y, shape)


def _window(window: Window) -> Window:
    """The attributes for three dimensions."""
    return {k: (ALONE[k],) * (3 - len(v)) + v if k in ALONE else v for k, v in window.items()}


def _in_volume(name: str, rank: int, shape: Dims, *xs: Node, **window: Any) -> Node | None:
    if any(len(x.type.shape) != rank + 2 for x in xs):
        return None
    y = call(name, *(_volume(x, rank) for x in xs), **_window(window))
    return _from_volume(y, shape, rank)


def _without_reshape(n: Node) -> Node:
    while n.op == "reshape":
        n = n.inputs[0]
    return n


def _max_pool(flat: Node, places: Node) -> Node | None:
    """What is read at the places of the largest elements is the largest elements."""
    found = _without_reshape(places)
    if found.op != "window_argmax":
        return None
    (x,) = found.inputs
    lowest = reshape(x, flat.type.shape)
    if lowest is not flat:
        return None
    rank = len(found.attrs["kernel"])
    pooled = _in_volume("pool_max", rank, found.type.shape, x, **found.attrs)
    return reshape(pooled, places.type.shape) if pooled is not None else None


def _max_pool_grad(g: Node, places: Node, *, extent: int, accumulate: bool) -> Node | None:
    found = _without_reshape(places)
    if found.op != "window_argmax" or not accumulate:
        return None
    (x,) = found.inputs
    rank, shape = len(found.attrs["kernel"]), x.type.shape
    sent = reshape(g, found.type.shape)
    made = _in_volume("pool_max_grad", rank, shape, x, sent, **found.attrs)
    return reshape(made, (*g.type.shape[:-1], extent)) if made is not None else None


def _avg_pool(x: Node, *, divisor: int | None, **window: Any) -> Node | None:
    if divisor is not None:
        return None
    return _in_volume("pool_average", len(window["kernel"]), pooled(x.type.shape, **window), x, **window)


def _avg_pool_grad(x: Node, g: Node, *, divisor: int | None, **window: Any) -> Node | None:
    rank = len(window["kernel"])
    return None if divisor is not None else _in_volume("pool_average_grad", rank, x.type.shape, x, g, **window)


WINDOWS: Mapping[str, Lowering] = {
    "at_places": _max_pool,
    "put_places": _max_pool_grad,
    "avg_pool": _avg_pool,
    "avg_pool_grad": _avg_pool_grad,
}
