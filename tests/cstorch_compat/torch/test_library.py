"""torch.library: operators that a script defines in Python. Values and messages are those of PyTorch 2.13."""

from collections.abc import Sequence

import numpy as np
import pytest

from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.core.tensor import Tensor

torch = get_mirror("torch")
library = get_mirror("torch.library")


def scaled_sine(x: Tensor, scale: float = 2.0) -> Tensor:
    return torch.tensor(np.sin(x.numpy()) * scale)


def test_operator_in_numpy_has_the_registered_gradient():
    sine = library.custom_op("test_library::sine", mutates_args=())(scaled_sine)

    @sine.register_fake
    def _(x, scale=2.0):
        return torch.empty_like(x)

    def save(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.scale = inputs[1]

    sine.register_autograd(lambda ctx, g: (g * ctx.saved_tensors[0].cos() * ctx.scale, None), setup_context=save)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    sine(x, scale=3.0).sum().backward()
    assert x.grad.tolist() == pytest.approx([1.6209, -1.2484], abs=1e-4)
    for call in (torch.ops.test_library.sine, torch.ops.test_library.sine.default):
        assert call(x.detach()).tolist() == pytest.approx([1.6829, 1.8186], abs=1e-4)


def test_operator_without_gradient_raises_in_the_backward_pass():
    twice = library.custom_op("test_library::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    result = twice(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match=r"Trying to backward through test_library.twice.default but no autograd"):
        result.sum().backward()


def test_kernel_may_change_an_argument_but_not_return_it():
    @library.custom_op("test_library::increment", mutates_args={"x"})
    def increment(x: Tensor) -> None:
        x.add_(1)

    values = torch.ones(2)
    assert increment(values) is None and values.tolist() == [2.0, 2.0]
    same = library.custom_op("test_library::same", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="output of this custom operator must not also be an input"):
        same(values)
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor' for argument 'x' but instead found type"):
        same("a")


def test_schemas_are_inferred_from_annotations():
    def many(x: Tensor, y: Tensor | None, s: Sequence[float], n: int = 3, *, mode: str = "a") -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    assert library.infer_schema(scaled_sine, mutates_args=()) == "(Tensor x, float scale=2.0) -> Tensor"
    wanted = '(Tensor(a0!) x, Tensor? y, float[] s, SymInt n=3, *, str mode="a") -> (Tensor, Tensor)'
    assert library.infer_schema(many, mutates_args={"x"}) == wanted
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        library.infer_schema(lambda x: x, mutates_args=())


def test_operators_of_a_library_are_defined_by_schema_and_kernel():
    group = library.Library("test_group", "DEF")
    group.define("double(Tensor x, int[] sizes=[1, 2], *, float scale=2.0) -> Tensor")
    group.impl("double", lambda x, sizes, scale: x * scale + len(sizes), "CPU")
    assert torch.ops.test_group.double(torch.ones(2)).tolist() == [4.0, 4.0]
    assert torch.ops.test_group.double(torch.ones(2), [], scale=3.0).tolist() == [3.0, 3.0]
    library.define("test_group::next", "(Tensor x) -> Tensor")
    library.impl("test_group::next", "cpu")(lambda x: x + 1)
    library.register_autograd("test_group::next", lambda ctx, g: g * 5)
    x = torch.ones(2, requires_grad=True)
    torch.ops.test_group.next(x).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    with pytest.raises(RuntimeError, match="operator test_group::missing does not exist"):
        library.register_fake("test_group::missing")(lambda x: x)
