"""Hypothesis strategies for random phase programs: every leaf, and the compositions that closed forms are tested on.

Parts that run at the same time are on separate rectangles, or are local work with the moves of a product. Such moves
are, along each axis, a broadcast or a shift by one PE with separate words, or one reduction. They have at least 16
words and vectors at least 8 elements. With fewer, the order of starts, which is a matter of single cycles, is a tenth
of the time.
"""

from dataclasses import replace

from wse_sim.isa.core_program import LoopEnd, LoopStart, Memory, Vector
from wse_sim.layout import Rect
from wse_sim.phase import (
    REDUCTION_ALGORITHMS,
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

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as e:
    raise ModuleNotFoundError(
        "wse_sim.testing needs Hypothesis: pip install 'lazywafer[testing]'", name="hypothesis"
    ) from e

MEMORY_WORDS = 2100
"""Words of memory that a core needs for any program."""
PART_WORDS = 400
"""Words of memory for each of several concurrent parts."""
MIN_LARGE_WORDS = 16
"""Minimum number of words of a move with local work."""
CountStrategy = st.SearchStrategy[int]
word_counts = st.one_of(st.integers(1, 12), st.integers(1, PART_WORDS // 2))
large_word_counts = st.integers(MIN_LARGE_WORDS, PART_WORDS // 2)


@st.composite
def rects(draw: st.DrawFn, side: int) -> Rect:
    """Draw a rectangle of 1 to `side` PEs on each side, with its corner at columns and rows 0 to 2."""
    return Rect(
        draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(st.integers(1, side)), draw(st.integers(1, side))
    )


def line_length(rect: Rect, axis: str, groups: int = 1) -> int:
    """Return the PEs of a line along an axis, or of one of its groups."""
    return {"x": rect.width, "y": rect.height, "xy": rect.area}[axis] // groups


@st.composite
def shifts(
    draw: st.DrawFn, rect: Rect, axes: str = "xy", hops: int = 3, at: int = 0, counts: CountStrategy = word_counts
) -> Shift:
    """Draw a shift of words from address `at`, in either direction.

    Without wrap it goes by up to `hops` PEs, on a ring ("folded", or with `at` 0 also "line") by one PE. The words
    go to `at` + `PART_WORDS` // 2; with `at` 0 they may also stay in place, and have strides of up to 3 words.
    """
    # On a ring every PE sends and receives: with several hops they would share links, which no closed form covers.
    wrap = draw(st.sampled_from(["", "folded", *["line"] * (not at)]))
    far = draw(st.integers(1, 1 if wrap else hops)) * draw(st.sampled_from([1, -1]))
    put = at + (PART_WORDS // 2 if draw(st.booleans()) or at else 0)
    axis, count = draw(st.sampled_from(axes)), draw(counts)
    # At another address there are words of a concurrent move, which strided words would reach.
    taken, stored = (1 if at else draw(st.integers(1, 3)) for _ in range(2))
    return Shift(rect, axis, count, far, wrap, take=at, put=put, take_stride=taken, put_stride=stored)


@st.composite
def line_arguments(
    draw: st.DrawFn, rect: Rect, axes: tuple[str, ...] = ("x", "y", "xy"), counts: CountStrategy = word_counts
) -> tuple[Rect, str, int, int]:
    """Draw (rectangle, axis, words, groups) of a broadcast or reduction; the rectangle is `rect`.

    `groups` is 1 for the axis "xy" and most of the time for others.
    """
    axis = draw(st.sampled_from(axes))
    # One group most of the time, since the closed forms are mainly for full lines.
    groups = 1 if axis == "xy" else draw(st.sampled_from([1, 1, draw(st.integers(1, line_length(rect, axis)))]))
    return rect, axis, draw(counts), groups


@st.composite
def broadcasts(
    draw: st.DrawFn,
    rect: Rect,
    axes: tuple[str, ...] = ("x", "y", "xy"),
    at: int = 0,
    counts: CountStrategy = word_counts,
) -> Broadcast:
    """Draw a broadcast along lines from any of their PEs, of words at address `at`.

    The words go to the same address; with `at` 0 they may also go to `PART_WORDS` // 2.
    """
    rect, axis, count, groups = draw(line_arguments(rect, axes, counts))
    # From an inner PE, words go both ways.
    source = draw(st.integers(0, line_length(rect, axis, groups) - 1))
    put = at or draw(st.sampled_from([0, PART_WORDS // 2]))
    return Broadcast(rect, axis, words=count, groups=groups, source=source, take=at, put=put)


@st.composite
def reductions(draw: st.DrawFn, kind: type[Reduce] | type[AllReduce], rect: Rect) -> Reduce | AllReduce:
    """Draw a sum or a maximum of words at address 0 along lines, by any algorithm or none, in any type.

    `kind` is Reduce or AllReduce; only the latter has the algorithm "ring".
    """
    # The empty name lets the cost model choose; only an all-reduce has rings.
    names = ["", *REDUCTION_ALGORITHMS] + ["ring"] * (kind is AllReduce)
    name = draw(st.sampled_from(names))
    size = draw(st.integers(0, 9)) if name == "two_phase" else 0
    dtype, combine = draw(st.sampled_from(["float32", "float16", "bfloat16"])), draw(st.sampled_from(["add", "max"]))
    return kind(*draw(line_arguments(rect)), name, size, 0, dtype, combine)


@st.composite
def streams(draw: st.DrawFn, rect: Rect) -> Stream:
    """Draw a stream into or out of a rectangle, through the fabric, with blocks that need not be equal.

    The rectangle is `rect` moved by one column and row, so that there is a core before it.
    """
    share = draw(st.integers(1, 60))
    # Shares need not be equal: the last words of a stream may be few.
    total = 4 * rect.area * share - draw(st.integers(0, 3 * max(rect.width, rect.height)))
    return Stream(replace(rect, x=rect.x + 1, y=rect.y + 1), total, draw(st.sampled_from(["in", "out"])))


@st.composite
def computes(draw: st.DrawFn, rect: Rect, shortest: int = 0) -> Compute:
    """Draw vector operations of `shortest` to 60 elements on every PE; with no elements there is only scalar code."""
    op = draw(st.sampled_from(["fma", "add", "move", "special"]))
    count, length, size = draw(st.integers(1, 60)), draw(st.integers(shortest, 60)), draw(st.sampled_from([2, 4, 8]))
    # Without a vector there is scalar code.
    scalar = draw(st.sampled_from([0, 1, 10, 33])) if length else draw(st.integers(1, 40))
    slow = draw(st.sampled_from([1, 2]))
    apart = draw(st.none() | st.integers(0, 3))
    return Compute(
        rect, op, vectors=count, length=length, itemsize=size, scalar_cycles=scalar, slowdown=slow, apart=apart
    )


@st.composite
def local_phases(draw: st.DrawFn, rect: Rect, shortest: int = 1) -> Local:
    """Draw a loop over multiply-adds, as over the rows of a tile, with at least `shortest` elements each."""
    length = draw(st.integers(max(1, shortest), 40))
    # Operands that may begin in the same memory bank.
    a, b = Memory(1500 + draw(st.integers(0, 3)), steps=(length,)), Memory(1600)
    vector = Vector("fmac", (b, a, 2.0, b), length=length)
    return Local(rect, (LoopStart(draw(st.integers(1, 12))), *(vector,) * draw(st.integers(1, 4)), LoopEnd()))


def local_works(rect: Rect, shortest: int = 0) -> st.SearchStrategy[Phase]:
    """Return a strategy for phases that use no links."""
    return st.one_of(computes(rect, shortest), local_phases(rect, shortest))


@st.composite
def leaves(draw: st.DrawFn, rect: Rect, hops: int = 3) -> Phase:
    """Draw a phase without subphases on `rect`, which may be of any kind; shifts go by up to `hops` PEs.

    A stream is on a rectangle that is moved by one column and row.
    """
    kinds: list[st.SearchStrategy[Phase]] = [
        shifts(rect, hops=hops),
        broadcasts(rect),
        reductions(Reduce, rect),
        reductions(AllReduce, rect),
        streams(rect),
    ]
    phase: Phase = draw(st.one_of(*kinds, local_works(rect)))
    return phase


@st.composite
def disjoint_pairs(draw: st.DrawFn, side: int) -> Par:
    """Draw two leaves at the same time on disjoint rectangles, each of up to `side` // 2 x `side` PEs.

    Shifts by several PEs are left out, since the order on links that they share depends on the number of colours of the
    whole mesh.
    """
    # The columns between the rectangles keep their routes apart.
    left = Rect(0, 1, draw(st.integers(1, side // 2)), draw(st.integers(1, side)))
    right = Rect(side // 2 + 3, 1, draw(st.integers(1, side // 2)), draw(st.integers(1, side)))
    return Par((draw(leaves(left, 1)), draw(leaves(right, 1))))


@st.composite
def moves_with_local_work(draw: st.DrawFn, side: int) -> Par:
    """Draw local work and moves on the same cores of one rectangle.

    The moves are a broadcast or a shift along "x", "y" or each of both, or one reduction along an axis.
    """
    rect = draw(rects(side))
    moves: list[Phase] = []
    if draw(st.booleans()):
        name = draw(st.sampled_from(["chain", "star"]))
        moves.append(Reduce(*draw(line_arguments(rect, ("x", "y"), large_word_counts)), name))
    else:
        # Each axis has separate words, so that received words do not overwrite words that another move sends.
        for i, axis in enumerate(draw(st.sampled_from(["x", "y", "xy"]))):
            at = (i + 1) * PART_WORDS
            moves.append(
                draw(
                    st.one_of(
                        shifts(rect, axis, 1, at, large_word_counts), broadcasts(rect, (axis,), at, large_word_counts)
                    )
                )
            )
    return Par((*moves, draw(local_works(rect, MIN_LARGE_WORDS // 2))))


def programs(side: int) -> st.SearchStrategy[Phase]:
    """Return a strategy for programs on up to `side` x `side` PEs, with a border of cores for streams.

    They are leaves, concurrent parts, and `Seq` and `Repeat` of up to three of them.
    """
    # Leaves are twice as frequent as compositions, which contain several.
    one = st.one_of(
        rects(side).flatmap(leaves), rects(side).flatmap(leaves), disjoint_pairs(side), moves_with_local_work(side)
    )
    return st.recursive(
        one,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Seq(tuple(parts))),
            st.builds(Repeat, st.integers(1, 3), inner),
        ),
        max_leaves=3,
    )


@st.composite
def any_two_moves(draw: st.DrawFn, side: int) -> Par:
    """Draw two moves at the same time on one rectangle: a shift or broadcast, and another one or a reduction.

    They may share links; no closed form says which one waits.
    """
    rect = draw(rects(side))
    one, other = (draw(st.one_of(shifts(rect, at=at), broadcasts(rect, at=at))) for at in (PART_WORDS, 2 * PART_WORDS))
    third = Reduce(*draw(line_arguments(rect)), draw(st.sampled_from(REDUCTION_ALGORITHMS)))
    return Par((one, draw(st.sampled_from([other, third]))))
