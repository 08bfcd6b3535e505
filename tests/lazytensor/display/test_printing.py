"""Tensors print as PyTorch prints them."""

import json
import math
import pathlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cstorch_compat
import lazytensor as lt

RECORDED = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "printed.json").read_text())["printed"]
NAMES = {"torch": SimpleNamespace(**{**vars(lt), "bool": lt.bool_}), "inf": math.inf, "nan": math.nan}


@pytest.mark.parametrize("expression", RECORDED)
def test_printed_form_is_that_of_pytorch(expression, pytorch_names):
    assert repr(eval(expression, dict(NAMES))) == RECORDED[expression]


numbers = st.one_of(
    st.floats(width=32),
    st.floats(-100, 100, width=32),
    st.integers(-9, 9).map(float),
    st.sampled_from([0.0, 1e-9, 3e12]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=3), st.lists(numbers, min_size=3, max_size=3))
def test_printed_numbers_read_back_to_four_digits(shape, values):
    array = np.resize(np.array(values, np.float32), shape)
    text = repr(lt.tensor(array))
    read = eval(text, {"tensor": np.array, "inf": math.inf, "nan": math.nan})
    rounding = 0.5e-4 if "e" not in text.replace("tensor", "") else 0.0
    np.testing.assert_allclose(read, array.astype(np.float64), rtol=1e-4, atol=rounding)


def test_device_is_printed_unless_it_is_the_cpu():
    x = lt.ones(2)
    x.device = lt.Device("lazy:0")
    assert repr(x) == "tensor([1., 1.], device='lazy:0')"


def test_types_and_shapes_print_the_name_of_the_package():
    assert repr(lt.float32) == str(lt.float32) == "lazytensor.float32"
    assert repr(lt.tensor([1, 2], dtype=lt.int32)) == "tensor([1, 2], dtype=lazytensor.int32)"
    assert repr(lt.ones(2, 3).shape) == "lazytensor.Size([2, 3])"


def test_types_and_shapes_print_as_in_pytorch_while_the_shim_is_installed():
    cstorch_compat.install()
    try:
        assert repr(lt.float32) == str(lt.float32) == "torch.float32"
        assert repr(lt.ones(2, 3).shape) == "torch.Size([2, 3])"
        assert repr(lt.tensor([1, 2], dtype=lt.int32)) == "tensor([1, 2], dtype=torch.int32)"
    finally:
        cstorch_compat.names.shim.uninstall()
    assert str(lt.float32) == "lazytensor.float32"


def test_devices_print_as_in_pytorch():
    assert repr(lt.Device("cpu")) == "device(type='cpu')"
    assert repr(lt.Device("lazy:1")) == "device(type='lazy', index=1)"
