"""Kullback-Leibler divergences of distributions, and their registration: `torch.distributions.kl`."""

import math
from collections.abc import Callable
from typing import Any

from cstorch_compat.torch.distributions.continuous import Cauchy, Exponential, Gamma, Laplace, Normal, Uniform
from cstorch_compat.torch.distributions.discrete import (
    Bernoulli,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from cstorch_compat.torch.distributions.distribution import Distribution, sum_rightmost
from cstorch_compat.torch.distributions.heavy_tailed import Pareto
from cstorch_compat.torch.distributions.multivariate import Beta, Dirichlet, Independent, MultivariateNormal
from cstorch_compat.torch.distributions.transformed_distribution import TransformedDistribution
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import ArgumentInvalid, OptionMissing
from lazytensor.functional import linalg, reduction
from lazytensor.functional import pointwise as pw
from lazytensor.functional.activation import softplus
from lazytensor.functional.gather_scatter import where
from lazytensor.functional.pointwise_special import digamma, lgamma
from lazytensor.functional.views import broadcast_to

KLRule = Callable[[Any, Any], Tensor]
_KL_RULES: dict[tuple[type, type], KLRule] = {}
"""The registered functions by the pair of distribution classes."""


def register_kl(type_p: type, type_q: type) -> Callable[[KLRule], KLRule]:
    """Return a decorator that registers a function (p, q) as the divergence of two distribution classes.

    It replaces an existing function for these classes, and returns the function unchanged. Raises TypeError if one of
    them is no class. As in PyTorch, classes outside of this package are accepted.
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise ArgumentInvalid(
                f"Expected type_p to be a Distribution subclass but got {kind}",
                where=source.where(),
                hint="Pass a class of torch.distributions.",
            )

    def registered(rule: KLRule) -> KLRule:
        _KL_RULES[type_p, type_q] = rule
        return rule

    return registered


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the divergence KL(p || q), the expectation under `p` of log p - log q, with the batch shape.

    The rule of the most derived classes is used, where the class of `p` takes precedence. Raises NotImplementedError if
    there is none.
    """
    for a in type(p).__mro__:
        for b in type(q).__mro__:
            if (a, b) in _KL_RULES:
                return _KL_RULES[a, b](p, q)
    raise OptionMissing(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}",
        where=source.where(),
        hint="Register a function with register_kl.",
    )


@register_kl(Normal, Normal)
def _kl_normal(p: Normal, q: Normal) -> Tensor:
    # The order of operations matches PyTorch in the last digits.
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    # Both outcomes separately, because each may be impossible for one distribution.
    yes = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    yes = where(q.probs == 0, yes * 0 + math.inf, yes)
    yes = where(p.probs == 0, yes * 0, yes)
    no = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    no = where(q.probs == 1, no * 0 + math.inf, no)
    answer: Tensor = yes + where(p.probs == 1, no * 0, no)
    return answer


@register_kl(Categorical, Categorical)
def _kl_categorical(p: Any, q: Any) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    # The divergence is infinite if q excludes a class of p. Classes that p excludes do not count.
    t = where(q.probs == 0, math.inf, t)
    return reduction.sum(where(p.probs == 0, 0.0, t), -1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _kl_categorical(p._categorical, q._categorical)


@register_kl(Exponential, Exponential)
def _kl_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _kl_gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    shapes = lgamma(b) - lgamma(a) + (a - b) * digamma(a)
    return b * (p.rate / q.rate).log() + shapes + (q.rate - p.rate) * (a / p.rate)


@register_kl(Geometric, Geometric)
def _kl_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - pw.log1p(-q.probs) / p.probs - q.logits


@register_kl(Laplace, Laplace)
def _kl_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * pw.exp(-distance / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _kl_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _kl_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    inside = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    # q excludes the numbers between the two scales.
    answer: Tensor = where(p.scale < q.scale, math.inf, inside)
    return answer


@register_kl(Poisson, Poisson)
def _kl_poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _kl_uniform(p: Uniform, q: Uniform) -> Tensor:
    inside = ((q.high - q.low) / (p.high - p.low)).log()
    answer: Tensor = where((q.low > p.low) | (q.high < p.high), math.inf, inside)
    return answer


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total, other = reduction.sum(a, -1), reduction.sum(b, -1)
    # The expected log of a component is digamma of its concentration minus digamma of the total.
    inner = (a - b) * (digamma(a) - digamma(total).unsqueeze(-1))
    return lgamma(total) - lgamma(other) - reduction.sum(lgamma(a) - lgamma(b), -1) + reduction.sum(inner, -1)


@register_kl(Beta, Beta)
def _kl_beta(p: Beta, q: Beta) -> Tensor:
    return _kl_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    n = p.event_shape[0]
    shape = tuple((p._lower + q._lower).shape)
    lower, own = broadcast_to(q._lower, shape), broadcast_to(p._lower, shape)
    # Solve triangular systems instead of computing an inverse.
    spread = reduction.sum(linalg.solve_triangular(lower, own, upper=False).pow(2), (-2, -1))
    d = broadcast_to((q.loc - p.loc).unsqueeze(-1), (*shape[:-1], 1))
    away = reduction.sum(linalg.solve_triangular(lower, d, upper=False).pow(2), (-2, -1))
    return q._half_log_det() - p._half_log_det() + 0.5 * (spread + away - n)


@register_kl(Independent, Independent)
def _kl_independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    # The divergence does not change under equal transforms.
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)
