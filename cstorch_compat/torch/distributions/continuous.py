"""Continuous univariate distributions. The random numbers and their order match PyTorch's observed results."""

import math
from typing import Any

import numpy as np

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.distribution import Distribution, ExponentialFamily, broadcast_all
from cstorch_compat.torch.distributions.gamma_sampling import standard_gamma
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import empty, rand, zeros
from lazytensor.functional.gather_scatter import where
from lazytensor.functional.pointwise_special import digamma, erfinv, igamma, lgamma, xlogy
from lazytensor.functional.views import expand

EULER_GAMMA = 0.57721566490153286060


def standard_normal(shape: Any, like: Tensor) -> Tensor:
    """Return standard normal numbers of the given shape, with the dtype and device of `like`."""
    return empty(tuple(shape), dtype=like.dtype, device=like.device).normal_()


def smallest_normal(dtype: DType) -> float:
    """Return the smallest positive normal number of a dtype."""
    return float(np.finfo(dtype.host).tiny)


def machine_epsilon(dtype: DType) -> float:
    """Return the distance from 1 to the next larger number of a dtype."""
    return float(np.finfo(dtype.host).eps)


class _LocationScale(Distribution):
    """The base class of distributions with a location `loc` and a scale `scale`."""

    has_rsample = True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return `loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """Return `loc`."""
        return self.loc


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    @property
    def stddev(self) -> Tensor:
        """Return `scale`."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """Return the square of `scale`."""
        return self.scale**2

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples without gradients."""
        return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples loc + scale * z, with z standard normal, which are differentiable."""
        # The order of operations matches PyTorch in the last digit.
        return self.loc + standard_normal(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density -(x - loc)^2 / (2 scale^2) - log(scale) - log(sqrt(2 pi))."""
        self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.variance) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function at `value`."""
        self._validate_sample(value)
        return 0.5 * (1 + pw.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of the cumulative distribution function at the probability `value`."""
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """Return the entropy 1/2 + log(2 pi) / 2 + log(scale)."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + pw.log(self.scale)


class Laplace(_LocationScale):
    """The Laplace distribution with location `loc` and scale `scale`."""

    @property
    def variance(self) -> Tensor:
        """Return 2 scale^2."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        """Return sqrt(2) scale."""
        return (2**0.5) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples: uniform numbers transformed by the inverse distribution function."""
        shape = self._extended_shape(sample_shape)
        # The value -1 is excluded, because it would give an infinite logarithm.
        u = empty(tuple(shape), dtype=self.loc.dtype).uniform_(machine_epsilon(self.loc.dtype) - 1, 1)
        return self.loc - self.scale * u.sign() * pw.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density -log(2 scale) - |x - loc| / scale."""
        self._validate_sample(value)
        return -pw.log(2 * self.scale) - pw.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function at `value`."""
        d = value - self.loc
        return 0.5 - 0.5 * d.sign() * pw.expm1(-d.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of the cumulative distribution function at the probability `value`."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * pw.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        """Return the entropy 1 + log(2 scale)."""
        return 1 + pw.log(2 * self.scale)


class Cauchy(_LocationScale):
    """The Cauchy distribution with location `loc` and scale `scale`. It has no mean and infinite variance."""

    @property
    def mean(self) -> Tensor:
        """Return NaN."""
        return pw.mul(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """Return infinity."""
        return self.scale * math.inf

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples loc + scale * c, with c standard Cauchy."""
        eps = empty(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype).cauchy_()
        return self.loc + eps * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density -log(pi) - log(scale) - log(1 + ((x - loc) / scale)^2)."""
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function 1 / 2 + atan((x - loc) / scale) / pi at x = `value`."""
        self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of the cumulative distribution function at the probability `value`."""
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        """Return the entropy log(4 pi) + log(scale)."""
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The Gumbel distribution with location `loc` and scale `scale`."""

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples loc - scale * log(-log(u)), with u uniform in (0, 1)."""
        # Both ends are excluded, where one of the logarithms is infinite.
        low, high = smallest_normal(self.loc.dtype), 1 - machine_epsilon(self.loc.dtype)
        u = rand(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype)
        u = low + u * (high - low)
        return self.loc - self.scale * (-u.log()).log()

    @property
    def mean(self) -> Tensor:
        """Return loc + scale * Euler's constant."""
        return self.loc + self.scale * EULER_GAMMA

    @property
    def variance(self) -> Tensor:
        """Return (pi scale)^2 / 6."""
        return (math.pi / math.sqrt(6) * self.scale).pow(2)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density y - exp(y) - log(scale), with y = (loc - x) / scale."""
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function exp(-exp((loc - x) / scale)) at x = `value`."""
        self._validate_sample(value)
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of the cumulative distribution function at the probability `value`."""
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        """Return the entropy log(scale) + 1 + Euler's constant."""
        return self.scale.log() + (1 + EULER_GAMMA)


class HalfNormal(Distribution):
    """The distribution of |x|, where x is normal with mean 0 and standard deviation `scale`."""

    has_rsample = True
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, scale: Any, validate_args: bool | None = None):
        (self.scale,) = broadcast_all(scale)
        self._base = Normal(zeros(()), self.scale, validate_args=False)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return scale * sqrt(2 / pi)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """Return scale^2 (1 - 2 / pi)."""
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples: absolute values of normal numbers."""
        return pw.abs(self._base.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return log(2) plus the normal log density for values >= 0, and -inf for others.

        With `validate_args`, values outside of the support raise ValueError.
        """
        self._validate_sample(value)
        # The density of both signs is combined.
        inside = self._base.log_prob(value) + math.log(2)
        answer: Tensor = where(value >= 0, inside, -math.inf)
        return answer

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function at `value`: twice the normal one, minus 1."""
        self._validate_sample(value)
        return 2 * self._base.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of the cumulative distribution function at the probability `value`."""
        return self._base.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the normal entropy minus log(2)."""
        return self._base.entropy() - math.log(2)


class Uniform(Distribution):
    """The uniform distribution between `low` (included) and `high` (excluded).

    With argument validation, the constructor raises ValueError unless low < high.
    """

    has_rsample = True
    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.low < self.high).all()):
            raise OptionInvalid(
                f"Uniform is not defined when low>= high: {self.low} and {self.high}",
                where=source.where(),
                hint="Pass a low below high.",
            )

    @property
    def support(self) -> Any:
        """Return the constraint low <= x <= high."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """Return (low + high) / 2."""
        return (self.high + self.low) / 2

    @property
    def variance(self) -> Tensor:
        """Return (high - low)^2 / 12."""
        return (self.high - self.low).pow(2) / 12

    @property
    def stddev(self) -> Tensor:
        """Return (high - low) / sqrt(12)."""
        return (self.high - self.low) / 12**0.5

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples low + u * (high - low), with u uniform in [0, 1)."""
        u = rand(tuple(self._extended_shape(sample_shape)), dtype=self.low.dtype)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return -log(high - low) for low <= x < high, and -inf for other values.

        With `validate_args`, values outside of the support raise ValueError.
        """
        self._validate_sample(value)
        # `high` is excluded, as `rand` excludes 1.
        inside = ((self.low <= value) & (self.high > value)).type_as(self.low)
        return inside.log() - pw.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function at `value`, clamped to 0..1."""
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of the cumulative distribution function at the probability `value`."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """Return the entropy log(high - low)."""
        return pw.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """The exponential distribution with rate `rate`."""

    has_rsample = True
    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return 1 / rate."""
        return self.rate.reciprocal()

    stddev = mean

    @property
    def variance(self) -> Tensor:
        """Return 1 / rate^2."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples: exponential numbers of rate 1, divided by `rate`."""
        return empty(tuple(self._extended_shape(sample_shape)), dtype=self.rate.dtype).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density log(rate) - rate * x."""
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """Return 1 - exp(-rate * x)."""
        return 1 - pw.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        """Return -log(1 - p) / rate for the probability p = `value`."""
        return -pw.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        """Return the entropy 1 - log(rate)."""
        return 1.0 - pw.log(self.rate)


class Gamma(ExponentialFamily):
    """The gamma distribution with shape `concentration` and rate `rate`."""

    has_rsample = True
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return concentration / rate."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """Return (concentration - 1) / rate, but at least 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """Return concentration / rate^2."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples: gamma numbers of rate 1, divided by `rate`.

        Samples are at least the smallest normal number of the dtype.
        """
        shape = tuple(self._extended_shape(sample_shape))
        # The draw is differentiable in the concentration, the division in the rate.
        value = standard_gamma(expand(self.concentration, shape)) / expand(self.rate, shape)
        # Replace 0, where the log density may be infinite, by the smallest normal number.
        answer: Tensor = where(
            value.detach() < smallest_normal(value.dtype), value.detach() * 0 + smallest_normal(value.dtype), value
        )
        return answer

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density a log(r) + (a - 1) log(x) - r x - lgamma(a), with a = concentration and r = rate."""
        self._validate_sample(value)
        a, r = self.concentration, self.rate
        return xlogy(a, r) + xlogy(a - 1, value) - r * value - lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function at `value`, without a gradient by the concentration."""
        self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        """Return the entropy a - log(r) + lgamma(a) + (1 - a) digamma(a), with a = concentration and r = rate."""
        a = self.concentration
        return a - pw.log(self.rate) + lgamma(a) + (1.0 - a) * digamma(a)


class Chi2(Gamma):
    """The chi-squared distribution with `df` degrees of freedom."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None):
        # It is the gamma distribution with concentration df / 2 and rate 1 / 2.
        half = 0.5 * df
        super().__init__(half, half * 0 + 0.5 if isinstance(half, Tensor) else 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Return the degrees of freedom."""
        return self.concentration * 2


class StudentT(Distribution):
    """Student's t distribution with `df` degrees of freedom, location `loc` and scale `scale`."""

    has_rsample = True
    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return `loc` where df > 1, else NaN."""
        answer: Tensor = where(self.df > 1, self.loc, math.nan)
        return answer

    @property
    def variance(self) -> Tensor:
        """Return scale^2 df / (df - 2) where df > 2, infinity where 1 < df <= 2, and NaN otherwise."""
        wide = self.scale.pow(2) * self.df / (self.df - 2)
        answer: Tensor = where(self.df > 2, wide, where(self.df > 1, wide * 0 + math.inf, math.nan))
        return answer

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples loc + scale * x / sqrt(z / df), with x normal and z chi-squared."""
        # The order of the draws is PyTorch's: the normal numbers first.
        x = standard_normal(self._extended_shape(sample_shape), self.df)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * x * pw.rsqrt(z / self.df)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density -(df + 1) / 2 * log(1 + y^2 / df) - Z at `value`, with y = (x - loc) / scale.

        Z is log(scale) + log(df pi) / 2 + lgamma(df / 2) - lgamma((df + 1) / 2).
        """
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        norm = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        norm = norm + lgamma(0.5 * self.df) - lgamma(0.5 * (self.df + 1.0))
        return -0.5 * (self.df + 1.0) * pw.log1p(y**2.0 / self.df) - norm


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return probabilities: the sigmoid of `logits` if `is_binary`, else the softmax over the last dimension."""
    return pw.sigmoid(logits) if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return logits: log(p) - log(1 - p) if `is_binary`, else log(p). Probabilities are clamped to [eps, 1 - eps]."""
    # eps depends on the dtype.
    eps = machine_epsilon(probs.dtype)
    clamped = probs.clamp(min=eps, max=1 - eps)
    return pw.log(clamped) - pw.log1p(-clamped) if is_binary else pw.log(clamped)
