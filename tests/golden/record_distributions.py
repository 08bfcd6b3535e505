"""Writes distributions.json: draws, densities and moments of torch.distributions, as PyTorch gives them.

    python tests/golden/record_distributions.py        # in an environment with torch

`tests/cstorch_compat/torch/distributions/test_distributions.py` holds the same cases.
"""

import importlib
import json
import pathlib
from typing import Any

FILE = pathlib.Path(__file__).with_name("distributions.json")


def cases(torch: Any, D: Any) -> dict[str, Any]:
    """Each family with some parameters."""
    t, pair = torch.tensor, (torch.tensor([0.5, -1.0]), torch.tensor([1.0, 2.0]))
    matrix, rows = t([[2.0, 0.5], [0.5, 1.0]]), t([[0.3, 0.5, 0.2], [1.0, 2.0, 3.0]])
    T, normal = D.transforms, D.Normal(*pair)
    flat = D.Normal(torch.zeros(2, 3), torch.ones(2, 3))
    return {
        "normal": normal,
        "laplace": D.Laplace(*pair),
        "cauchy": D.Cauchy(*pair),
        "gumbel": D.Gumbel(*pair),
        "half normal": D.HalfNormal(pair[1]),
        "uniform": D.Uniform(t([0.0, -1.0]), pair[1]),
        "exponential": D.Exponential(t([0.5, 2.0])),
        "gamma": D.Gamma(t([0.5, 3.0]), pair[1]),
        "chi2": D.Chi2(t([3.0, 5.0])),
        "student": D.StudentT(t([3.0, 5.0]), *pair),
        "bernoulli": D.Bernoulli(t([0.3, 0.8])),
        "bernoulli logits": D.Bernoulli(logits=t([0.3, -0.8])),
        "geometric": D.Geometric(t([0.3, 0.8])),
        "poisson": D.Poisson(t([0.7, 25.0])),
        "categorical": D.Categorical(rows),
        "categorical logits": D.Categorical(logits=rows),
        "one hot": D.OneHotCategorical(rows),
        "multinomial": D.Multinomial(5, rows[0]),
        "dirichlet": D.Dirichlet(rows),
        "beta": D.Beta(t([0.5, 2.0]), t([2.0, 3.0])),
        "multivariate": D.MultivariateNormal(pair[0], matrix),
        "multivariate precision": D.MultivariateNormal(pair[0], precision_matrix=matrix),
        "multivariate factor": D.MultivariateNormal(torch.zeros(3, 2), scale_tril=torch.diag(pair[1])),
        "independent": D.Independent(flat, 1),
        "log normal": D.LogNormal(pair[0], t([1.0, 0.5])),
        "tanh": D.TransformedDistribution(normal, [T.TanhTransform()]),
        "affine": D.TransformedDistribution(normal, [T.SigmoidTransform(), T.AffineTransform(1.0, 3.0)]),
        "stick": D.TransformedDistribution(flat, [T.StickBreakingTransform()]),
        "weibull": D.Weibull(pair[1], t([1.3, 0.6])),
        "pareto": D.Pareto(pair[1], t([3.9, 1.8])),
        "kumaraswamy": D.Kumaraswamy(t([0.7, 2.5]), t([1.3, 1.6])),
        "half cauchy": D.HalfCauchy(pair[1]),
        "inverse gamma": D.InverseGamma(t([2.1, 7.5]), pair[1]),
        "generalized pareto": D.GeneralizedPareto(*pair, t([0.1, -0.3])),
        "generalized pareto without tail": D.GeneralizedPareto(*pair, t([0.0, 0.7])),
        "fisher": D.FisherSnedecor(t([4.2, 1.5]), t([13.0, 3.0])),
        "relaxed bernoulli": D.RelaxedBernoulli(t(0.5), probs=t([0.2, 0.7])),
        "relaxed categorical": D.RelaxedOneHotCategorical(t(2.0), logits=rows),
        "logistic normal": D.LogisticNormal(*pair),
        "mixture": D.MixtureSameFamily(D.Categorical(t([0.2, 0.8])), D.Normal(t([0.0, 5.0]), t([1.0, 1.0]))),
    }


def pairs(torch: Any, D: Any) -> dict[str, Any]:
    """To which distribution of its family the divergence of each is taken."""
    t, one = torch.tensor, torch.tensor([1.0, 1.0])
    return {
        "normal": D.Normal(t([0.0, 0.0]), t([1.0, 3.0])),
        "bernoulli": D.Bernoulli(one / 2),
        "categorical": D.Categorical(t([[0.2, 0.2, 0.6], [1.0, 1.0, 1.0]])),
        "one hot": D.OneHotCategorical(t([[0.2, 0.2, 0.6], [1.0, 1.0, 1.0]])),
        "exponential": D.Exponential(one),
        "gamma": D.Gamma(t([1.0, 2.0]), one),
        "geometric": D.Geometric(one / 2),
        "laplace": D.Laplace(one - 1, one),
        "poisson": D.Poisson(t([1.0, 20.0])),
        "uniform": D.Uniform(-2 * one, 3 * one),
        "dirichlet": D.Dirichlet(t([[1.0, 1.0, 1.0], [2.0, 1.0, 1.0]])),
        "beta": D.Beta(one, t([1.0, 2.0])),
        "multivariate": D.MultivariateNormal(one - 1, torch.eye(2)),
        "independent": D.Independent(D.Normal(torch.ones(2, 3), torch.ones(2, 3)), 1),
        "log normal": D.LogNormal(one - 1, one),
        "cauchy": D.Cauchy(one - 1, 3 * one),
        "pareto": D.Pareto(t([0.5, 3.0]), one),
        "half cauchy": D.HalfCauchy(one),
    }


def facts(torch: Any, D: Any) -> dict[str, Any]:
    """What is compared: shapes, draws, densities, moments, entropies, divergences; None where there is none."""
    answers: dict[str, Any] = {}
    targets = pairs(torch, D)
    for name, d in cases(torch, D).items():
        torch.manual_seed(1)
        drawn = d.sample((3,))
        found = {"shapes": [list(d.batch_shape), list(d.event_shape)], "drawn": drawn, "last": d.sample((20,))[-1]}
        found["log_prob"] = d.log_prob(drawn)
        for what in ("mean", "variance", "entropy"):
            try:
                value = getattr(d, what)
                found[what] = value() if callable(value) else value
            except NotImplementedError:
                found[what] = None
        if name in targets:
            found["kl"] = D.kl_divergence(d, targets[name])
        answers[name] = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in found.items()}
    return answers


if __name__ == "__main__":
    module = importlib.import_module("torch")
    FILE.write_text(json.dumps(facts(module, importlib.import_module("torch.distributions"))) + "\n")
