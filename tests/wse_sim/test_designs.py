"""Designs: no slower one on a larger mesh, and rectangles that hold what they have to."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import TINY
from wse_sim.plan.designs import Design, Search

some = settings(deadline=None, max_examples=30, print_blob=False)


class Products:
    """A line of products [rows, columns]: a sample takes the tile of a PE and the way across its part."""

    def __init__(self, extents, least_pes, batch):
        self.extents, self.kinds, self.least_pes, self.batch = extents, extents, least_pes, batch

    def cycles(self, n, width, height):
        rows, columns = self.extents[n]
        return self.batch * ceil_div(rows, height) * ceil_div(columns, width) + width + height

    def step(self, design, cycles, slowest):
        ways = sum(abs(a.x - b.x) + abs(a.y - b.y) for a, b in pairwise(design.rects))
        return slowest + sum(cycles) / self.batch + ways

    def estimate(self, design, cycles, slowest):
        return self.step(design, cycles, slowest)

    def least_step(self, design):
        cycles = [self.cycles(n, *part) for n, part in enumerate(design.parts)]
        return self.step(design, cycles, max(cycles))

    def placed(self, design):
        return self.least_step(design), design


extents = st.integers(1, 200) | st.integers(1, 7).map(lambda n: 1 << n)
products = st.builds(
    lambda stages, batch: Products([s[:2] for s in stages], [s[2] for s in stages], batch),
    st.lists(st.tuples(extents, extents, st.integers(1, 40)), min_size=1, max_size=6),
    st.integers(1, 100),
)
sides = st.integers(1, 60)


def fastest(line, width, height):
    search = Search(line, mesh(width, height))
    search.run()
    return search


def mesh(width, height):
    return replace(TINY, width=width, height=height, reserved_columns=0, reserved_rows=0)


def test_a_larger_mesh_has_room_for_the_same_designs():
    """But for those of low and narrow meshes, which price longer shapes: of 588 pairs of the first 1,500 draws 15."""
    lost, drawn = 0, 0
    for seed in range(300):
        draw = random.Random(seed)
        stages = [
            (draw.randint(1, 200), draw.randint(1, 200), draw.choice([1, 1, draw.randint(1, 40)]))
            for _ in range(draw.randint(1, 5))
        ]
        line = Products([s[:2] for s in stages], [s[2] for s in stages], draw.randint(1, 100))
        width, height, limit = draw.randint(8, 60), draw.randint(8, 60), int(10 ** draw.uniform(1.3, 4.3))
        meshes = mesh(width, height), mesh(width + draw.randint(0, 20), height + draw.randint(0, 20))
        small, large = ({as_tuple(design) for design in Search(line, one).designs(limit)} for one in meshes)
        drawn += bool(small)
        lost += not small <= large
    assert drawn > 90
    assert lost <= 0.05 * drawn


def as_tuple(design):
    return design.width, design.height, tuple(design.rects), tuple(design.parts)


@pytest.mark.slow
def test_hardly_a_line_is_slower_on_a_larger_mesh():
    """Estimates say which times are looked at: of three hundred lines one is slower, by 12 %."""
    ratios = []
    for seed in range(100):
        draw = random.Random(seed)
        stages = [(*(draw.choice([draw.randint(1, 200), 1 << draw.randint(1, 7)]) for _ in "hw"), draw.randint(1, 40))]
        stages += [(draw.randint(1, 200), draw.randint(1, 200), 1) for _ in range(draw.randint(0, 5))]
        line = Products([s[:2] for s in stages], [s[2] for s in stages], draw.randint(1, 100))
        width, height = draw.randint(1, 60), draw.randint(1, 60)
        small = fastest(line, width, height).best
        if small is not None:
            large = fastest(line, width + draw.randint(0, 20), height + draw.randint(0, 20)).best
            ratios.append(line.least_step(large) / line.least_step(small))
    assert len(ratios) > 80
    assert sum(ratio > 1 for ratio in ratios) <= 2
    assert max(ratios) < 1.15


@some
@given(products, sides, sides)
def test_a_design_holds_what_its_stages_ask_for(line, width, height):
    search = fastest(line, width, height)
    if search.best is None:
        return
    rects = search.best.rects
    whole = Rect(0, 0, search.best.width, search.best.height)
    assert search.best.width <= width
    assert search.best.height <= height
    assert all(whole.contains(rect) for rect in rects)
    assert not any(a.overlaps(b) for n, a in enumerate(rects) for b in rects[:n])
    assert all(rect.area >= least for rect, least in zip(rects, line.least_pes, strict=True))
    for rect, part in zip(rects, search.best.parts, strict=True):
        assert part[0] <= rect.width
        assert part[1] <= rect.height


def test_what_fits_nowhere_has_no_design():
    assert fastest(Products([(8, 8), (8, 8)], [40, 40], batch=1), 8, 8).best is None


@pytest.mark.parametrize(("width", "height"), [(1, 40), (40, 1)])
def test_a_mesh_of_one_line_is_divided_among_the_stages(width, height):
    line = Products([(1, 40), (1, 40)] if height == 1 else [(40, 1), (40, 1)], [1, 1], batch=1000)
    design = fastest(line, width, height).best
    assert isinstance(design, Design)
    assert max(line.cycles(n, *part) for n, part in enumerate(design.parts)) < 3100
