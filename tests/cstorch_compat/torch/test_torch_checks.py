"""Checks of `torch.func`, anomalies, distributions and gradient scalers that PyTorch makes."""

import pytest

import lazytensor as lt
from cstorch_compat.torch.amp import GradScaler
from cstorch_compat.torch.distributions.multivariate import MultivariateNormal
from cstorch_compat.torch.func.transforms import functional_call, vmap
from cstorch_compat.torch.global_settings import detect_anomaly, set_detect_anomaly
from lazytensor import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


def test_tied_parameters_take_one_value():
    x = lt.ones(1, 2)
    assert functional_call(Tied(), {"b.weight": lt.eye(2) * 3}, (x,)).tolist() == [[9, 9]]
    with pytest.raises(ValueError, match="tied"):
        functional_call(Tied(), {"a.weight": lt.eye(2), "b.weight": lt.eye(2) * 2}, (x,))
    apart = {"a.weight": lt.eye(2), "b.weight": lt.eye(2) * 2}
    assert functional_call(Tied(), apart, (x,), tie_weights=False).tolist() == [[2, 2]]
    with pytest.raises(ValueError, match="multiple dictionaries"):
        functional_call(Tied(), ({"a.weight": lt.eye(2)}, {"a.weight": lt.eye(2)}), (x,))


def test_vmap_draws_as_its_randomness_says():
    def noisy(x):
        return x + lt.randn(2)

    x = lt.zeros(3, 2)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(noisy)(x)
    same, different = (vmap(noisy, randomness=kind)(x) for kind in ("same", "different"))
    assert (same == same[:1]).all()
    assert (different != different[:1]).any()
    with pytest.raises(RuntimeError, match="Only allowed values"):
        vmap(noisy, randomness="other")
    assert vmap(lambda x: x * 2)(x).shape == (3, 2)


def test_anomaly_detection_names_the_function_whose_gradient_is_nan():
    x = lt.zeros(2, requires_grad=True)
    with detect_anomaly(), pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0th output"):
        (lt.sqrt(x) * 0).sum().backward()
    with set_detect_anomaly(True, check_nan=False):
        (lt.sqrt(x) * 0).sum().backward()
    assert x.grad.isnan().all()


@pytest.mark.parametrize("name", ["covariance_matrix", "precision_matrix"])
@pytest.mark.parametrize("matrix", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
def test_matrix_that_is_not_positive_definite_is_refused(name, matrix):
    with pytest.raises(ValueError, match=name):
        MultivariateNormal(lt.zeros(2), **{name: lt.tensor(matrix)})


def test_gradients_of_float16_are_not_unscaled():
    weight = nn.Parameter(lt.ones(2).half())
    optimizer, scaler = lt.optim.SGD([weight], lr=0.1), GradScaler("cpu")
    scaler.scale(weight.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(optimizer)
