"""Colours of routes: which ways meet, and that a colouring is found where there is one."""

from itertools import combinations, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.wse_sim.programs import quick
from wse_sim.planner.route_colouring import WAYS_PER_ROUTE, ColouredWay, RouteColouring, RowSpans, find_clashes

HEIGHT, WIDTH = 6, 8


@st.composite
def spans(draw):
    """Rows of columns side by side, some of them empty."""
    row = draw(st.integers(0, HEIGHT - 1))
    ends = [
        sorted(draw(st.tuples(st.integers(0, WIDTH - 1), st.integers(0, WIDTH - 1))))
        if draw(st.booleans())
        else (5, -1)
        for _ in range(draw(st.integers(1, HEIGHT - row)))
    ]
    first, last = np.array(ends).T
    return RowSpans(row, first, last)


def cores(way):
    return {
        (x, span.row + n)
        for span in way
        for n, (first, last) in enumerate(zip(span.first.tolist(), span.last.tolist(), strict=True))
        for x in range(first, last + 1)
    }


@quick
@given(ways=st.lists(st.tuples(spans(), spans()), min_size=1, max_size=6))
def test_ways_clash_where_they_pass_a_common_core(ways):
    passed = [cores(way) for way in ways]
    assert find_clashes(ways, HEIGHT).tolist() == [[bool(one & other) for other in passed] for one in passed]


def choices_of(limits, n):
    return [
        ColouredWay(way, colour) for way in range(WAYS_PER_ROUTE) for colour in range(limits[WAYS_PER_ROUTE * n + way])
    ]


def is_colouring(clashes, choices):
    return not any(
        one.colour == other.colour and clashes[WAYS_PER_ROUTE * n + one.way, WAYS_PER_ROUTE * m + other.way]
        for (n, one), (m, other) in combinations(choices, 2)
    )


@quick
@given(data=st.data(), routes=st.integers(1, 5))
def test_a_colouring_is_found_where_there_is_one_and_none_that_is_none(data, routes):
    count = WAYS_PER_ROUTE * routes
    drawn = np.array(data.draw(st.lists(st.booleans(), min_size=count * count, max_size=count * count)))
    clashes = drawn.reshape(count, count) | drawn.reshape(count, count).T
    limits = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    heavy = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    choices = RouteColouring(clashes, limits, heavy, [None] * routes).search()
    is_coloured = None not in choices
    there_is_one = any(
        is_colouring(clashes, list(enumerate(c))) for c in product(*(choices_of(limits, n) for n in range(routes)))
    )
    assert is_coloured == there_is_one
    kept = [(n, choice) for n, choice in enumerate(choices) if choice]
    assert is_colouring(clashes, kept)
    assert all(choice in choices_of(limits, n) for n, choice in kept)
    # From there on no step is worse than where it began.
    again = RouteColouring(clashes, limits, heavy, choices).search()
    assert again.count(None) <= choices.count(None) and (not is_coloured or again == choices)


def test_of_two_ways_that_nobody_is_on_the_one_that_loads_no_link_too_much_is_taken():
    assert RouteColouring(np.eye(2, dtype=bool), [1, 1], [True, False], [None]).search() == [ColouredWay(1, 0)]


def test_a_search_does_not_go_round_heavy_ways_that_it_needs():
    # Routes 0 and 2 meet but where both go their heavy ways, which each of them would take last.
    clashes = np.zeros((6, 6), bool)
    for one, other in ((0, 4), (0, 5), (1, 5)):
        clashes[one, other] = clashes[other, one] = True
    heavy = [False, True, False, False, True, False]
    choices = RouteColouring(clashes, [1, 1, 0, 1, 1, 1], heavy, [None] * 3).search()
    assert choices == [ColouredWay(1, 0), ColouredWay(1, 0), ColouredWay(0, 0)]
