"""Random phase programs: every leaf alone, and the compositions that the closed forms are held to.

Parts at the same time stand on rectangles of their own, or are local work beside the moves of a product: along each
axis a broadcast or a shift by one place into words of its own, or a reduction of one step, of at least 16 words beside
vectors of at least 8 elements: with fewer, single cycles of who starts first are a tenth of the time.
"""

from dataclasses import replace

from hypothesis import strategies as st

from wse_sim.isa.core_program import LoopEnd, LoopStart, Memory, Vector
from wse_sim.layout import Rect
from wse_sim.phase import (
    REDUCTIONS,
    AllReduce,
    Broadcast,
    Compute,
    Local,
    Par,
    Phase,
    Reduce,
    Repeat,
    Seq,
    Shift,
    Stream,
)

MEMORY_WORDS = 2100
BLOCK = 400  # words that a part of several has for itself
FEW = 16
words = st.one_of(st.integers(1, 12), st.integers(1, BLOCK // 2))
many = st.integers(FEW, BLOCK // 2)


@st.composite
def rects(draw, side: int) -> Rect:
    return Rect(
        draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(st.integers(1, side)), draw(st.integers(1, side))
    )


def length_of(rect: Rect, axis: str, groups: int = 1) -> int:
    return {"x": rect.width, "y": rect.height, "xy": rect.area}[axis] // groups


@st.composite
def shifts(draw, rect: Rect, axes: str = "xy", hops: int = 3, at: int = 0, counts=words) -> Shift:
    """Lines that are closed to a ring turn by one place; beside others only folded ones are."""
    wrap = draw(st.sampled_from(["", "folded", *["line"] * (not at)]))
    far = draw(st.integers(1, 1 if wrap else hops)) * draw(st.sampled_from([1, -1]))
    put = at + (BLOCK // 2 if draw(st.booleans()) or at else 0)
    return Shift(rect, draw(st.sampled_from(axes)), draw(counts), far, wrap, at, put)


@st.composite
def lined(draw, rect: Rect, axes: tuple[str, ...] = ("x", "y", "xy"), counts=words):
    """An axis, words and a number of groups."""
    axis = draw(st.sampled_from(axes))
    groups = 1 if axis == "xy" else draw(st.sampled_from([1, 1, draw(st.integers(1, length_of(rect, axis)))]))
    return rect, axis, draw(counts), groups


@st.composite
def broadcasts(draw, rect: Rect, axes: tuple[str, ...] = ("x", "y", "xy"), at: int = 0, counts=words) -> Broadcast:
    rect, axis, count, groups = draw(lined(rect, axes, counts))
    source = draw(st.integers(0, length_of(rect, axis, groups) - 1))
    return Broadcast(rect, axis, count, groups, source, at, at or draw(st.sampled_from([0, BLOCK // 2])))


@st.composite
def reductions(draw, kind, rect: Rect) -> Reduce | AllReduce:
    names = ["", *REDUCTIONS] + ["ring"] * (kind is AllReduce)
    name = draw(st.sampled_from(names))
    size = draw(st.integers(0, 9)) if name == "two_phase" else 0
    dtype, combine = draw(st.sampled_from(["float32", "float16", "bfloat16"])), draw(st.sampled_from(["add", "max"]))
    return kind(*draw(lined(rect)), name, size, 0, dtype, combine)


@st.composite
def streams(draw, rect: Rect) -> Stream:
    share = draw(st.integers(1, 60))
    total = 4 * rect.area * share - draw(st.integers(0, 3 * max(rect.width, rect.height)))
    return Stream(replace(rect, x=rect.x + 1, y=rect.y + 1), total, draw(st.sampled_from(["in", "out"])))


@st.composite
def computes(draw, rect: Rect, shortest: int = 0) -> Compute:
    op = draw(st.sampled_from(["fma", "add", "move", "special"]))
    count, length, size = draw(st.integers(1, 60)), draw(st.integers(shortest, 60)), draw(st.sampled_from([2, 4, 8]))
    scalar = draw(st.sampled_from([0, 1, 10, 33])) if length else draw(st.integers(1, 40))
    return Compute(rect, op, count, length, size, scalar, draw(st.sampled_from([1, 2])))


@st.composite
def locals_(draw, rect: Rect, shortest: int = 1) -> Local:
    """A loop over multiply-adds, rows of a tile for example."""
    length = draw(st.integers(max(1, shortest), 40))
    a, b = Memory(1500 + draw(st.integers(0, 3)), steps=(length,)), Memory(1600)
    vector = Vector("fmac", (b, a, 2.0, b), length)
    return Local(rect, (LoopStart(draw(st.integers(1, 12))), *(vector,) * draw(st.integers(1, 4)), LoopEnd()))


def local_works(rect: Rect, shortest: int = 0) -> st.SearchStrategy[Phase]:
    return st.one_of(computes(rect, shortest), locals_(rect, shortest))


@st.composite
def leaves(draw, rect: Rect, hops: int = 3) -> Phase:
    kinds = [
        shifts(rect, hops=hops),
        broadcasts(rect),
        reductions(Reduce, rect),
        reductions(AllReduce, rect),
        streams(rect),
    ]
    return draw(st.one_of(*kinds, local_works(rect)))


@st.composite
def apart(draw, side: int) -> Par:
    """Two leaves beside each other.

    Shifts that share their links are left out: who goes first there depends on the number of colours of the whole mesh.
    """
    left = Rect(0, 1, draw(st.integers(1, side // 2)), draw(st.integers(1, side)))
    right = Rect(side // 2 + 3, 1, draw(st.integers(1, side // 2)), draw(st.integers(1, side)))
    return Par((draw(leaves(left, 1)), draw(leaves(right, 1))))


@st.composite
def beside_work(draw, side: int) -> Par:
    """Local work, and moves on the same cores: along each axis a broadcast or a shift, or one reduction."""
    rect = draw(rects(side))
    moves: list[Phase] = []
    if draw(st.booleans()):
        name = draw(st.sampled_from(["chain", "star"]))
        moves.append(Reduce(*draw(lined(rect, ("x", "y"), many)), name))
    else:
        for i, axis in enumerate(draw(st.sampled_from(["x", "y", "xy"]))):
            at = (i + 1) * BLOCK
            moves.append(draw(st.one_of(shifts(rect, axis, 1, at, many), broadcasts(rect, (axis,), at, many))))
    return Par((*moves, draw(local_works(rect, FEW // 2))))


def programs(side: int) -> st.SearchStrategy[Phase]:
    """Programs on meshes of up to side x side PEs and a border for streams."""
    one = st.one_of(rects(side).flatmap(leaves), rects(side).flatmap(leaves), apart(side), beside_work(side))
    return st.recursive(
        one,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Seq(tuple(parts))),
            st.builds(Repeat, st.integers(1, 3), inner),
        ),
        max_leaves=3,
    )


@st.composite
def any_two_moves(draw, side: int) -> Par:
    rect = draw(rects(side))
    one, other = (draw(st.one_of(shifts(rect, at=at), broadcasts(rect, at=at))) for at in (BLOCK, 2 * BLOCK))
    third = Reduce(*draw(lined(rect)), draw(st.sampled_from(REDUCTIONS)))
    return Par((one, draw(st.sampled_from([other, third]))))
