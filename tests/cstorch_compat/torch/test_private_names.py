"""Private names of PyTorch that libraries call."""

import pytest

from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.torch.nn import init
from cstorch_compat.torch.private_names import _parse_to
from lazytensor import bfloat16, float64, ones


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((), {}, (None, None, False)),
        (("cpu",), {}, ("cpu", None, False)),
        ((float64, True), {}, (None, float64, True)),
        ((ones(1).bfloat16(),), {}, ("cpu", bfloat16, False)),
        ((), {"device": "meta", "dtype": bfloat16, "non_blocking": True}, ("meta", bfloat16, True)),
    ],
    ids=str,
)
def test_the_arguments_of_to_are_parsed(args, kwargs, expected):
    device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
    assert (device and device.type, dtype, non_blocking, memory_format) == (*expected, None)


def test_other_arguments_of_to_are_errors():
    with pytest.raises(TypeError, match="invalid combination"):
        _parse_to([1])


def test_the_fan_of_a_weight_is_chosen_by_name():
    weight = ones(2, 3, 5)
    assert [init._calculate_correct_fan(weight, mode) for mode in ("fan_in", "FAN_OUT")] == [15, 10]
    with pytest.raises(ValueError, match="not supported"):
        init._calculate_correct_fan(weight, "fan")


def test_functions_of_the_core_are_those_of_functional():
    core, functional = get_mirror("torch._C._nn"), get_mirror("torch.nn.functional")
    assert core.gelu is functional.gelu and core.log_sigmoid is functional.logsigmoid
