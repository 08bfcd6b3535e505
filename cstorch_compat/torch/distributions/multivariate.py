"""Multivariate distributions, and distributions composed of others."""

import math
from typing import Any

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.continuous import standard_normal
from cstorch_compat.torch.distributions.discrete import Categorical
from cstorch_compat.torch.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    sum_rightmost,
)
from cstorch_compat.torch.distributions.gamma_sampling import dirichlet
from lazytensor.core import source
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.errors import OptionInvalid
from lazytensor.functional import linalg, reduction
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import eye
from lazytensor.functional.gather_scatter import gather
from lazytensor.functional.joining_and_splitting import stack
from lazytensor.functional.matmul import matmul
from lazytensor.functional.pointwise_special import digamma, lgamma, xlogy
from lazytensor.functional.views import broadcast_to, expand


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution with the parameters `concentration` [..., k].

    Samples are k positive numbers that sum to 1.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex

    def __init__(self, concentration: Tensor, validate_args: bool | None = None):
        if concentration.dim() < 1:
            raise OptionInvalid(
                f"`concentration` parameter must be at least one-dimensional. Got {concentration.dim()} dimensions.",
                where=source.where(),
                hint="Pass a vector of concentrations.",
            )
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return a / sum(a)."""
        return self.concentration / reduction.sum(self.concentration, -1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        """Return a (s - a) / (s^2 (s + 1)), with s = sum(a)."""
        total = reduction.sum(self.concentration, -1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples without gradients."""
        return dirichlet(expand(self.concentration, tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return sum((a - 1) log(x)) + lgamma(sum(a)) - sum(lgamma(a))."""
        self._validate_sample(value)
        a = self.concentration
        inside = reduction.sum(xlogy(a - 1.0, value), -1)
        return inside + lgamma(reduction.sum(a, -1)) - reduction.sum(lgamma(a), -1)

    def entropy(self) -> Tensor:
        """Return the entropy, of the batch shape.

        It is sum(lgamma(a)) - lgamma(s) - (k - s) digamma(s) - sum((a - 1) digamma(a)), with s = sum(a).
        """
        a, k = self.concentration, self.concentration.shape[-1]
        total = reduction.sum(a, -1)
        inner = reduction.sum((a - 1.0) * digamma(a), -1)
        return reduction.sum(lgamma(a), -1) - lgamma(total) - (k - total) * digamma(total) - inner


class Beta(ExponentialFamily):
    """The beta distribution with the parameters `concentration1` and `concentration0`."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        pair = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(stack(list(pair), -1), validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """Return the first parameter, alpha."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """Return the second parameter, beta."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        """Return a / (a + b)."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Tensor:
        """Return a b / ((a + b)^2 (a + b + 1))."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples without gradients."""
        return self._dirichlet.sample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density at `value`, from the Dirichlet distribution of (x, 1 - x)."""
        self._validate_sample(value)
        return self._dirichlet.log_prob(stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        """Return the entropy, from the Dirichlet distribution of (x, 1 - x)."""
        return self._dirichlet.entropy()


def _cholesky_of_inverse(precision: Tensor) -> Tensor:
    """Return the lower Cholesky factor of the inverse of `precision`."""
    # Factor the matrix flipped in both dimensions and flip back; the inverse of a triangular matrix is triangular.
    flipped = linalg.cholesky(precision.flip(-2, -1))
    inverse = flipped.flip(-2, -1).mT
    identity = eye(precision.shape[-1], dtype=precision.dtype)
    return linalg.solve_triangular(inverse, broadcast_to(identity, tuple(precision.shape)), upper=False)


class MultivariateNormal(Distribution):
    """The multivariate normal distribution with mean `loc`.

    Exactly one of `covariance_matrix`, `precision_matrix` and `scale_tril` (the lower Cholesky factor of the
    covariance) is given. Otherwise, and for a scalar `loc` or a vector in place of a matrix, the constructor raises
    ValueError.
    """

    has_rsample = True
    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        if loc.dim() < 1:
            raise OptionInvalid(
                f"loc must be at least one-dimensional. Got {loc.dim()} dimensions.",
                where=source.where(),
                hint="Pass a vector as loc.",
            )
        # Exactly one of the three parameters is given.
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        named = {n: m for n, m in given.items() if m is not None}
        if len(named) != 1:
            raise OptionInvalid(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
                where=source.where(),
                hint="Pass one of the three.",
            )
        ((name, matrix),) = named.items()
        if matrix.dim() < 2:
            raise OptionInvalid(
                f"{name} matrix must be at least two-dimensional, with optional leading batch dimensions",
                where=source.where(),
                hint="Pass a matrix, or a stack of matrices.",
            )
        # Used only for its shape, which is the broadcast of mean and matrix.
        probe = matrix[..., 0] + loc
        batch, size = tuple(probe.shape[:-1]), loc.shape[-1]
        self.loc = expand(loc, (*batch, size))
        self.__dict__[name] = expand(matrix, (*batch, size, size))
        super().__init__(batch, (size,), validate_args=validate_args)
        if name == "scale_tril":
            self._lower = self.__dict__[name]
        elif name == "covariance_matrix":
            self._lower = linalg.cholesky(self.__dict__[name])
        else:
            self._lower = _cholesky_of_inverse(self.__dict__[name])

    def __getattr__(self, name: str) -> Any:
        lower = self.__dict__.get("_lower")
        if lower is not None and name == "scale_tril":
            return lower
        if lower is not None and name == "covariance_matrix":
            return matmul(lower, lower.mT)
        if lower is not None and name == "precision_matrix":
            return linalg.inv(matmul(lower, lower.mT))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def mean(self) -> Tensor:
        """Return `loc`."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """Return the diagonal of the covariance matrix."""
        return reduction.sum(self._lower.pow(2), -1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples: loc + Cholesky factor @ standard normal numbers."""
        eps = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + matmul(self._lower, eps.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density -(k log(2 pi) + d' C^-1 d) / 2 - log det(L).

        Here d = x - loc, k is its length, and C = L L' is the covariance matrix.
        """
        self._validate_sample(value)
        d = (value - self.loc).unsqueeze(-1)
        shape = (*d.shape[:-2], *self._lower.shape[-2:])
        # Solve a triangular system instead of inverting a matrix.
        z = linalg.solve_triangular(broadcast_to(self._lower, tuple(shape)), d, upper=False).squeeze(-1)
        squared = reduction.sum(z.pow(2), -1)
        return -0.5 * (self.loc.shape[-1] * math.log(2 * math.pi) + squared) - self._half_log_det()

    def _half_log_det(self) -> Tensor:
        return reduction.sum(pw.log(self._lower.diagonal(dim1=-2, dim2=-1)), -1)

    def entropy(self) -> Tensor:
        """Return k (1 + log(2 pi)) / 2 + log det(L), with the Cholesky factor L."""
        return 0.5 * self.loc.shape[-1] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_ndims` batch dimensions are treated as part of an event.

    Raises ValueError if the base distribution has fewer batch dimensions.
    """

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ):
        n, base = reinterpreted_batch_ndims, base_distribution
        if n > len(base.batch_shape):
            raise OptionInvalid(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{n} vs {len(base.batch_shape)}",
                where=source.where(),
                hint="Reduce reinterpreted_batch_ndims.",
            )
        shape, at = (*base.batch_shape, *base.event_shape), len(base.batch_shape) - n
        self.base_dist, self.reinterpreted_batch_ndims = base, n
        super().__init__(shape[:at], shape[at:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """Return the distribution expanded to `batch_shape`."""
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        return Independent(self.base_dist.expand((*batch_shape, *inner)), self.reinterpreted_batch_ndims)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Return whether the base distribution has differentiable samples."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Any:
        """Return the support of the base distribution, for whole events."""
        return constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    @property
    def mean(self) -> Any:
        """Return the mean of the base distribution."""
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        """Return the mode of the base distribution."""
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        """Return the variance of the base distribution."""
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples of the base distribution."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples of the base distribution."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability of the base distribution, summed over an event."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """Return the entropy of the base distribution, summed over an event."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture of the distributions along the last batch dimension of `component_distribution`.

    `mixture_distribution` is a `Categorical` with the weights; other objects raise ValueError.
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ):
        if not isinstance(mixture_distribution, Categorical):
            raise OptionInvalid(
                " The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
                f", but is {type(mixture_distribution).__name__}",
                where=source.where(),
                hint="Pass a Categorical as the mixture distribution.",
            )
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        self._events = len(component_distribution.event_shape)
        batch = component_distribution.batch_shape[:-1]
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        """Return the support of the components."""
        return self.component_distribution.support

    def _weights(self) -> Tensor:
        probs: Tensor = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * self._events)

    @property
    def mean(self) -> Tensor:
        """Return the weighted mean of the component means."""
        return reduction.sum(self._weights() * self.component_distribution.mean, -1 - self._events)

    @property
    def variance(self) -> Tensor:
        """Return the weighted mean of the component variances plus the variance of the component means."""
        weights, at = self._weights(), -1 - self._events
        centred = self.component_distribution.mean - self.mean.unsqueeze(at)
        inner = reduction.sum(weights * self.component_distribution.variance, at)
        return inner + reduction.sum(weights * centred.pow(2.0), at)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log of the weighted sum of the component densities."""
        self._validate_sample(value)
        each = self.component_distribution.log_prob(value.unsqueeze(-1 - self._events))
        # Sum in the log domain, because densities may underflow.
        weights = self.mixture_distribution.logits.log_softmax(-1)
        return reduction.logsumexp(each + weights, -1)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the weighted sum of the components' cumulative distribution functions at `value`."""
        each = self.component_distribution.cdf(value.unsqueeze(-1 - self._events))
        return reduction.sum(each * self.mixture_distribution.probs, -1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples of randomly chosen components, without gradients.

        Their shape is [*sample_shape, *batch_shape, *event_shape]. All components are sampled, and one is selected for
        each sample.
        """
        with grad_mode(False):
            # Draw from all components, and select one for each sample.
            which, at = self.mixture_distribution.sample(sample_shape), -1 - self._events
            drawn = self.component_distribution.sample(sample_shape)
            index = which.reshape(*which.shape, *[1] * (self._events + 1))
            wanted = [*drawn.shape]
            wanted[at] = 1
            return gather(drawn, drawn.dim() + at, expand(index, tuple(wanted))).squeeze(at)
