"""Continuous distributions of positive numbers with heavy tails, and of numbers in an interval, by transforms."""

import math
from typing import Any

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.continuous import (
    EULER_GAMMA,
    Cauchy,
    Exponential,
    Gamma,
    Uniform,
    smallest_normal,
)
from cstorch_compat.torch.distributions.distribution import Distribution, broadcast_all
from cstorch_compat.torch.distributions.transformed_distribution import TransformedDistribution
from cstorch_compat.torch.distributions.transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform
from lazytensor.core.tensor import Tensor
from lazytensor.functional.creation import rand
from lazytensor.functional.gather_scatter import where
from lazytensor.functional.pointwise_special import digamma, lgamma


class _ExpandedByArguments(Distribution):
    """A distribution whose constructor takes the parameters of `arg_constraints`, each of the batch shape."""

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """Return the distribution expanded to `batch_shape`."""
        shape = tuple(batch_shape)
        given = {name: getattr(self, name).expand(shape) for name in self.arg_constraints}
        return type(self)(**given, validate_args=False)


class Weibull(_ExpandedByArguments, TransformedDistribution):
    """The Weibull distribution with the parameters `scale` and `concentration`."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(self.scale.new_ones(tuple(self.scale.shape)), validate_args=validate_args)
        power = PowerTransform(self.concentration.reciprocal())
        super().__init__(base, [power, AffineTransform(0, self.scale)], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return scale * gamma(1 + 1 / concentration)."""
        return self.scale * lgamma(1 + self.concentration.reciprocal()).exp()

    @property
    def mode(self) -> Tensor:
        """Return scale * ((k - 1) / k)^(1 / k) for the concentration k."""
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal()

    @property
    def variance(self) -> Tensor:
        """Return scale^2 (gamma(1 + 2 / k) - gamma(1 + 1 / k)^2) for the concentration k."""
        inverse = self.concentration.reciprocal()
        return self.scale.pow(2) * (lgamma(1 + 2 * inverse).exp() - (2 * lgamma(1 + inverse)).exp())

    def entropy(self) -> Tensor:
        """Return Euler's constant * (1 - 1 / k) + log(scale / k) + 1 for the concentration k."""
        inverse = self.concentration.reciprocal()
        return EULER_GAMMA * (1 - inverse) + (self.scale * inverse).log() + 1


