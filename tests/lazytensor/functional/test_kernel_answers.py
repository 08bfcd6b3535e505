"""Operations with their own kernels give the values and gradients that PyTorch gave."""

import json
import pathlib

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import config
from tests.golden import kernel_answers

RECORDED = json.loads(pathlib.Path(kernel_answers.__file__).with_name("kernels.json").read_text())


def agree(got: list[list[float]], want: list[list[float]]) -> None:
    assert len(got) == len(want)
    for values, recorded in zip(got, want, strict=True):
        finite = np.abs(np.array(recorded))[np.isfinite(recorded)]
        np.testing.assert_allclose(values, recorded, rtol=2e-5, atol=2e-6 * min(finite.max(initial=1), 100))


@pytest.mark.parametrize("name", kernel_answers.CASES)
def test_kernel_gives_the_values_and_gradients_of_pytorch(name):
    agree(kernel_answers.answers(lt, name), RECORDED[name])


@pytest.mark.parametrize("name", kernel_answers.CASES)
def test_numpy_gives_the_values_and_gradients_of_pytorch_too(name):
    with config.override(jit=False):
        agree(kernel_answers.answers(lt, name), RECORDED[name])


@pytest.mark.parametrize("name", ["fmod edges", "remainder edges", "fmod waves", "remainder waves"])
def test_remainder_of_a_division_is_exact_with_the_sign_of_pytorch(name):
    got, want = kernel_answers.answers(lt, name)[0], RECORDED[name][0]
    np.testing.assert_array_equal(got, want)
    is_number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[is_number], np.signbit(want)[is_number])
