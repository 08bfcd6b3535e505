"""Layouts: nothing is lost, nothing is held twice, and the busiest PE is counted."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.core.dtype import float16, float32
from lazytensor.errors import LazyError
from lazytensor.ir.types import Type
from tests.wse_sim.programs import patient, rects
from wse_sim.layout import LAYOUT_KINDS, Layout, Rect, matrix_extents
from wse_sim.machine import WSE2

shapes = st.lists(st.integers(1, 9), min_size=0, max_size=3).map(tuple)
types = st.builds(Type, shapes, st.sampled_from([float16, float32]))
small_rects = rects(5, 5)


def holders(layout: Layout, type: Type) -> dict[tuple[int, int], int]:
    """Element (row, column) -> number of PEs that hold it."""
    count: dict[tuple[int, int], int] = {}
    for y, x in product(range(layout.rect.height), range(layout.rect.width)):
        for element in product(*layout.tile_of(type, x, y)):
            count[element] = count.get(element, 0) + 1
    return count


@patient
@given(small_rects, st.sampled_from(["block", "cyclic"]), st.booleans(), types)
def test_blocks_and_cycles_hold_each_element_once(rect, kind, is_flat, type):
    count = holders(Layout(rect, kind, is_flat), type)
    assert len(count) == type.size
    assert set(count.values()) == {1}


@patient
@given(small_rects, types)
def test_replicas_are_everywhere(rect, type):
    count = holders(Layout(rect, "replicated"), type)
    assert len(count) == type.size
    assert set(count.values()) == {rect.area}


@patient
@given(small_rects, st.sampled_from(LAYOUT_KINDS), st.booleans(), types)
def test_bytes_per_pe_is_that_of_the_fullest_pe(rect, kind, is_flat, type):
    layout = Layout(rect, kind, is_flat)
    sizes = [
        len(rows) * len(columns) * type.dtype.itemsize
        for y, x in product(range(rect.height), range(rect.width))
        for rows, columns in [layout.tile_of(type, x, y)]
    ]
    assert layout.bytes_per_pe(type) == max(sizes)


def test_matrix_view_keeps_the_last_axis():
    assert matrix_extents(Type((2, 3, 5), float32)) == (6, 5)
    assert matrix_extents(Type((), float32)) == (1, 1)
    assert matrix_extents(Type((4, 0), float32)) == (0, 0)


@patient
@given(rects(), rects())
def test_overlap_is_a_shared_pe(a, b):
    def cells(r):
        return set(product(range(r.x, r.x + r.width), range(r.y, r.y + r.height)))

    assert a.overlaps(b) == bool(cells(a) & cells(b))
    assert a.contains(b) == (cells(b) <= cells(a))


def test_whole_machine_and_bad_records():
    assert Rect.whole(WSE2) == Rect(0, 0, 750, 994)
    with pytest.raises(LazyError, match="has no PE"):
        Rect(0, 0, 0, 3)
    with pytest.raises(LazyError, match=r"'ring'[\s\S]*block"):
        Layout(Rect(0, 0, 1, 1), "ring")
