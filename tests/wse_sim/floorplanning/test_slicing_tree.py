"""Slicing trees: their curves are exact, their rectangles apart, and a search never makes their wires longer."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wse_sim.floorplanning.block_order import order_blocks
from wse_sim.floorplanning.serpentine import MAX_COLUMN_WIDTH_RATIO, SerpentineColumns
from wse_sim.floorplanning.shape_curves import INFEASIBLE, curve_from_shapes, inverse_curve, min_curve_area
from wse_sim.floorplanning.slicing_tree import find_ordered_tree, fits_mesh, place_blocks, rename_blocks
from wse_sim.floorplanning.wirelength_search import (
    TREE_COOLINGS,
    WirelengthProblem,
    find_short_tree,
    has_fitting_tree,
    shorten_wires,
)
from wse_sim.layout import Rect

few = settings(deadline=None, max_examples=25)
shapes = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=4)
menus = st.lists(shapes, min_size=1, max_size=5)
sides = st.integers(4, 20)


def curves(blocks, width, height):
    return [curve_from_shapes(block, width, height) for block in blocks]


def assert_apart(places, blocks, width, height):
    for place, block in zip(places, blocks, strict=True):
        assert Rect(0, 0, width, height).contains(place)
        assert (place.width, place.height) in block
    assert not any(one.overlaps(other) for one, other in itertools.combinations(places, 2))


@few
@given(shapes, sides, sides)
def test_a_curve_and_its_inverse_say_the_same(block, width, height):
    curve = curve_from_shapes(block, width, height)
    widths = inverse_curve(curve, height)
    for w, h in itertools.product(range(1, width + 1), range(1, height + 1)):
        assert (curve[w - 1] <= h) == (widths[h - 1] <= w) == any(x <= w and y <= h for x, y in block)
    areas = [x * y for x, y in block if x <= width and y <= height]
    assert min_curve_area(curve) == min(areas, default=INFEASIBLE * INFEASIBLE)


def packs(blocks, width, height):
    """Whether ordered cuts make room for blocks, by trying all."""
    if len(blocks) == 1:
        return any(w <= width and h <= height for w, h in blocks[0])
    return any(
        any(packs(blocks[:k], at, height) and packs(blocks[k:], width - at, height) for at in range(1, width))
        or any(packs(blocks[:k], width, at) and packs(blocks[k:], width, height - at) for at in range(1, height))
        for k in range(1, len(blocks))
    )


@few
@given(st.lists(shapes, min_size=1, max_size=3), st.integers(4, 12), st.integers(4, 12))
def test_an_ordered_tree_is_there_whenever_cuts_can_make_room(blocks, width, height):
    tree = find_ordered_tree(curves(blocks, width, height), width, height)
    assert (tree is not None) == packs(blocks, width, height)


@few
@given(menus, sides, sides)
def test_rectangles_of_a_tree_are_apart_and_of_the_menus(blocks, width, height):
    line = curves(blocks, width, height)
    for tree in (find_ordered_tree(line, width, height), SerpentineColumns(line, width, height, 2).tree()):
        if tree:
            assert fits_mesh(tree, line, width, height)
            assert_apart(place_blocks(tree, line, width, height), blocks, width, height)


@few
@given(menus, sides, sides, st.randoms(use_true_random=False))
def test_renaming_moves_blocks_and_not_places(blocks, width, height, shuffle):
    names = shuffle.sample(range(len(blocks)), len(blocks))
    mixed = [blocks[n] for n in names]
    tree = find_ordered_tree(curves(mixed, width, height), width, height)
    assume(tree is not None)
    places = place_blocks(rename_blocks(tree, names), curves(blocks, width, height), width, height)
    assert_apart(places, blocks, width, height)


@settings(deadline=None, max_examples=8)
@given(menus, sides, sides, st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 3)), max_size=6))
def test_a_search_stays_legal_and_makes_no_wire_longer(blocks, width, height, wires):
    wires = [(a % len(blocks), b % len(blocks), w) for a, b, w in wires if a % len(blocks) != b % len(blocks)]
    task = WirelengthProblem(curves(blocks, width, height), wires, width, height)
    assume(has_fitting_tree(task) and wires)
    start = find_ordered_tree(task.curves, width, height)
    if start:
        for cooling in TREE_COOLINGS:
            tree = shorten_wires(task, start, cooling, 1000, math.inf, 1)
            assert_apart(place_blocks(tree, task.curves, width, height), blocks, width, height)
            assert task.length(tree) <= task.length(start)
    assert_apart(place_blocks(find_short_tree(task, 1000, math.inf), task.curves, width, height), blocks, width, height)


def test_a_search_is_deterministic():
    task = WirelengthProblem(
        curves([[(3, 2), (2, 4)], [(2, 2)], [(4, 1), (1, 4)], [(2, 3)]] * 3, 12, 10), [(0, 9, 1), (3, 7, 2)], 12, 10
    )
    assert find_short_tree(task, 5000, math.inf) == find_short_tree(task, 5000, math.inf)


@few
@given(menus, sides, sides, st.none() | st.integers(1, 6))
def test_a_snake_has_the_narrowest_columns(blocks, width, height, widest):
    line = curves(blocks, width, height)

    def column(start, stop):
        """The least width on which blocks stand above each other."""
        return next(
            (w for w in range(1, width + 1) if sum(int(c[w - 1]) for c in line[start:stop]) <= height), math.inf
        )

    def no_wider(start, stop):
        """The same, but for columns that are too wide for their first block."""
        alone, own = column(start, start + 1), column(start, stop)
        is_allowed = own < math.inf and (
            widest is None or own <= max(widest, math.ceil(MAX_COLUMN_WIDTH_RATIO * alone))
        )
        return own if is_allowed else math.inf

    least = [0.0]
    for stop in range(1, len(line) + 1):
        least.append(min(least[start] + no_wider(start, stop) for start in range(stop)))
    assert SerpentineColumns(line, width, height, 1, widest).least_width == (
        least[-1] if least[-1] <= width else INFEASIBLE
    )


def test_a_snake_runs_down_and_up():
    line = curves([[(2, 2)]] * 6, 4, 6)
    places = place_blocks(SerpentineColumns(line, 4, 6, 1).tree(), line, 4, 6)
    assert [(p.x, p.y) for p in places] == [(0, 0), (0, 2), (0, 4), (2, 4), (2, 2), (2, 0)]


def test_a_block_that_is_wider_than_the_columns_of_the_others_has_one_of_its_own_width():
    line = curves([[(10, 6)], *[[(2, 2)]] * 6], 14, 6)
    snake = SerpentineColumns(line, 14, 6, 1, widest=3)
    assert snake.least_width == 14
    assert_apart(place_blocks(snake.tree(), line, 14, 6), [[(10, 6)], *[[(2, 2)]] * 6], 14, 6)


@pytest.mark.parametrize(
    "edges, order",
    [
        ([(0, 3), (3, 1), (1, 2)], (0, 3, 1, 2)),
        ([(0, 1), (0, 2), (1, 3), (2, 3)], (0, 1, 2, 3)),
        ([(0, 1), (1, 0), (2, 3)], (2, 3, 0, 1)),
        ([], (0, 1, 2, 3)),
    ],
)
def test_chains_stay_together_in_a_line(edges, order):
    assert order_blocks(4, edges) == order


def test_curves_of_no_shape_never_end():
    assert np.all(curve_from_shapes([(30, 1)], 10, 10) == INFEASIBLE)
