"""Parameters that are computed from others, and weights that are normalized: PyTorch 2.13.0's prints, recorded."""

import copy

import pytest

from cstorch_compat.torch.nn.utils import parametrize, weight_norm
from lazytensor import equal, manual_seed, nn, no_grad, ones, tensor


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)

    def right_inverse(self, x):
        return x.triu()


def symmetric() -> nn.Module:
    manual_seed(0)
    return parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())


def test_a_parameter_is_computed_from_its_original_which_is_trained_and_saved():
    layer = symmetric()
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert equal(layer.weight, layer.weight.T) and layer.weight.requires_grad
    assert layer(ones(1, 3)).tolist()[0] == pytest.approx([-0.0170, 0.0677, -0.4851], abs=1e-4)
    layer(ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad.tolist() == [[1, 2, 2], [0, 1, 2], [0, 0, 1]]
    assert "(weight): ParametrizationList(\n      (0): Symmetric()" in repr(layer)


def test_what_is_assigned_goes_through_the_inverses_and_a_copy_has_its_own():
    layer = symmetric()
    other = copy.deepcopy(layer)
    layer.weight = ones(3, 3)
    assert layer.weight.tolist() == [[1] * 3] * 3 != other.weight.tolist()
    assert layer.parametrizations.weight.original.tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    with parametrize.cached():
        assert layer.weight is layer.weight


@pytest.mark.parametrize("leaves", [True, False])
def test_a_tensor_becomes_an_ordinary_parameter_again(leaves):
    layer = symmetric()
    computed, original = layer.weight.tolist(), layer.parametrizations.weight.original.tolist()
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=leaves)
    assert type(layer) is nn.Linear and sorted(layer.state_dict()) == ["bias", "weight"]
    assert layer.weight.tolist() == (computed if leaves else original)


def test_what_changes_the_shape_or_has_no_tensor_is_refused():
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="may not change the shape of the tensor, unless `unsafe`"):
        parametrize.register_parametrization(layer, "weight", nn.Flatten(0))
    with pytest.raises(ValueError, match="a parametrized element with name 'x'"):
        parametrize.register_parametrization(layer, "x", Symmetric())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")


def test_weights_are_normalized_with_the_draws_of_pytorch():
    manual_seed(1)
    split = weight_norm.weight_norm(nn.Linear(4, 3))
    assert split.weight.sum().item() == pytest.approx(0.32697845, rel=1e-6)
    split(ones(1, 4)).sum().backward()
    lengths = split.parametrizations.weight.original0.grad
    assert lengths.flatten().tolist() == pytest.approx([0.4123, -0.0311, 1.0181], abs=1e-4)
    spectral = weight_norm.parametrized_spectral_norm(nn.Conv2d(2, 3, 3))
    assert spectral.weight.sum().item() == pytest.approx(0.66579169, rel=1e-5)
    y = spectral(ones(1, 2, 5, 5)).sum()
    y.backward()
    assert y.item() == pytest.approx(5.1433678, rel=1e-5)
    assert spectral.parametrizations.weight.original.grad.norm().item() == pytest.approx(90.177307, rel=1e-5)


def test_the_hook_of_the_spectral_norm_follows_pytorch_from_step_to_step():
    manual_seed(2)
    layer = weight_norm.spectral_norm(nn.Linear(4, 3))
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    first, second = layer(ones(1, 4)), layer(ones(1, 4))
    assert first.tolist()[0] == pytest.approx([0.1014, 0.1546, -0.4189], abs=1e-4)
    assert second.tolist()[0] == pytest.approx([0.0973, 0.1595, -0.4101], abs=1e-4)
    with pytest.raises(RuntimeError, match="two spectral_norm hooks"):
        weight_norm.spectral_norm(layer)
    weight_norm.remove_spectral_norm(layer.eval())
    with no_grad():
        assert layer(ones(1, 4)).tolist()[0] == pytest.approx(second.tolist()[0], rel=1e-6)
    assert layer.weight[0].tolist() == pytest.approx(tensor([0.2215, -0.2298, 0.2649, -0.0493]).tolist(), abs=1e-4)
