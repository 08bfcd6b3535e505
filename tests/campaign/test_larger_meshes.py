"""Plans on a mesh and on a larger one: the campaign's own sums, and a few of its pairs."""

import random

import pytest

from tests.campaign.larger_meshes import NETS, Outcome, drawn, drawn_beside, drawn_deep, outcomes, table


@pytest.mark.slow
@pytest.mark.parametrize("pair_of", [drawn, drawn_deep, drawn_beside])
def test_a_pair_is_its_number_and_the_larger_mesh_has_room_for_the_smaller(pair_of):
    for number in range(4):
        pair, again = (pair_of(random.Random(f"3 {number}")) for _ in range(2))
        assert str(pair) == str(again)
        assert pair.larger.width >= pair.machine.width
        assert pair.larger.height >= pair.machine.height


def test_the_table_counts_what_is_slower_and_what_is_equal():
    ratios = [0.9, 1.0, 1.05, float("inf")]
    seen = [
        Outcome(pair=n, mode="streaming", text="", is_deep=True, is_of_any_batch=False, ratio=ratio)
        for n, ratio in enumerate(ratios)
    ]
    assert [one.is_slower for one in seen] == [False, False, True, True]
    assert "| streaming | more than 8 | its batch | 4 | 2 | inf | 1 |" in table(seen)
    assert "| pipelined | up to 8 | any batch | 0 | 0 | 0.0000 | 0 |" in table(seen)


@pytest.mark.slow
@pytest.mark.parametrize("net", sorted(NETS))
def test_no_step_that_streams_is_slower_on_a_larger_mesh(net):
    number = next(n for n in range(1000) if is_small_share(n, net))
    (streamed,) = outcomes(5, number, ["streaming"])
    assert streamed.is_under_law
    assert not streamed.is_slower


def is_small_share(number: int, net: str) -> bool:
    """Whether a pair is of this net, for its batch alone, on a mesh that plans soon."""
    pair = drawn(random.Random(f"5 {number}"))
    return pair.net.startswith(net) and not pair.is_of_any_batch and pair.machine.width <= 12 >= pair.machine.height
