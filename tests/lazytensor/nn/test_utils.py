"""Weight normalisation, and dropout's numbers outside a step; answers recorded from PyTorch 2.13.0."""

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.nn.utils import remove_weight_norm, weight_norm


def test_a_normalised_layer_has_the_values_and_gradients_of_pytorch():
    lt.manual_seed(0)
    layer = weight_norm(lt.nn.Linear(3, 2))
    conv = weight_norm(lt.nn.Conv1d(2, 3, 2), dim=None)
    loss = (layer(lt.linspace(-1, 1, 6).reshape(2, 3)) ** 2).sum()
    loss = loss + (conv(lt.linspace(-1, 1, 8).reshape(1, 2, 4)) ** 2).sum()
    loss.backward()
    assert loss.item() == pytest.approx(4.788423538208008, rel=1e-6)
    np.testing.assert_allclose(layer.weight_g.grad.numpy().ravel(), [0.33853939, 1.96232998], rtol=1e-6)
    np.testing.assert_allclose(
        layer.weight_v.grad.numpy()[0], [0.07773419469595, -0.42934980988502, -0.28054824471473], rtol=2e-6
    )
    assert [tuple(v.shape) for v in conv.state_dict().values()] == [(3,), (), (3, 2, 2)]


def test_taking_the_norm_away_keeps_the_function():
    layer, x = weight_norm(lt.nn.Linear(3, 2)), lt.rand(4, 3)
    before = layer(x).detach().numpy()
    assert sorted(remove_weight_norm(layer).state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(layer(x).detach().numpy(), before, rtol=1e-6)
    with pytest.raises(ValueError, match="not found"):
        remove_weight_norm(layer)


@pytest.mark.parametrize("n", [8, 40])
def test_dropout_outside_a_step_drops_what_pytorch_drops(n):
    lt.manual_seed(3)
    kept = lt.nn.Dropout(0.3)(lt.ones(n)).numpy()[:8]
    np.testing.assert_allclose(kept, np.array([1, 1, 0, 1, 0, 1, 1, 1]) / np.float32(0.7), rtol=1e-7)
