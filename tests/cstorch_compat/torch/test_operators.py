"""`torch.ops`: operators as keys of tables and as functions."""

import pytest

from cstorch_compat.torch.operators import ops
from lazytensor import tensor
from lazytensor.errors import NameMissing


def test_equal_operators_are_one_object():
    assert ops.aten.add.Tensor is ops.aten.add.Tensor and ops.aten.add is ops.aten.add
    assert len({ops.aten.add, ops.aten.add.Tensor, ops.aten.add.default, ops.aten.clone}) == 4


@pytest.mark.parametrize("name", ["add", "mul", "sub", "maximum"])
def test_an_operator_calls_the_function_of_its_name(name):
    a, b = tensor([1.0, 5.0]), tensor([3.0, 2.0])
    operator = getattr(ops.aten, name)
    assert operator(a, b).tolist() == operator.Tensor(a, b).tolist() == getattr(a, name)(b).tolist()


def test_operators_without_a_function_and_of_extensions_are_refused():
    with pytest.raises(NotImplementedError, match="no function of this name"):
        ops.aten.no_such_operator(1)
    with pytest.raises(NameMissing, match="has no operator 'scatter_max'"):
        ops.torch_scatter.scatter_max  # noqa: B018
    assert not hasattr(ops.torchvision, "nms")
