"""Distributions that are not implemented, as classes whose constructor raises OptionMissing.

Libraries subclass each distribution of PyTorch when they are imported.
"""

from typing import Any

from cstorch_compat.torch.distributions.distribution import Distribution, ExponentialFamily
from cstorch_compat.torch.unavailable import find_refusal_reason, make_refusal_error

BASE_CLASSES: dict[str, type[Distribution]] = {
    "Binomial": Distribution,
    "ContinuousBernoulli": ExponentialFamily,
    "LKJCholesky": Distribution,
    "LowRankMultivariateNormal": Distribution,
    "NegativeBinomial": Distribution,
    "VonMises": Distribution,
    "Wishart": ExponentialFamily,
}
"""The distributions, with their base classes in PyTorch."""


def _make_absent_distribution(name: str) -> type[Distribution]:
    path = f"torch.distributions.{name}"

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        raise make_refusal_error(path)

    body = {
        "__init__": __init__,
        "__doc__": f"A distribution whose constructor raises OptionMissing, because {name} is not implemented.",
        "__module__": "torch.distributions",
        "refused": find_refusal_reason(path),
    }
    return type(name, (BASE_CLASSES[name],), body)


ABSENT_DISTRIBUTIONS = {name: _make_absent_distribution(name) for name in BASE_CLASSES}
"""The classes by name."""


def __getattr__(name: str) -> type[Distribution]:
    if name in ABSENT_DISTRIBUTIONS:
        return ABSENT_DISTRIBUTIONS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
