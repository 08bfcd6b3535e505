"""Random fills go in the order of the memory; the numbers are PyTorch 2.13.0's, with the seed 0."""

import pytest

import lazytensor as lt

FILLS = [
    ("normal_", lambda: lt.zeros(2, 3).t(), [1.541, 0.5684, -0.2934, -1.0845, -2.1788, -1.3986]),
    ("uniform_", lambda: lt.zeros(2, 3).t(), [0.4963, 0.132, 0.7682, 0.3074, 0.0885, 0.6341]),
    ("normal_", lambda: lt.zeros(40)[::2], [1.541, -0.2934, -2.1788, 0.5684, -1.0845, -1.3986]),
]


@pytest.mark.parametrize(("fill", "made", "numbers"), FILLS)
def test_fill_goes_in_the_order_of_the_memory(fill, made, numbers):
    lt.manual_seed(0)
    x = getattr(made(), fill)()
    assert [round(v, 4) for v in x.flatten()[:6].tolist()] == pytest.approx(numbers, abs=1e-4)


def test_view_of_another_type_cannot_be_written():
    x = lt.zeros(2)
    y = x.view(lt.int32)
    with pytest.raises(RuntimeError, match="a write to it would not change the tensor"):
        y[0] = 1
    with pytest.raises(RuntimeError, match="the view of Float as Int is a copy"):
        y.add_(1)
    assert y.tolist() == [0, 0]


def test_complex_number_is_refused_with_the_line():
    with pytest.raises(
        NotImplementedError,
        match=r"test_random_fill_order.py:\d+: a tensor cannot be combined with the complex number 1j",
    ):
        1j * lt.ones(2)
