"""Gradients at NaN, infinity and tiny numbers. Expected values are PyTorch 2.13's for tensors of one element."""

import math

import pytest

import lazytensor as lt
from lazytensor.autograd.function import grad
from lazytensor.nn import functional as F

NAN, INF = math.nan, math.inf
ZERO = lt.zeros(1)
SELU_SCALE = 1.0507010221481323
ROWS = [
    ("elu", F.elu, NAN, 1.0),
    ("celu", F.celu, NAN, 1.0),
    ("selu", F.selu, NAN, SELU_SCALE),
    ("hardtanh", F.hardtanh, NAN, 1.0),
    ("relu6", F.relu6, NAN, 1.0),
    ("hardshrink", F.hardshrink, NAN, 1.0),
    ("softshrink", F.softshrink, NAN, 1.0),
    ("relu", F.relu, NAN, 1.0),
    ("celu far below 0", F.celu, -20.0, 2.0611536e-09),
    ("huber_loss", lambda x: F.huber_loss(x, ZERO), INF, 1.0),
    ("huber_loss", lambda x: F.huber_loss(x, ZERO), -INF, -1.0),
    ("huber_loss", lambda x: F.huber_loss(x, ZERO, delta=0.3), INF, 0.3),
    ("huber_loss", lambda x: F.huber_loss(x, ZERO), NAN, NAN),
    ("smooth_l1_loss", lambda x: F.smooth_l1_loss(x, ZERO), INF, 1.0),
    ("smooth_l1_loss", lambda x: F.smooth_l1_loss(x, ZERO), 1e30, 1.0),
    ("smooth_l1_loss", lambda x: F.smooth_l1_loss(x, ZERO), NAN, NAN),
    ("sinc", lt.sinc, 1e-20, 0.0),
    ("sinc", lt.sinc, 0.0, 0.0),
]


@pytest.mark.parametrize("name, function, x, expected", ROWS)
def test_gradient_at_a_special_value_is_pytorchs(name, function, x, expected):
    x = lt.tensor([x], requires_grad=True)
    (gradient,) = grad(function(x).sum(), x)
    assert gradient.item() == pytest.approx(expected, rel=1e-6, abs=1e-15, nan_ok=True)


def test_margin_losses_ignore_nan_as_pytorch():
    x = lt.tensor([[NAN, 1.0]], requires_grad=True)
    for loss in (F.multi_margin_loss(x, lt.tensor([0])), F.multilabel_margin_loss(x, lt.tensor([[0, -1]]))):
        (gradient,) = grad(loss, x)
        assert (loss.item(), gradient.tolist()) == (0, [[0, 0]])


def test_margin_is_added_to_the_distance_of_the_positive_first():
    far = [lt.tensor([[v]], dtype=lt.float64) for v in (1e20, 0.0, 0.0)]
    assert F.triplet_margin_loss(*far).item() == 0
