"""Gradients that are parts of a longer one: of what thousands of tensors were joined to, as an optimizer joins them.

A slice for each of them is a node to record, to look for and to compute, and mostly nobody asks for it as a node.
"""

import math
from typing import Any

from lazytensor.ir.graph import Node, find, intern
from lazytensor.ir.types import Type, Where


class JoinedGradient:
    """The gradient of tensors that were joined along a dimension, and the place of the line that joined them.

    `is_in_order`: their elements stand one behind the other, `row` of them for each place of the dimension.
    """

    __slots__ = ("dim", "is_in_order", "node", "place", "row")

    def __init__(self, node: Node, dim: int, place: Where):
        self.node, self.dim, self.place = node, dim, place
        self.is_in_order, self.row = not dim, math.prod(node.type.shape[dim + 1 :])


class GradientSlice:
    """The gradient of one of them: what begins at `start`."""

    __slots__ = ("of", "start", "type")

    def __init__(self, of: JoinedGradient, start: int, type: Type):
        self.of, self.start, self.type = of, start, type

    def slice(self) -> Node:
        """This piece as a node."""
        # Not by `call`, which would ask for the type and the line, which are known.
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
    """A gradient that is no piece."""
    return g.slice() if g.__class__ is GradientSlice else g
