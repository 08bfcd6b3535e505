"""Numbers that an integer type does not hold: they wrap beside tensors and are refused where they are stored.

All values and sentences are recorded from PyTorch 2.13.0.
"""

import math

import pytest

import lazytensor as lt
from lazytensor.errors import NumberTooLarge

BYTES = lt.tensor([0, 1, 2, 3], dtype=lt.uint8)
ZEROS = lt.zeros(2, dtype=lt.int32)


@pytest.mark.parametrize(
    "call, values",
    [
        (lambda: BYTES + -3, [253, 254, 255, 0]),
        (lambda: BYTES + 300, [44, 45, 46, 47]),
        (lambda: -3 - BYTES, [253, 252, 251, 250]),
        (lambda: BYTES * -3, [0, 253, 250, 247]),
        (lambda: BYTES // -3, [0, 0, 0, 0]),
        (lambda: BYTES % -3, [0, 1, 2, 3]),
        (lambda: BYTES & -3, [0, 1, 0, 1]),
        (lambda: BYTES == -3, [False] * 4),
        (lambda: BYTES < -3, [True] * 4),
        (lambda: BYTES < 300, [True] * 4),
        (lambda: BYTES.add(-3, alpha=2), [250, 251, 252, 253]),
        (lambda: ZEROS + (1 << 40), [0, 0]),
        (lambda: ZEROS == 1 << 32, [True, True]),
    ],
)
def test_a_number_wraps_beside_tensors(call, values):
    assert call().tolist() == values


@pytest.mark.parametrize(
    "call, values",
    [
        (lambda: lt.full((2,), -3, dtype=lt.uint8), [253, 253]),
        (lambda: lt.full((2,), -200, dtype=lt.uint16), [65336, 65336]),
        (lambda: lt.full((2,), 300.5, dtype=lt.int16), [300, 300]),
        (lambda: lt.tensor([-3], dtype=lt.uint8), [253]),
        (lambda: lt.tensor(-3, dtype=lt.uint8), 253),
        (lambda: BYTES.masked_fill(BYTES > 1, -3), [0, 1, 253, 253]),
        (lambda: lt.where(BYTES > 1, BYTES, -3), [253, 253, 2, 3]),
        (lambda: BYTES.clone().fill_(-3), [253] * 4),
        (lambda: BYTES.clamp(-3, 2), [2] * 4),
        (lambda: BYTES.clamp(min=-3), [253] * 4),
    ],
)
def test_a_number_below_zero_counts_down_from_the_end_of_a_type_without_sign(call, values):
    assert call().tolist() == values


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: lt.full((2,), 300, dtype=lt.uint8), "uint8_t"),
        (lambda: lt.full((2,), -300, dtype=lt.uint8), "uint8_t"),
        (lambda: lt.full((2,), 200, dtype=lt.int8), "int8_t"),
        (lambda: lt.full((2,), 1 << 40, dtype=lt.int32), "int"),
        (lambda: lt.full((2,), math.nan, dtype=lt.int64), "int64_t"),
        (lambda: BYTES.masked_fill(BYTES > 1, 300), "uint8_t"),
        (lambda: lt.where(BYTES > 1, BYTES, 300), "uint8_t"),
        (lambda: BYTES.clone().fill_(300), "uint8_t"),
        (lambda: BYTES.clamp(-300, 2), "uint8_t"),
        (lambda: BYTES.clamp(max=300), "uint8_t"),
        (lambda: lt.tensor([1, 300], dtype=lt.uint8), "uint8"),
        (lambda: lt.tensor(300, dtype=lt.uint8), "uint8"),
        (lambda: lt.tensor([math.nan], dtype=lt.int64), "int64"),
        (lambda: lt.tensor([1e10], dtype=lt.int32), "int32"),
    ],
)
def test_a_number_that_is_stored_is_refused_where_it_is_given(call, name):
    with pytest.raises(NumberTooLarge, match=f"value cannot be converted to type {name} without overflow") as e:
        call()
    assert "test_integer_overflow.py:" in str(e.value)
