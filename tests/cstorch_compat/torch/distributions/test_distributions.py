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


# The arguments, values, and PyTorch's answers: of 2.13 for `cdf` at the values, and for `icdf` at 0.1, 0.5 and 0.9.
DISTRIBUTION_FUNCTIONS = {
    "Gumbel": ((0.5, 2.0), [-1.0, 0.5, 3.0], [0.1203923, 0.3678795, 0.7508836], [-1.168065, 1.233026, 5.000731]),
    "Cauchy": ((0.5, 2.0), [-1.0, 0.5, 3.0], [0.2951672, 0.5, 0.7852232], [-5.655368, 0.5, 6.655365]),
    "HalfNormal": ((2.0,), [0.0, 0.5, 3.0], [0, 0.1974126, 0.8663857], [0.2513227, 1.348979, 3.289707]),
    "Gamma": ((1.5, 2.0), [0.1, 0.5, 3.0], [0.0597575, 0.4275933, 0.9926168], None),
}


@pytest.mark.parametrize("name", DISTRIBUTION_FUNCTIONS)
def test_distribution_function_and_its_inverse_are_pytorchs(name):
    torch = get_mirror("torch")
    arguments, values, below, quantiles = DISTRIBUTION_FUNCTIONS[name]
    family = getattr(get_mirror("torch.distributions"), name)(*arguments)
    assert family.cdf(torch.tensor(values)).tolist() == pytest.approx(below, rel=1e-5)
    if quantiles is not None:
        assert family.icdf(torch.tensor([0.1, 0.5, 0.9])).tolist() == pytest.approx(quantiles, rel=1e-5)


def test_distribution_function_of_a_mixture_is_the_weighted_sum():
    torch, D = get_mirror("torch"), get_mirror("torch.distributions")
    mixture = D.MixtureSameFamily(
        D.Categorical(torch.tensor([0.25, 0.75])), D.Normal(torch.tensor([0.0, 1.0]), torch.ones(2))
    )
    assert mixture.cdf(torch.tensor([0.0, 2.0])).tolist() == pytest.approx([0.2439914, 0.875321], rel=1e-5)
