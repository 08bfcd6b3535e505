"""The host around the wafers: sourced numbers, the time of a batch and of a start, refusals."""

from dataclasses import replace

import pytest

from lazytensor.errors import LazyError
from wse_sim.host import APPLIANCE, HOST_FIELDS


def test_every_number_of_the_host_has_a_source():
    assert set(APPLIANCE.sources) == set(HOST_FIELDS)
    assert all(len(text) > 10 for text in APPLIANCE.sources.values())


@pytest.mark.parametrize("name", HOST_FIELDS)
def test_negative_numbers_of_a_host_are_refused(name):
    with pytest.raises(LazyError, match=name):
        replace(APPLIANCE, **{name: -1})


def test_five_workers_prepare_a_batch_of_mnist_in_the_published_time():
    assert APPLIANCE.input_seconds(256 * 3144) == pytest.approx(256 / 479_188.55)
    assert APPLIANCE.input_seconds(256 * 3144, systems=2) == pytest.approx(128 / 479_188.55)


def test_a_job_starts_after_programming_and_its_first_weights():
    assert APPLIANCE.start_seconds(0) == 241.4
    assert APPLIANCE.start_seconds(13_480_000_000) == pytest.approx(241.4 + 13.2)


def test_tree_grows_by_a_level_when_a_power_of_its_fan_out_is_passed():
    assert [APPLIANCE.tree_depth(n) for n in (1, 2, 4, 5, 16, 17, 64, 65)] == [0, 1, 1, 2, 2, 3, 3, 4]
