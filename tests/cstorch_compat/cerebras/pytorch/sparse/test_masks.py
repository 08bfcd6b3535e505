"""Masks and schedules as laws: how many elements are kept, which, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cstorch_compat.cerebras.pytorch.sparse import init as init
from cstorch_compat.cerebras.pytorch.sparse import masks as sm
from cstorch_compat.cerebras.pytorch.sparse import schedules as ss
from cstorch_compat.run import process
from lazytensor import random
from lazytensor.core import dtype as dtypes
from lazytensor.functional.creation import tensor

LEVELS = st.floats(0, 1, width=32)
EXTENTS = st.integers(1, 9)
QUICK = settings(deadline=None, max_examples=25)


@pytest.fixture(autouse=True, scope="module")
def backend():
    before, process.RUN.backend = process.RUN.backend, None
    yield process.make_backend("CPU")
    process.RUN.backend = before


def scores(rows, columns, seed):
    return np.random.default_rng(seed).permutation(rows * columns).reshape(rows, columns).astype(np.float32)


def whole(share, n):
    """Rounding down in float32, as the masks do."""
    return int(np.float32(share) * np.float32(n))


@given(rows=EXTENTS, columns=EXTENTS, level=LEVELS, seed=st.integers(0, 99))
@QUICK
def test_a_mask_keeps_the_largest_scores_within_one_element_of_the_level(rows, columns, level, seed):
    score = scores(rows, columns, seed)
    mask = sm.make_mask_topk_sparsity(tensor(score), tensor(level)).numpy()
    assert abs(mask.sum() - (1 - level) * score.size) <= 1
    assert score[mask].min(initial=np.inf) > score[~mask].max(initial=-np.inf)


@given(rows=EXTENTS, columns=EXTENTS, level=LEVELS, first=LEVELS, fraction=LEVELS, seed=st.integers(0, 99))
@QUICK
def test_what_is_dropped_and_grown_balances(rows, columns, level, first, fraction, seed):
    score = scores(rows, columns, seed) + 1
    mask = sm.make_mask_topk_sparsity(tensor(score), tensor(first))
    kept, count = sm.make_mask_drop_minimum(tensor(score), mask, tensor(fraction))
    assert int(count) == int(kept.sum()) == whole(np.float32(1) - np.float32(fraction), mask.sum().item())
    assert not (kept & ~mask).any()
    grown = sm.make_mask_grow_maximum(tensor(-score), kept, tensor(level), count)
    wanted = whole(np.float32(1) - np.float32(level), score.size)
    assert int(grown.sum()) == max(wanted, int(count))
    assert not (kept & ~grown).any()
    assert (grown == sm.make_mask_grow_maximum(tensor(-score), kept, tensor(level))).all()


@given(groups=st.integers(1, 4), rows=EXTENTS, columns=EXTENTS, level=LEVELS, by_input=st.booleans())
@QUICK
def test_every_group_keeps_as_many(groups, rows, columns, level, by_input):
    shaper = (sm.InputGroupScoreShaper if by_input else sm.OutputGroupScoreShaper)(groups)
    shape = (rows, columns * groups) if by_input else (rows * groups, columns)
    score = tensor(scores(*shape, seed=0))
    flat, back = shaper(score)
    assert back(flat).tolist() == score.tolist()
    mask = sm.make_mask_topk_sparsity(score, tensor(level), shaper).numpy()
    parts = np.split(mask, groups, axis=1 if by_input else 0)
    assert {int(p.sum()) for p in parts} == {whole(np.float32(1) - np.float32(level), mask.size / groups)}


@given(rows=st.integers(1, 12), columns=st.integers(1, 40), level=st.floats(0, 0.96875, width=32))
@QUICK
def test_checkerboard_keeps_each_row_within_one_element_of_the_level(rows, columns, level):
    mask = init.checkerboard(tensor(np.zeros((rows, columns), np.float32)), tensor(level)).numpy()
    assert np.abs(mask.sum(1) - (1 - level) * columns).max() <= 1


@pytest.mark.parametrize("method", ["random", "topk", "checkerboard"])
def test_initial_masks_have_the_level_in_any_number_of_dimensions(method):
    for shape in [(40,), (8, 5), (2, 4, 5), (2, 2, 2, 5)]:
        weights = tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))
        mask = init.make_init_method(method)(weights, tensor(0.5))
        assert tuple(mask.shape) == shape
        assert abs(int(mask.sum()) - 20) <= (0 if method != "checkerboard" else 40 // shape[-1])


def test_random_masks_are_those_of_the_seed():
    random.manual_seed(1)  # recorded from cerebras_pytorch 2.10.0: the first mask of a layer of 6 inputs and 4 outputs
    weight, bias = (init.random(tensor(np.zeros(shape, np.float32)), tensor(0.5)) for shape in ((4, 6), (4,)))
    kept = [1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0]
    assert weight.reshape(-1).tolist() == kept and bias.tolist() == [0, 0, 1, 1]
    # Each mask takes the seed of a generator from the default one.
    assert random.default_generator.uniform((1,), dtypes.float32)[0] == np.float32(0.029281556606292725)


def test_from_zeros_keeps_what_is_not_zero():
    assert init.from_zeros(tensor([0.0, 2.0, -1.0, 0.0]), tensor(0.1)).tolist() == [False, True, True, False]


def test_equal_scores_are_kept_from_the_first_on():
    assert sm.make_mask_topk_sparsity(tensor([1.0] * 5), tensor(0.4)).tolist() == [1, 1, 1, 0, 0]


@given(freq=st.integers(1, 6), start=st.integers(0, 9), stop=st.none() | st.integers(0, 30), step=st.integers(0, 40))
@QUICK
def test_update_steps_come_every_freq_steps_from_start_on_and_before_stop(freq, start, stop, step):
    due = ss.make_update_schedule({"freq": freq, "start": start, "stop": stop})(tensor(step))
    assert bool(due) == (step in range(start, 41 if stop is None else stop, freq))


@pytest.mark.parametrize("update", [[2, 7], (2, 7), {"steps": [2, 7]}, tensor([2, 7]), lambda s: (s == 2) | (s == 7)])
def test_update_steps_can_be_listed_or_computed(update):
    schedule = ss.make_update_schedule(update)
    assert [s for s in range(10) if schedule(tensor(s))] == [2, 7]


def test_no_update_schedule_means_every_step():
    assert all(ss.make_update_schedule(None)(tensor(s)) for s in range(5))


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (0.25, [0.25, 0.25, 0.25]),
        ({"type": "Linear", "init": 0.1, "slope": 0.2}, [0.1, 0.3, 0.5]),
        (lambda step: step * 0.25, [0.0, 0.25, 0.5]),
        (ss.Power(0.5, 0.5), [0.5, 0.25, 0.125]),
        ({"type": "cosine", "init": 0.8, "half_period": 2}, [0.8, 0.4, 0.0]),
        ({"type": "exp", "init": 0.5, "gamma": -math.log(2)}, [0.5, 0.75, 0.875]),
    ],
)
def test_schedules_are_made_from_numbers_settings_and_functions(given, values):
    schedule = ss.make_hyperparam_schedule(given)
    np.testing.assert_allclose([float(schedule(tensor(s))) for s in range(3)], values, atol=1e-6)


def test_a_list_goes_on_at_updates_and_starts_again():
    schedule = ss.make_hyperparam_schedule([0.3, 0.1])
    seen = []
    for is_update in (False, True, False, True, True):
        seen.append(round(float(schedule(0)), 3))
        schedule.update(tensor(is_update))
    assert seen == [0.3, 0.3, 0.1, 0.1, 0.3]
    other = ss.Cycling([0.3, 0.1])
    other.load_state_dict(schedule.state_dict())
    assert float(other(0)) == float(schedule(0))
    schedule.visit_state(lambda t: t * 0)
    assert float(schedule(0)) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("schedule", "extent"),
    [
        (ss.Constant(0.5), (0.5, 0.5, 0.5)),
        (ss.Linear(1, -0.25), (0.0, 0.5, 0.0)),
        (ss.Cosine(0.75, 10, 0.25), (0.25, 0.75, 0.577254)),
        (ss.Cycling([0.5, 0.75, 0.25]), (0.25, 0.75, 0.25)),
    ],
)
def test_schedules_know_their_extent(schedule, extent):
    assert schedule.get_min_max_end(2, 4) == pytest.approx(extent, abs=1e-6)


def test_nothing_is_known_of_a_function():
    assert ss.Lambda(lambda s: s).get_min_max_end(0, 9) is None


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ss.make_hyperparam_schedule("x"), ValueError, "Unhandled x"),
        (lambda: ss.make_hyperparam_schedule({"init": 0.1}), ValueError, "Must specify `type`"),
        (lambda: ss.make_hyperparam_schedule({"type": "foo"}), TypeError, "Unknown type of schedule 'foo'"),
        (lambda: ss.make_hyperparam_schedule({"type": "linear", "init": 1}), TypeError, "slope"),
        (lambda: ss.Cosine(0.1, 0), ValueError, "half_period"),
        (lambda: ss.Cycling([]), ValueError, "at least one value"),
        (lambda: ss.Lambda(3), TypeError, "function of the step"),
        (lambda: ss.FreqSchedule(0), RuntimeError, "Invalid update frequency 0"),
        (lambda: ss.ListSchedule([]), ValueError, "must not be empty"),
        (lambda: ss.make_update_schedule({"start": 3}), ValueError, "Valid options are"),
        (lambda: init.make_init_method("foo"), ValueError, 'Unknown `init_method`: "foo"'),
        (lambda: init.make_init_method(3), ValueError, "function"),
        (lambda: sm.OutputGroupScoreShaper(0), ValueError, "at least 1"),
        (lambda: sm.OutputGroupScoreShaper(2)(tensor([1.0] * 3)), ValueError, "3 outputs cannot be divided into 2"),
        (lambda: sm.InputGroupScoreShaper(2)(tensor([1.0] * 4)), ValueError, "inputs of a matrix can be grouped"),
        (lambda: init.check_mask(tensor([1.0]), tensor([2.0]), "w"), ValueError, r"w must be bool\[1\]"),
    ],
)
def test_bad_settings_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
