"""The host around the wafers: sourced numbers, the time of a batch and of a start, refusals."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.errors import LazyError
from wse_sim.host import APPLIANCE, HOST_FIELDS, InputLoad


def test_every_number_of_the_host_has_a_source():
    assert set(APPLIANCE.sources) == set(HOST_FIELDS)
    assert all(len(text) > 10 for text in APPLIANCE.sources.values())


@pytest.mark.parametrize("name", HOST_FIELDS)
def test_negative_numbers_of_a_host_are_refused(name):
    with pytest.raises(LazyError, match=name):
        replace(APPLIANCE, **{name: -1})


def test_five_workers_prepare_a_batch_of_mnist_in_the_published_time():
    load = InputLoad(256 * 3144)
    assert APPLIANCE.input_seconds(load) == pytest.approx(256 / 479_188.55)
    assert APPLIANCE.input_seconds(load, systems=2) == pytest.approx(128 / 479_188.55)


@given(
    nbytes=st.integers(0, 10**9),
    tokens=st.integers(0, 10**7),
    elements=st.integers(0, 10**9),
    workers=st.integers(1, 64),
    field=st.sampled_from(["nbytes", "tokens", "picture_elements"]),
)
def test_input_takes_no_longer_with_twice_the_workers_and_no_less_with_more_data(
    nbytes, tokens, elements, workers, field
):
    load = InputLoad(nbytes, tokens, elements)
    few, many = (replace(APPLIANCE, workers=n) for n in (workers, 2 * workers))
    assert many.input_seconds(load) <= few.input_seconds(load)
    larger = replace(load, **{field: getattr(load, field) + 1000})
    assert few.input_seconds(larger) > few.input_seconds(load)
    assert few.input_source(load) in few.sources.values()


def test_a_job_starts_after_programming_and_its_first_weights():
    weights = 13_480_000_000
    assert APPLIANCE.start_seconds(weights) == 241.4 + APPLIANCE.first_weights_seconds(weights)


def test_sending_few_weights_takes_the_published_seconds_of_a_small_model():
    # ESM-2 with 33.5 M weights took 2.72 s, Llama3-8B 18.44 s; a rate without a fixed time is 40 times too fast.
    assert APPLIANCE.first_weights_seconds(2 * 33_500_000) == pytest.approx(2.72, rel=0.15)
    assert APPLIANCE.first_weights_seconds(2 * 8_030_000_000) == pytest.approx(18.44, rel=0.15)


def test_tree_grows_by_a_level_when_a_power_of_its_fan_out_is_passed():
    assert [APPLIANCE.tree_depth(n) for n in (1, 2, 4, 5, 16, 17, 64, 65)] == [0, 1, 1, 2, 2, 3, 3, 4]
