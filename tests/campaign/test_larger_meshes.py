"""Plans on a mesh and on a larger one: the table of the campaign, and its first pairs."""

import pytest

from tests.campaign.larger_meshes import Outcome, outcomes, pair_of, table


@pytest.mark.slow
def test_a_pair_depends_on_its_number_only_and_its_larger_mesh_has_room_for_the_smaller():
    for number in range(10):
        pair, again = pair_of(3, number), pair_of(3, number)
        assert str(pair) == str(again)
        assert pair.larger.width >= pair.machine.width
        assert pair.larger.height >= pair.machine.height


def test_the_table_counts_what_is_slower():
    ratios = [0.9, 1.0, 1.05, float("inf")]
    seen = [
        Outcome(pair=n, mode="streaming", text="", ratio=ratio, rate=1.0, seconds=2.0) for n, ratio in enumerate(ratios)
    ]
    assert [one.is_too_slow for one in seen] == [False, False, False, True]
    assert "| streaming | 4 | 2 | 1 | inf | 8 |" in table(seen)
    assert "| pipelined | 0 | 0 | 0 | 0.0000 | 0 |" in table(seen)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_a_step_is_at_most_5_percent_slower_on_a_larger_mesh(number):
    assert [one for one in outcomes(39, number) if one.is_too_slow] == []
