"""Families over numbers. What PyTorch draws, and in which order, was worked out from its answers."""

import math
from typing import Any

import numpy as np

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.distribution import Distribution, ExponentialFamily, broadcast_all
from cstorch_compat.torch.distributions.gamma_sampling import standard_gamma
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import empty, rand, zeros
from lazytensor.functional.gather_scatter import where
from lazytensor.functional.pointwise_special import digamma, erfinv, lgamma, xlogy
from lazytensor.functional.views import expand

EULER_GAMMA = 0.57721566490153286060


def standard_normal(shape: Any, like: Tensor) -> Tensor:
    """Normal numbers of mean 0 and deviation 1 in the type of a tensor."""
    return empty(tuple(shape), dtype=like.dtype, device=like.device).normal_()


def smallest_normal(dtype: DType) -> float:
    """The smallest normal number of a type."""
    return float(np.finfo(dtype.host).tiny)


def machine_epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number of a type."""
    return float(np.finfo(dtype.host).eps)


class _LocationScale(Distribution):
    """Two parameters, of which one moves and the other stretches."""

    has_rsample = True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc


class Normal(_LocationScale, ExponentialFamily):
    """Normal with a mean and a deviation."""

    @property
    def stddev(self) -> Tensor:
        """The deviation."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """Its square."""
        return self.scale**2

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Values without gradients."""
        return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * a normal number."""
        # The scale multiplies first, and the mean is added to that: PyTorch's last digit.
        return self.loc + standard_normal(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """-(x - m)^2 / 2 s^2 - log s - log sqrt(2 pi)"""
        self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.variance) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to this one."""
        self._validate_sample(value)
        return 0.5 * (1 + pw.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which a probability lies."""
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """1 / 2 + log sqrt(2 pi) + log s"""
        return 0.5 + 0.5 * math.log(2 * math.pi) + pw.log(self.scale)


class Laplace(_LocationScale):
    """Two exponentials back to back."""

    @property
    def variance(self) -> Tensor:
        """2 b^2"""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        """sqrt(2) b"""
        return (2**0.5) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A uniform number sent through the inverse of the distribution function."""
        shape = self._extended_shape(sample_shape)
        # Never -1, whose logarithm is infinite.
        u = empty(tuple(shape), dtype=self.loc.dtype).uniform_(machine_epsilon(self.loc.dtype) - 1, 1)
        return self.loc - self.scale * u.sign() * pw.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        """-log 2b - |x - m| / b"""
        self._validate_sample(value)
        return -pw.log(2 * self.scale) - pw.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to this one."""
        d = value - self.loc
        return 0.5 - 0.5 * d.sign() * pw.expm1(-d.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which a probability lies."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * pw.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        """1 + log 2b"""
        return 1 + pw.log(2 * self.scale)


class Cauchy(_LocationScale):
    """The ratio of two normal numbers: no mean, no variance."""

    @property
    def mean(self) -> Tensor:
        """NaN."""
        return pw.mul(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return self.scale * math.inf

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * a Cauchy number."""
        eps = empty(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype).cauchy_()
        return self.loc + eps * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """-log pi b - log(1 + ((x - m) / b)^2)"""
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def entropy(self) -> Tensor:
        """log 4 pi b"""
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The largest of many."""

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Minus log of minus log of a uniform number between the least and 1."""
        # Off both ends, where one of the logarithms is infinite.
        low, high = smallest_normal(self.loc.dtype), 1 - machine_epsilon(self.loc.dtype)
        u = rand(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype)
        u = low + u * (high - low)
        return self.loc - self.scale * (-u.log()).log()

    @property
    def mean(self) -> Tensor:
        """m + gamma b"""
        return self.loc + self.scale * EULER_GAMMA

    @property
    def variance(self) -> Tensor:
        """(pi b)^2 / 6"""
        return (math.pi / math.sqrt(6) * self.scale).pow(2)

    def log_prob(self, value: Tensor) -> Tensor:
        """y - exp y - log b, for y = (m - x) / b"""
        self._validate_sample(value)
        # In units of the scale, seen from the right, where the tail is long.
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> Tensor:
        """log b + 1 + gamma"""
        return self.scale.log() + (1 + EULER_GAMMA)


class HalfNormal(Distribution):
    """The distance from 0 of a normal number."""

    has_rsample = True
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, scale: Any, validate_args: bool | None = None):
        (self.scale,) = broadcast_all(scale)
        self._base = Normal(zeros(()), self.scale, validate_args=False)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """s sqrt(2 / pi)"""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """s^2 (1 - 2 / pi)"""
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The value of a normal number without its sign."""
        return pw.abs(self._base.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """log 2 more than the normal density where it is not negative."""
        self._validate_sample(value)
        # Both halves of the bell lie on one side.
        inside = self._base.log_prob(value) + math.log(2)
        answer: Tensor = where(value >= 0, inside, -math.inf)
        return answer

    def entropy(self) -> Tensor:
        """log 2 less than that of the normal distribution."""
        return self._base.entropy() - math.log(2)


class Uniform(Distribution):
    """Every value between two bounds alike."""

    has_rsample = True
    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    @property
    def support(self) -> Any:
        """Between the bounds."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def variance(self) -> Tensor:
        """A twelfth of the square of the width."""
        return (self.high - self.low).pow(2) / 12

    @property
    def stddev(self) -> Tensor:
        """Its root."""
        return (self.high - self.low) / 12**0.5

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """low + width * a number from 0 to 1."""
        u = rand(tuple(self._extended_shape(sample_shape)), dtype=self.low.dtype)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """-log of the width inside, -inf outside."""
        self._validate_sample(value)
        # The upper bound is left out, as rand leaves out 1.
        inside = ((self.low <= value) & (self.high > value)).type_as(self.low)
        return inside.log() - pw.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        """The part of the width below."""
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which a probability lies."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """log of the width."""
        return pw.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """Waiting for what comes at a rate."""

    has_rsample = True
    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """1 / r"""
        return self.rate.reciprocal()

    stddev = mean

    @property
    def variance(self) -> Tensor:
        """1 / r^2"""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """An exponential number of rate 1, over the rate."""
        return empty(tuple(self._extended_shape(sample_shape)), dtype=self.rate.dtype).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """log r - r x"""
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """1 - exp(-r x)"""
        return 1 - pw.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        """-log(1 - p) / r"""
        return -pw.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        """1 - log r"""
        return 1.0 - pw.log(self.rate)


class Gamma(ExponentialFamily):
    """The sum of `concentration` waits at a rate."""

    has_rsample = True
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """a / r"""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """(a - 1) / r, at least 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """a / r^2"""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A gamma number of rate 1, over the rate."""
        shape = tuple(self._extended_shape(sample_shape))
        # The draw has the gradient of the concentration, the division that of the rate.
        value = standard_gamma(expand(self.concentration, shape)) / expand(self.rate, shape)
        # A value of 0 has no density, so the least number stands for it.
        answer: Tensor = where(
            value.detach() < smallest_normal(value.dtype), value.detach() * 0 + smallest_normal(value.dtype), value
        )
        return answer

    def log_prob(self, value: Tensor) -> Tensor:
        """a log r + (a - 1) log x - r x - log gamma(a)"""
        self._validate_sample(value)
        a, r = self.concentration, self.rate
        return xlogy(a, r) + xlogy(a - 1, value) - r * value - lgamma(a)

    def entropy(self) -> Tensor:
        """a - log r + log gamma(a) + (1 - a) digamma(a)"""
        a = self.concentration
        return a - pw.log(self.rate) + lgamma(a) + (1.0 - a) * digamma(a)


class Chi2(Gamma):
    """The sum of the squares of `df` normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None):
        # A sum of squares of k normal numbers is a gamma number of k / 2.
        half = 0.5 * df
        super().__init__(half, half * 0 + 0.5 if isinstance(half, Tensor) else 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class StudentT(Distribution):
    """A normal number over the root of a chi-squared one."""

    has_rsample = True
    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The location where there is one."""
        answer: Tensor = where(self.df > 1, self.loc, math.nan)
        return answer

    @property
    def variance(self) -> Tensor:
        """s^2 d / (d - 2) above 2, infinite above 1."""
        wide = self.scale.pow(2) * self.df / (self.df - 2)
        answer: Tensor = where(self.df > 2, wide, where(self.df > 1, wide * 0 + math.inf, math.nan))
        return answer

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * x / sqrt(z / df)"""
        # The normal number is drawn first.
        x = standard_normal(self._extended_shape(sample_shape), self.df)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * x * pw.rsqrt(z / self.df)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log of the density."""
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        norm = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        norm = norm + lgamma(0.5 * self.df) - lgamma(0.5 * (self.df + 1.0))
        return -0.5 * (self.df + 1.0) * pw.log1p(y**2.0 / self.df) - norm


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits, of two outcomes or of the classes in the last dimension."""
    return pw.sigmoid(logits) if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logits of probabilities, which are kept off 0 and 1."""
    # By the type: in float64 the logarithm can go further.
    eps = machine_epsilon(probs.dtype)
    clamped = probs.clamp(min=eps, max=1 - eps)
    return pw.log(clamped) - pw.log1p(-clamped) if is_binary else pw.log(clamped)
