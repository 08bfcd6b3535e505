"""Index maps: which element of a value an iteration of a loop nest reads, and how views change that.

A map is a tuple of spans. Each span covers neighbouring dimensions of the value (those of extent 1 are left out). It
holds their extents, and the row-major index within them as an affine function of the loops. Merging dimensions keeps
the index affine, splitting them does not: so a reshape that splits a dimension gives a span of several dimensions. A
map fails (None) if a later view has to address the dimensions within such a span.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

from lazytensor.ir.graph import Node
from lazytensor.ir.nest import Access

Shape = tuple[int, ...]

IndexSpan = tuple[Shape, Access]
IndexMap = tuple[IndexSpan, ...]

# The layers of a deep network need few distinct maps, so these are cached and shared.
_memoize = lru_cache(maxsize=4096)


@_memoize
def identity(shape: Shape) -> IndexMap:
    """Return the map of a nest with one loop for each dimension of `shape` other than 1: each loop is the index
    along it.
    """
    wide = [e for e in shape if e != 1]
    return tuple(((e,), Access(tuple(int(i == k) for i in range(len(wide))))) for k, e in enumerate(wide))


@_memoize
def flat_access(index: IndexMap, loops: int) -> Access:
    """Return the index of the element in the contiguous value, in row-major order, as an affine access over `loops`
    loops.
    """
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
    """Return the map of the input of a view `n`, given the map `index` of its result; None if it is not affine.

    `loops` is the number of loops of the nest. Raise KeyError for a node that is no view.
    """
    source: Shape = n.inputs[0].type.shape
    if n.op == "reshape":
        return _reshape(index, source)
    if n.op == "slice":
        return _slice(index, source, loops, **n.attrs)
    return _VIEW_MAPPINGS[n.op](index, source, **n.attrs)


@_memoize
def _reshape(index: IndexMap, shape: Shape) -> IndexMap:
    """Return the map of a reshape's input of the given shape.

    A span of the map covers dimensions with one common row-major index. It ends where the running products of the
    extents of both sides are equal.
    """
    wide = [e for e in shape if e != 1]
    spans: list[IndexSpan] = []
    at = 0
    # Since the last cut, `have` elements of the map and `want` of the shape were passed. A span ends where both are
    # equal: the elements in between have one row-major index, however either side divides them.
    pending: Access | None = None
    have = want = 1
    cut: list[int] = []
    for extents, access in index:
        size = _size(extents)
        pending = access if pending is None else _add_scaled(access, pending, size)
        have *= size
        # Advance the side that is behind: the shape here, the map in the outer loop.
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
    """Return for each span of the map the numbers of the dimensions of `shape` that it covers. Dimensions of 1 have
    no span.
    """
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
        # A broadcast dimension is left out of the map: every iteration along it reads the same element. A span that is
        # only partly broadcast cannot be split.
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
        # Within one dimension the index stays affine: i becomes start + stride * i.
        if len(covered) == 1:
            d = covered[0]
            moved = Access(tuple(s * strides[d] for s in access.strides), access.offset * strides[d] + starts[d])
            spans[d] = ((source[d],), moved)
        # A full slice changes nothing.
        elif all(shape[d] == source[d] for d in covered):
            spans[covered[0]] = (extents, access)
        else:
            return None
    # A dimension sliced to one element has no span in the result's map; in the source its index is constant.
    for d in (d for d, e in enumerate(source) if shape[d] == 1 and e != 1):
        spans[d] = ((source[d],), Access((0,) * loops, starts[d]))
    return tuple(spans[d] for d in sorted(spans))


_VIEW_MAPPINGS: Mapping[str, Callable[..., IndexMap | None]] = {"broadcast_in_dim": _broadcast, "transpose": _transpose}
MOVEMENT_OPS = ("reshape", "slice", *_VIEW_MAPPINGS)
"""Operations that only move elements. In a nest they change the index and need no arithmetic."""
