"""sin and cos of float32 against what PyTorch answered, and against the true values."""

import json
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.ops.sin_cos import cosine, sine

RECORDED = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "circular.json").read_text())


@pytest.mark.parametrize(("name", "ours", "numpy"), [("cos", cosine, np.cos), ("sin", sine, np.sin)])
def test_bits_agree_with_pytorch_more_often_than_the_nearest_float_does(name, ours, numpy):
    x, want = np.array(RECORDED["x"], np.float32), np.array(RECORDED[name], np.float32)
    nearest = numpy(x.astype(np.float64)).astype(np.float32)
    assert np.mean(ours(x) == want) >= 0.94 and np.mean(ours(x) == want) > np.mean(nearest == want)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_values_are_within_one_ulp_of_the_truth(x):
    x = np.array([x], np.float32)
    for ours, numpy in ((cosine, np.cos), (sine, np.sin)):
        np.testing.assert_array_max_ulp(ours(x), numpy(x.astype(np.float64)).astype(np.float32), 1)


def test_zeros_keep_their_sign_and_infinity_has_no_angle():
    x = np.array([0.0, -0.0, np.inf, np.nan], np.float32)
    assert np.signbit(sine(x)[:2]).tolist() == [False, True]
    assert np.isnan(sine(x)[2:]).all() and np.isnan(cosine(x)[2:]).all()
    assert cosine(x)[:2].tolist() == [1.0, 1.0]
