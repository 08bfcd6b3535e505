"""Every kernel that runs equals NumPy, within the units of the last place that its row states."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wse_sim.kernels.kernel_rows import DTYPES, LONG, ROWS, cases
from tests.wse_sim.programs import quick
from wse_sim.kernels import KERNELS, gather, scatter
from wse_sim.reference.phase_reference import apply


def test_every_kernel_has_a_row():
    assert set(ROWS) == set(KERNELS)


def check(case, memory):
    found = gather(case.kernel, memory)
    assert set(found) == set(case.expected)
    for name, expected in case.expected.items():
        error = np.abs(found[name].astype(np.float64) - expected.exact)
        assert (error <= expected.bound).all(), (name, np.max(error / np.maximum(expected.bound, 1e-300)))


def check_data(data, name, dtype):
    case = data.draw(cases(name, dtype))
    check(case, apply(case.kernel.phase, scatter(case.kernel, case.values)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(set(KERNELS) - LONG))
@quick
@given(st.data())
def test_data_reading_equals_numpy(name, dtype, data):
    check_data(data, name, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(LONG))
@settings(deadline=None, max_examples=3)
@given(st.data())
def test_data_reading_of_long_programs_equals_numpy(name, dtype, data):
    check_data(data, name, dtype)
