"""Index maps: which element of a value an iteration of a loop nest needs, and how views change that.

A map is a tuple of groups. Each group covers neighbouring dimensions of the value (those of extent 1 are left out) and
holds their extents and the row-major index within them as an affine function of the loops. Merging dimensions keeps
affinity, splitting does not; so a reshape that splits only makes a group of several dimensions, and a map fails (None)
when a later view has to look inside such a group.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

from lazytensor.ir.graph import Node
from lazytensor.ir.nest import Access

Shape = tuple[int, ...]

IndexSpan = tuple[Shape, Access]
IndexMap = tuple[IndexSpan, ...]

# The layers of a deep net ask for few maps over and over, and hold them as one object each.
_memoize = lru_cache(maxsize=4096)


@_memoize
def identity(shape: Shape) -> IndexMap:
    """The map of a nest that has one loop for each dimension of `shape` longer than 1."""
    wide = [e for e in shape if e != 1]
    return tuple(((e,), Access(tuple(int(i == k) for i in range(len(wide))))) for k, e in enumerate(wide))


@_memoize
def flat_access(index: IndexMap, loops: int) -> Access:
    """The element of the contiguous value, as an access over `loops` loops."""
    total, step = Access((0,) * loops), 1
    # Row-major: the last span moves by single elements, each one before it by the size of all that follow.
    for extents, access in reversed(index):
        total = _add_scaled(total, access, step)
        for e in extents:
            step *= e
    return total


def _add_scaled(a: Access, b: Access, factor: int) -> Access:
    strides = tuple(x + factor * y for x, y in zip(a.strides, b.strides, strict=True))
    return Access(strides, a.offset + factor * b.offset)


def map_view_input(n: Node, index: IndexMap, loops: int) -> IndexMap | None:
    """The map of the input of a view `n`, given the map of its result; None if it is not affine."""
    source: Shape = n.inputs[0].type.shape
    if n.op == "reshape":
        return _reshape(index, source)
    if n.op == "slice":
        return _slice(index, source, loops, **n.attrs)
    return _VIEW_MAPPINGS[n.op](index, source, **n.attrs)


@_memoize
def _reshape(index: IndexMap, shape: Shape) -> IndexMap:
    """Cut both sides at the positions where their running products meet."""
    wide = [e for e in shape if e != 1]
    spans: list[IndexSpan] = []
    at = 0
    # `have` elements of the map and `want` of the shape are walked through since the last cut. Where the products meet,
    # a span ends: what lies between is one row-major index, whichever way either side divides it.
    pending: Access | None = None
    have = want = 1
    cut: list[int] = []
    for extents, access in index:
        size = _size(extents)
        pending = access if pending is None else _add_scaled(access, pending, size)
        have *= size
        # Grow whichever side is behind: extents of the shape here, spans of the map by the outer loop.
        while want < have:
            cut.append(wide[at])
            want *= wide[at]
            at += 1
        if want == have:
            spans.append((tuple(cut), pending))
            pending, cut, have, want = None, [], 1, 1
    return tuple(spans)


def _size(extents: Shape) -> int:
    size = 1
    for e in extents:
        size *= e
    return size


def _positions(index: IndexMap, shape: Shape) -> list[tuple[int, ...]]:
    """The dimensions of `shape` that each group covers."""
    wide = iter(d for d, e in enumerate(shape) if e != 1)
    return [tuple(next(wide) for _ in extents) for extents, _ in index]


@_memoize
def _broadcast(index: IndexMap, source: Shape, *, shape: Shape, dims: Shape) -> IndexMap | None:
    kept = {d for i, d in enumerate(dims) if source[i] != 1}
    # Dimensions out of order would be a transpose as well; such a broadcast gets a buffer.
    if list(dims) != sorted(dims):
        return None
    spans = []
    for span, covered in zip(index, _positions(index, shape), strict=True):
        # A dimension that is repeated is left out of the map: every iteration along it reads the same element. A span
        # that is repeated in part only cannot be taken apart.
        inside = [d in kept for d in covered]
        if all(inside):
            spans.append(span)
        elif any(inside):
            return None
    return tuple(spans)


@_memoize
def _transpose(index: IndexMap, source: Shape, *, permutation: Shape) -> IndexMap | None:
    shape = tuple(source[p] for p in permutation)
    wide = [d for d, e in enumerate(source) if e != 1]
    placed: list[tuple[int, IndexSpan]] = []
    for span, covered in zip(index, _positions(index, shape), strict=True):
        # A span of several dimensions can move only as one block that keeps its order.
        ranks = [wide.index(permutation[d]) for d in covered]
        if ranks != list(range(ranks[0], ranks[0] + len(ranks))):
            return None
        placed.append((ranks[0], span))
    return tuple(span for _, span in sorted(placed, key=lambda item: item[0]))


@_memoize
def _slice(
    index: IndexMap, source: Shape, loops: int, *, starts: Shape, limits: Shape, strides: Shape
) -> IndexMap | None:
    shape = tuple(max(0, -(-(e - s) // t)) for s, e, t in zip(starts, limits, strides, strict=True))
    spans: dict[int, IndexSpan] = {}
    for (extents, access), covered in zip(index, _positions(index, shape), strict=True):
        # An affine step within one dimension stays affine: i becomes start + stride * i.
        if len(covered) == 1:
            d = covered[0]
            moved = Access(tuple(s * strides[d] for s in access.strides), access.offset * strides[d] + starts[d])
            spans[d] = ((source[d],), moved)
        # A full slice cuts nothing, whatever the span looks like inside.
        elif all(shape[d] == source[d] for d in covered):
            spans[covered[0]] = (extents, access)
        else:
            return None
    # A dimension cut down to one element has no span in the map of the result; in the source its place is fixed.
    for d in (d for d, e in enumerate(source) if shape[d] == 1 and e != 1):
        spans[d] = ((source[d],), Access((0,) * loops, starts[d]))
    return tuple(spans[d] for d in sorted(spans))


_VIEW_MAPPINGS: Mapping[str, Callable[..., IndexMap | None]] = {"broadcast_in_dim": _broadcast, "transpose": _transpose}
MOVEMENT_OPS = ("reshape", "slice", *_VIEW_MAPPINGS)
