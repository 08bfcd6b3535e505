"""Gradients that are slices of a larger gradient: that of tensors joined by a concatenation, as optimizers make.

Recording, looking up and computing a slice node for each of thousands of tensors is slow, and usually these nodes are
not needed. So a slice becomes a node only when one is required.
"""

import math
from typing import Any

from lazytensor.ir.graph import Node, find, intern
from lazytensor.ir.types import Type, Where


class JoinedGradient:
    """The gradient of a concatenation along dimension `dim`, and the source location of the concatenation.

    - `node`: the gradient.
    - `dim`: the dimension.
    - `place`: the location.
    - `is_in_order`: whether the elements of each operand are contiguous (dim is 0).
    - `row`: the number of elements per index of the dimension.
    """

    __slots__ = ("dim", "is_in_order", "node", "place", "row")

    def __init__(self, node: Node, dim: int, place: Where):
        self.node, self.dim, self.place = node, dim, place
        self.is_in_order, self.row = not dim, math.prod(node.type.shape[dim + 1 :])


class GradientSlice:
    """The gradient of one operand of a concatenation: the slice of `of` from index `start` on, of the given type."""

    __slots__ = ("of", "start", "type")

    def __init__(self, of: JoinedGradient, start: int, type: Type):
        self.of, self.start, self.type = of, start, type

    def slice(self) -> Node:
        """Return the "slice" node, an existing one if there is an equal one.

        A new node has the source location of the concatenation.
        """
        # Not by `call`, which would infer the type and look up the line.
        g, dim, extents = self.of.node, self.of.dim, self.type.shape
        starts = tuple([self.start if d == dim else 0 for d in range(len(extents))])
        limits = tuple([self.start + e if d == dim else e for d, e in enumerate(extents)])
        attrs = {"starts": starts, "limits": limits, "strides": (1,) * len(extents)}
        key, part = find("slice", (g,), attrs)
        if part is None:
            part = intern(key, "slice", (g,), attrs, self.type)
            part.where, part.tracks = self.of.place, g.tracks
        return part


def materialize_slice(g: Any) -> Any:
    """Return a gradient as a node if it is a `GradientSlice`, and otherwise unchanged."""
    return g.slice() if g.__class__ is GradientSlice else g
