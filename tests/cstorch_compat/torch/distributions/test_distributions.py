"""torch.distributions: draws, densities, moments and divergences are those recorded from PyTorch 2.13.0."""

import json
import math

import numpy as np
import pytest

from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor import random
from lazytensor.functional import creation
from tests.golden import record_distributions as recorded

RECORDED = json.loads(recorded.FILE.read_text())
NOT_WRITTEN = {("student", "entropy"), ("multinomial", "entropy")}


@pytest.fixture(scope="module")
def ours():
    return recorded.facts(get_mirror("torch"), get_mirror("torch.distributions"))


@pytest.mark.parametrize("name", RECORDED)
def test_a_family_answers_as_pytorchs(name, ours):
    for what, expected in RECORDED[name].items():
        if (name, what) in NOT_WRITTEN:
            assert ours[name][what] is None
        elif expected is None or what == "shapes":
            assert ours[name][what] == expected, what
        else:
            np.testing.assert_allclose(ours[name][what], expected, rtol=2e-5, atol=2e-6, err_msg=what)


def test_gradients_pass_what_was_drawn():
    # Recorded: the gradient of a gamma draw by its concentration, of normal draws by mean and deviation.
    D = get_mirror("torch.distributions")
    shape = creation.tensor([0.7, 3.0], requires_grad=True)
    random.manual_seed(2)
    D.Gamma(shape, creation.tensor([1.0, 1.0])).rsample().sum().backward()
    assert shape.grad.tolist() == pytest.approx([0.38284, 1.27503], abs=1e-4)
    scores = creation.tensor([0.7, 3.0], requires_grad=True)
    c = D.Categorical(logits=scores)
    (c.log_prob(creation.tensor(1)) + c.entropy()).backward()
    assert sum(scores.grad.tolist()) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda D: D.Normal(0.0, -1.0), r"Expected parameter scale \(Tensor of shape \(\)\) of distribution Normal"),
        (lambda D: D.Bernoulli(creation.tensor(2.0)), r"to satisfy the constraint Interval\(lower_bound=0.0"),
        (lambda D: D.Categorical(), "Either `probs` or `logits` must be specified, but not both."),
        (lambda D: D.Normal(0.0, 1.0).log_prob(creation.tensor(math.nan)), r"to be within the support \(Real\(\)\)"),
        (lambda D: D.Categorical(creation.tensor([0.5, 0.5])).log_prob(creation.tensor(3)), "to be within the support"),
    ],
)
def test_wrong_arguments_are_refused_with_the_value(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong(get_mirror("torch.distributions"))


def test_expanded_and_registered():
    D = get_mirror("torch.distributions")
    wide = D.Independent(D.Normal(creation.zeros(2), creation.ones(2)), 1).expand((4,))
    assert (tuple(wide.batch_shape), tuple(wide.event_shape), tuple(wide.sample().shape)) == ((4,), (2,), (4, 2))
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Gumbel(0.0, 1.0))

    class Mine(D.Normal):
        """A family of a script's."""

    D.register_kl(Mine, Mine)(lambda p, q: creation.tensor(7.0))
    assert D.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)).item() == 7.0


def test_decreasing_transform_mirrors_the_distribution_function():
    torch, families = get_mirror("torch"), get_mirror("torch.distributions")
    normal = families.Normal(0.0, 1.0)
    mirrored = families.TransformedDistribution(normal, [families.AffineTransform(0.0, -2.0)])
    assert mirrored.cdf(torch.tensor([1.0, -3.0])).tolist() == pytest.approx([0.6914625, 0.0668072])
    assert mirrored.icdf(torch.tensor([0.2, 0.9])).tolist() == pytest.approx([-1.6832424, 2.5631032])
    mixed = families.TransformedDistribution(normal, [families.AffineTransform(0.0, torch.tensor([-2.0, 2.0]))])
    assert mixed.cdf(torch.tensor([1.0, -3.0])).tolist() == pytest.approx([0.6914625, 0.0668072])


def test_half_open_interval_excludes_its_upper_bound():
    interval = get_mirror("torch.distributions").constraints.half_open_interval(0, 1)
    values = get_mirror("torch").tensor([0.0, 1.0, 0.5])
    assert interval.check(values).tolist() == [True, False, True]
