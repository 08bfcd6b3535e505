"""Distributions of transformed samples of other distributions."""

import math
from typing import Any

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.continuous import Normal
from cstorch_compat.torch.distributions.distribution import Distribution, sum_rightmost
from cstorch_compat.torch.distributions.multivariate import Independent
from cstorch_compat.torch.distributions.transforms import ComposeTransform, ExpTransform, Transform
from lazytensor.core import source
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.errors import OptionInvalid
from lazytensor.functional import pointwise as pw


class TransformedDistribution(Distribution):
    """The distribution of samples of `base_distribution` after one transform or a list of transforms.

    Raises ValueError if `transforms` contains other objects.
    """

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None):
        self.transforms: list[Transform] = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise OptionInvalid(
                f"transforms must be a Transform or list, but was {transforms}",
                where=source.where(),
                hint="Pass a transform, or a list of transforms.",
            )
        whole = ComposeTransform(self.transforms)
        events = max(whole.event_dim, len(base_distribution.event_shape))
        # An event of a transform must be an event of the base distribution.
        missing = events - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, missing) if missing > 0 else base_distribution
        # Some transforms change the shape of an event.
        shape: Any = (*self.base_dist.batch_shape, *self.base_dist.event_shape)
        for t in self.transforms:
            shape = t.forward_shape(shape)
        at = len(shape) - events
        super().__init__(tuple(shape)[:at], tuple(shape)[at:], validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Return whether the base distribution has differentiable samples."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Any:
        """Return the codomain of the last transform. Without transforms, return the support of the base."""
        return self.transforms[-1].codomain if self.transforms else self.base_dist.support

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """Return the distribution expanded to `batch_shape`."""
        return TransformedDistribution(self.base_dist.expand(batch_shape), self.transforms)

    def _forward(self, x: Tensor) -> Tensor:
        for t in self.transforms:
            x = t(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return transformed samples of the base distribution, without gradients."""
        with grad_mode(False):
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return transformed samples of the base distribution that are differentiable."""
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density of the base distribution minus the log absolute Jacobian determinants."""
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
        """Return the cumulative distribution function at `value`, also if the transforms are decreasing."""
        for t in reversed(self.transforms):
            value = t.undo(value)
        return self._mirror_if_decreasing(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of the cumulative distribution function, also if the transforms are decreasing."""
        return self._forward(self.base_dist.icdf(self._mirror_if_decreasing(value)))

    def _mirror_if_decreasing(self, probability: Tensor) -> Tensor:
        """Return `probability`, or 1 - `probability` where the transforms together are decreasing."""
        sign: Any = math.prod(t.sign for t in self.transforms)
        if isinstance(sign, int) and sign == 1:
            return probability
        mirrored: Tensor = sign * (probability - 0.5) + 0.5
        return mirrored


class LogNormal(TransformedDistribution):
    """The distribution of exp(x), where x is normal with mean `loc` and standard deviation `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """Return the distribution expanded to `batch_shape`."""
        return LogNormal(self.loc.expand(*batch_shape), self.scale.expand(*batch_shape))

    @property
    def loc(self) -> Tensor:
        """Return the mean of the logarithm."""
        return self.base_dist.loc  # type: ignore[attr-defined, no-any-return]

    @property
    def scale(self) -> Tensor:
        """Return the standard deviation of the logarithm."""
        return self.base_dist.scale  # type: ignore[attr-defined, no-any-return]

    @property
    def mean(self) -> Tensor:
        """Return exp(loc + scale^2 / 2)."""
        return pw.exp(self.loc + self.scale.pow(2) / 2)

    @property
    def mode(self) -> Tensor:
        """Return exp(loc - scale^2)."""
        return pw.exp(self.loc - self.scale.square())

    @property
    def variance(self) -> Tensor:
        """Return (exp(scale^2) - 1) exp(2 loc + scale^2)."""
        square = self.scale.pow(2)
        return pw.expm1(square) * pw.exp(2 * self.loc + square)

    def entropy(self) -> Tensor:
        """Return the entropy of the logarithm plus `loc`."""
        return self.base_dist.entropy() + self.loc