class Pareto(_ExpandedByArguments, TransformedDistribution):
    """The Pareto distribution of numbers of at least `scale` with the tail index `alpha`."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    @property
    def support(self) -> Any:
        """Return the constraint of numbers of at least `scale`."""
        return constraints._GreaterThanEq(self.scale)

    @property
    def mean(self) -> Tensor:
        """Return alpha scale / (alpha - 1), or infinity for an `alpha` of at most 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """Return `scale`."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """Return scale^2 a / ((a - 1)^2 (a - 2)), or infinity for an `alpha` of at most 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Tensor:
        """Return log(scale / alpha) + 1 + 1 / alpha."""
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class Kumaraswamy(_ExpandedByArguments, TransformedDistribution):
    """The Kumaraswamy distribution on (0, 1) with the parameters `concentration1` (a) and `concentration0` (b)."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        whole = self.concentration0.new_ones(tuple(self.concentration0.shape))
        transforms = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(Uniform(whole * 0, whole, validate_args), transforms, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * (lgamma(a) + lgamma(b) - lgamma(a + b)).exp()

    @property
    def mean(self) -> Tensor:
        """Return b B(1 + 1 / a, b), with the beta function B."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """Return ((a - 1) / (a b - 1))^(1 / a), or NaN if a or b is less than 1."""
        a, b = self.concentration1, self.concentration0
        mode: Tensor = where((a < 1) | (b < 1), math.nan, ((a - 1) / (a * b - 1)) ** a.reciprocal())
        return mode

    @property
    def variance(self) -> Tensor:
        """Return the second moment minus the square of the mean."""
        return self._moment(2) - self._moment(1).pow(2)

    def entropy(self) -> Tensor:
        """Return 1 - 1 / b + (1 - 1 / a) h - log(a b), where h is the harmonic number of b."""
        a, b = self.concentration1, self.concentration0
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * (digamma(b + 1) + EULER_GAMMA) - a.log() - b.log()


class HalfCauchy(_ExpandedByArguments, TransformedDistribution):
    """The distribution of the absolute value of a Cauchy variable with location 0 and scale `scale`."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    base_dist: Cauchy

    def __init__(self, scale: Any, validate_args: bool | None = None):
        super().__init__(Cauchy(0, scale, validate_args), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """Return the scale."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """Return infinity."""
        return self.scale * math.inf

    @property
    def mode(self) -> Tensor:
        """Return 0."""
        return self.scale * 0

    @property
    def variance(self) -> Tensor:
        """Return infinity."""
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        """Return log(2) plus the log density of the Cauchy distribution; -infinity for negative numbers."""
        self._validate_sample(value)
        inside = self.base_dist.log_prob(value) + math.log(2)
        answer: Tensor = where(value >= 0, inside, -math.inf)
        return answer

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function at `value`."""
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of the cumulative distribution function at the probability `value`."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the entropy of the Cauchy distribution minus log(2)."""
        return self.base_dist.entropy() - math.log(2)


class InverseGamma(_ExpandedByArguments, TransformedDistribution):
    """The distribution of 1 / x, where x has the gamma distribution with `concentration` (c) and `rate`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """Return the concentration."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Return the rate."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """Return rate / (c - 1), or infinity for a concentration of at most 1."""
        mean: Tensor = where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)
        return mean

    @property
    def mode(self) -> Tensor:
        """Return rate / (c + 1)."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """Return rate^2 / ((c - 1)^2 (c - 2)), or infinity for a concentration of at most 2."""
        c = self.concentration
        variance: Tensor = where(c > 2, self.rate.square() / ((c - 1).square() * (c - 2)), math.inf)
        return variance

    def entropy(self) -> Tensor:
        """Return c + log(rate) + lgamma(c) - (1 + c) digamma(c)."""
        c = self.concentration
        return c + self.rate.log() + lgamma(c) - (1 + c) * digamma(c)


class GeneralizedPareto(_ExpandedByArguments):
    """The generalized Pareto distribution with the parameters `loc`, `scale` and `concentration` (k)."""

    has_rsample = True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        """Return the interval from `loc` to infinity, or to loc - scale / k for a negative concentration."""
        k = self.concentration
        return constraints._Interval(self.loc, where(k < 0, self.loc - self.scale / k, math.inf))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples: uniform numbers transformed by the inverse distribution function."""
        return self.icdf(rand(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype))

    def _survival_log(self, value: Tensor) -> Tensor:
        """Return the log of the probability of larger numbers, log1p(k z) / -k, or -z for a concentration of 0."""
        z, k = (value - self.loc) / self.scale, self.concentration
        is_zero = k == 0
        log: Tensor = where(is_zero, -z, (k * z).log1p() / -where(is_zero, 1.0, k))
        return log

    def log_prob(self, value: Tensor) -> Tensor:
        """Return (1 + k) log(1 - F(x)) - log(scale), where F is the cumulative distribution function."""
        self._validate_sample(value)
        return (1 + self.concentration) * self._survival_log(value) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function at `value`."""
        self._validate_sample(value)
        return -self._survival_log(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """Return loc + scale ((1 - p)^-k - 1) / k at the probability p = `value`, or its limit for k = 0."""
        log, k = (-value).log1p(), self.concentration
        is_zero = k == 0
        z = where(is_zero, -log, (-k * log).expm1() / where(is_zero, 1.0, k))
        answer: Tensor = self.loc + self.scale * z
        return answer

    @property
    def mean(self) -> Tensor:
        """Return loc + scale / (1 - k), or NaN for a concentration of at least 1."""
        mean: Tensor = where(self.concentration < 1, self.loc + self.scale / (1 - self.concentration), math.nan)
        return mean

    @property
    def mode(self) -> Tensor:
        """Return `loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Return scale^2 / ((1 - k)^2 (1 - 2 k)), or NaN for a concentration of at least 1/2."""
        k = self.concentration
        variance: Tensor = where(k < 0.5, self.scale.pow(2) / ((1 - k).pow(2) * (1 - 2 * k)), math.nan)
        return variance

    def entropy(self) -> Tensor:
        """Return log(scale) + k + 1."""
        return self.scale.log() + self.concentration + 1


class FisherSnedecor(_ExpandedByArguments):
    """The F distribution, of the ratio of two gamma variables, with `df1` and `df2` degrees of freedom."""

    has_rsample = True
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return df2 / (df2 - 2), or NaN if `df2` is at most 2."""
        mean: Tensor = where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)
        return mean

    @property
    def mode(self) -> Tensor:
        """Return (df1 - 2) / df1 * df2 / (df2 + 2), or NaN if `df1` is at most 2."""
        mode: Tensor = where(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), math.nan)
        return mode

    @property
    def variance(self) -> Tensor:
        """Return 2 df2^2 (df1 + df2 - 2) / (df1 (df2 - 2)^2 (df2 - 4)), or NaN if `df2` is at most 4."""
        a, b = self.df1, self.df2
        variance = 2 * b.pow(2) * (a + b - 2) / (a * (b - 2).pow(2) * (b - 4))
        answer: Tensor = where(b > 4, variance, math.nan)
        return answer

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples: the ratio of two gamma variables with mean 1."""
        above, below = (Gamma(df / 2, df / 2, validate_args=False).rsample(sample_shape) for df in (self.df1, self.df2))
        return above / below.clamp(min=smallest_normal(self.df2.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density at `value`."""
        self._validate_sample(value)
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        scale = lgamma(a + b) - lgamma(a) - lgamma(b)
        return scale + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()
