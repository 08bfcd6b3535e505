"""Names of PyTorch that are compositions: lists of tensors, sliding blocks, old initializers, devices that are absent.

Numbers and messages were recorded from PyTorch 2.13.0.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.torch import foreach
from cstorch_compat.torch.nn import init
from cstorch_compat.torch.nn.modules.fold import Fold, Unfold, fold, unfold
from cstorch_compat.torch.nn.modules.sync_batchnorm import SyncBatchNorm
from lazytensor import arange, nn, ones, ones_like, randn, tensor
from lazytensor.errors import DeviceAbsent, ShapeError

torch = get_mirror("torch")
SETTINGS = ({"kernel_size": 3}, {"kernel_size": (2, 3), "padding": 1, "stride": 2}, {"kernel_size": 2, "dilation": 2})


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_folding_is_the_adjoint_of_unfolding(settings):
    x = randn(2, 3, 7, 6, requires_grad=True)
    columns = unfold(x, **settings)
    y = randn(*columns.shape)
    back = fold(y, (7, 6), **settings)
    np.testing.assert_allclose((columns * y).sum().item(), (x * back).sum().item(), rtol=1e-4)
    columns.backward(y)
    np.testing.assert_allclose(x.grad.numpy(), back.numpy(), rtol=1e-5, atol=1e-6)


def test_blocks_lie_as_in_pytorch():
    x = arange(16.0).reshape(1, 1, 4, 4)
    recorded = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert Unfold(2, stride=2)(x)[0].T.tolist() == recorded
    assert Fold((4, 4), 2)(unfold(ones_like(x), 2))[0, 0].tolist() == [
        [1, 2, 2, 1], [2, 4, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1],
    ]  # fmt: skip
    assert repr(Unfold(2)) == "Unfold(kernel_size=2, dilation=1, padding=0, stride=1)"
    with pytest.raises(ShapeError, match="must be at least one"):
        unfold(x, 5)
    with pytest.raises(ShapeError, match=r"expected input of shape \[N, multiple of 4, 9\]"):
        fold(x[0], (4, 4), 2)


@given(st.lists(st.floats(-9, 9, width=32), min_size=1, max_size=4))
def test_an_operation_over_lists_is_the_operation_on_each(values):
    a, b = [tensor([v, 1.0]) for v in values], [tensor(v + 1) for v in values]
    for name in ("add", "mul", "maximum", "lerp"):
        third = (0.5,) if name == "lerp" else ()
        results = getattr(foreach, f"_foreach_{name}")(a, b, *third)
        assert [r.tolist() for r in results] == [
            getattr(x, name)(y, *third).tolist() for x, y in zip(a, b, strict=True)
        ]
        written = [x.clone() for x in a]
        assert getattr(foreach, f"_foreach_{name}_")(written, b, *third) is None
        assert [r.tolist() for r in written] == [r.tolist() for r in results]


def test_lists_take_a_number_for_each_tensor_and_refuse_other_lengths():
    a = [ones(2), ones(1) * 3]
    assert [r.tolist() for r in foreach._foreach_mul(a, [1.0, 2.0])] == [[1, 1], [6]]
    assert [r.tolist() for r in foreach._foreach_addcmul(a, a, a, [1.0, 2.0])] == [[2, 2], [21]]
    assert [r.item() for r in foreach._foreach_norm(a)] == [pytest.approx(2**0.5), 3]
    with pytest.raises(RuntimeError, match="Tensor lists must have the same number of tensors, got 2 and 1"):
        foreach._foreach_add(a, a[:1])
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        foreach._foreach_mul(a, [1.0])
    with pytest.raises(RuntimeError, match="must have at least one tensor"):
        foreach._foreach_add([], [])


@pytest.mark.parametrize("name", init.DEPRECATED_NAMES)
def test_old_initializers_warn_and_name_their_successor(name):
    arguments = {"constant": (3.0,), "sparse": (0.5,)}.get(name, ())
    x = ones(2, 2, 2) if name == "dirac" else ones(2, 2)
    with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`."):
        assert getattr(init, name)(x, *arguments) is x


def test_norms_become_synchronized_ones_over_the_same_parameters():
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3)))
    weight, keys = model[1][0].weight, list(model.state_dict())
    expected = model(ones(4, 2)).tolist()
    converted = SyncBatchNorm.convert_sync_batchnorm(model)
    assert type(converted[1][0]) is SyncBatchNorm and converted[1][0].weight is weight
    assert list(converted.state_dict()) == keys and converted(ones(4, 2)).tolist() == expected
    with pytest.raises(ValueError, match=r"expected at least 2D input \(got 1D input\)"):
        SyncBatchNorm(3)(ones(3))


MOVES = (
    lambda x: x.cuda(),
    lambda x: x.to("cuda:0"),
    lambda x: nn.Linear(2, 2).cuda(),
    lambda x: ones(2, device="cuda"),
)


@pytest.mark.parametrize("move", MOVES)
def test_nothing_moves_to_a_gpu(move):
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        move(ones(2))
    with pytest.raises(DeviceAbsent, match="not linked with support for mps"):
        ones(2).to("mps")


def test_a_tensor_is_detached_in_place_unless_it_is_a_view():
    x = ones(2, requires_grad=True)
    y = x * 2
    assert y.detach_() is y and not y.requires_grad and y.is_leaf and y.is_cpu
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        (x * 2)[:1].detach_()


def test_window_of_one_element_is_one():
    for window in (torch.bartlett_window, torch.kaiser_window):
        assert [window(1).tolist(), window(1, periodic=False).tolist(), window(0).tolist()] == [[1.0], [1.0], []]


def test_empty_tensor_has_the_strides_that_are_asked_for():
    assert torch.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert torch.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)
    weight = torch.empty_strided((2, 3), (1, 2), requires_grad=True)
    assert weight.is_leaf and weight.requires_grad and weight.shape == (2, 3)


def test_large_finite_gradients_are_no_overflow():
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    weight.grad = torch.full((3,), 3e38)
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer) is None and weight.tolist() == [0.0] * 3
    weight.grad = torch.full((3,), float("inf"))
    scaler.update()
    assert scaler.get_scale() == 1.0
    scaler.unscale_(optimizer)
    scaler.update()
    assert scaler.get_scale() == 0.5
