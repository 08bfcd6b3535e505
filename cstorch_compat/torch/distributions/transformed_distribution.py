"""Distributions of what transforms make of others, and those that are defined so."""

from typing import Any

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.continuous import Normal
from cstorch_compat.torch.distributions.distribution import Distribution, sum_rightmost
from cstorch_compat.torch.distributions.multivariate import Independent
from cstorch_compat.torch.distributions.transforms import ComposeTransform, ExpTransform, Transform
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.functional import pointwise as pw


class TransformedDistribution(Distribution):
    """What transforms make of the values of another distribution."""

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None):
        self.transforms: list[Transform] = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        whole = ComposeTransform(self.transforms)
        events = max(whole.event_dim, len(base_distribution.event_shape))
        # What a transform takes as one value must be one value of the base.
        missing = events - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, missing) if missing > 0 else base_distribution
        # Some transforms change how many numbers a value has.
        shape: Any = (*self.base_dist.batch_shape, *self.base_dist.event_shape)
        for t in self.transforms:
            shape = t.forward_shape(shape)
        at = len(shape) - events
        super().__init__(tuple(shape)[:at], tuple(shape)[at:], validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base has."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Any:
        """Where the last transform leads."""
        return self.transforms[-1].codomain if self.transforms else self.base_dist.support

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """The same distribution for a larger batch."""
        return TransformedDistribution(self.base_dist.expand(batch_shape), self.transforms)

    def _forward(self, x: Tensor) -> Tensor:
        for t in self.transforms:
            x = t(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Values of the base, transformed."""
        with grad_mode(False):
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Values of the base, transformed, with gradients."""
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """That of the base, less the logs of the slopes."""
        if self._validate_args:
            self._validate_sample(value)
        events, y = len(self.event_shape), value
        total: Any = 0.0
        for t in reversed(self.transforms):
            x = t.undo(y)
            events += t.inv.event_dim - t.event_dim if isinstance(t, ComposeTransform) else 0
            total = total - sum_rightmost(t.log_abs_det_jacobian(x, y), events - t.event_dim)
            y = x
        answer: Tensor = total + sum_rightmost(self.base_dist.log_prob(y), events - len(self.base_dist.event_shape))
        return answer

    def cdf(self, value: Tensor) -> Tensor:
        """That of the base, of transforms that grow."""
        for t in reversed(self.transforms):
            value = t.undo(value)
        return self.base_dist.cdf(value)

    def icdf(self, value: Tensor) -> Tensor:
        """That of the base, of transforms that grow."""
        return self._forward(self.base_dist.icdf(value))


class LogNormal(TransformedDistribution):
    """Numbers whose logarithms are normal."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """The same distribution for a larger batch."""
        return LogNormal(self.loc.expand(*batch_shape), self.scale.expand(*batch_shape))

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc  # type: ignore[attr-defined, no-any-return]

    @property
    def scale(self) -> Tensor:
        """The deviation of the logarithm."""
        return self.base_dist.scale  # type: ignore[attr-defined, no-any-return]

    @property
    def mean(self) -> Tensor:
        """exp(m + s^2 / 2)"""
        return pw.exp(self.loc + self.scale.pow(2) / 2)

    @property
    def mode(self) -> Tensor:
        """exp(m - s^2)"""
        return pw.exp(self.loc - self.scale.square())

    @property
    def variance(self) -> Tensor:
        """(exp(s^2) - 1) exp(2 m + s^2)"""
        square = self.scale.pow(2)
        return pw.expm1(square) * pw.exp(2 * self.loc + square)

    def entropy(self) -> Tensor:
        """That of the logarithm, and its mean."""
        return self.base_dist.entropy() + self.loc
