"""Continuous relaxations of discrete distributions, whose samples are differentiable (the concrete distribution).

Source: Maddison, Mnih and Teh, The concrete distribution (2017).
"""

import math
from typing import Any

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.continuous import Normal
from cstorch_compat.torch.distributions.discrete import Categorical, _ElementwiseProbs
from cstorch_compat.torch.distributions.distribution import Distribution
from cstorch_compat.torch.distributions.transformed_distribution import TransformedDistribution
from cstorch_compat.torch.distributions.transforms import ExpTransform, SigmoidTransform, StickBreakingTransform
from cstorch_compat.torch.distributions.utils import clamp_probs
from lazytensor.core.tensor import Size, Tensor
from lazytensor.functional import reduction
from lazytensor.functional.creation import rand


class LogitRelaxedBernoulli(_ElementwiseProbs):
    """The distribution of the logit of a `RelaxedBernoulli` variable."""

    has_rsample = True
    support = constraints.real

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """Return the distribution expanded to `batch_shape`, with the same temperature."""
        grown = super().expand(batch_shape, _instance)
        grown.__dict__["temperature"] = self.temperature
        return grown

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples: the sum of the logit and logistic noise, divided by the temperature."""
        # Both probabilities are kept away from 0 and 1, where the logarithms are infinite.
        p = clamp_probs(self.probs.expand(*self._extended_shape(sample_shape)))
        u = clamp_probs(rand(tuple(p.shape), dtype=p.dtype))
        samples: Tensor = (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature
        return samples

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density log(t) + d - 2 log(1 + exp(d)), with d = logit - value * t for the temperature t."""
        self._validate_sample(value)
        d = self.logits - value * self.temperature
        answer: Tensor = self.temperature.log() + d - 2 * d.exp().log1p()
        return answer


class RelaxedBernoulli(TransformedDistribution):
    """The relaxed Bernoulli distribution of numbers in (0, 1). A low `temperature` moves samples to 0 and 1."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    base_dist: LogitRelaxedBernoulli

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """Return the distribution expanded to `batch_shape`."""
        return RelaxedBernoulli(self.temperature, logits=self.logits.expand(*batch_shape), validate_args=False)

    @property
    def temperature(self) -> Any:
        """Return the temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.base_dist.logits
        return logits

    @property
    def probs(self) -> Tensor:
        """Return the probabilities."""
        probs: Tensor = self.base_dist.probs
        return probs


class ExpRelaxedCategorical(Distribution):
    """The distribution of the logarithm of a `RelaxedOneHotCategorical` variable."""

    has_rsample = True
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    # The sum of the exponentials is 1, which is not checked.
    support = constraints.real_vector

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self.temperature, self._categorical = temperature, Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @property
    def logits(self) -> Tensor:
        """Return the log probabilities of the classes."""
        logits: Tensor = self._categorical.logits
        return logits

    @property
    def probs(self) -> Tensor:
        """Return the probabilities of the classes."""
        probs: Tensor = self._categorical.probs
        return probs

    @property
    def param_shape(self) -> Size:
        """Return the shape of the given parameter."""
        return self._categorical.param_shape

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return differentiable samples: normalized sums of logits and Gumbel noise, divided by the temperature."""
        u = clamp_probs(rand(tuple(self._extended_shape(sample_shape)), dtype=self.logits.dtype))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        samples: Tensor = scores - reduction.logsumexp(scores, -1, keepdim=True)
        return samples

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density at `value`, the logarithms of numbers that sum to 1."""
        self._validate_sample(value)
        classes = self.event_shape[-1]
        scores = self.logits - value * self.temperature
        total = reduction.sum(scores - reduction.logsumexp(scores, -1, keepdim=True), -1)
        answer: Tensor = total + math.lgamma(classes) + (classes - 1) * self.temperature.log()
        return answer


class RelaxedOneHotCategorical(TransformedDistribution):
    """The relaxed categorical distribution of positive numbers that sum to 1.

    A low `temperature` moves samples to one-hot vectors.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    base_dist: ExpRelaxedCategorical

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """Return the distribution expanded to `batch_shape`."""
        logits = self.logits.expand(*batch_shape, self.logits.shape[-1])
        return RelaxedOneHotCategorical(self.temperature, logits=logits, validate_args=False)

    @property
    def temperature(self) -> Any:
        """Return the temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Return the log probabilities of the classes."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Return the probabilities of the classes."""
        return self.base_dist.probs


class LogisticNormal(TransformedDistribution):
    """The distribution of positive numbers that sum to 1, by stick breaking of normal variables.

    An event has one element more than the last dimension of `loc` and `scale`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        base = Normal(loc, scale, validate_args=validate_args)
        base = Normal(base.loc.expand(1), base.scale.expand(1)) if not base.batch_shape else base
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """Return the distribution expanded to `batch_shape`."""
        shape = (*batch_shape, self.loc.shape[-1])
        return LogisticNormal(self.loc.expand(*shape), self.scale.expand(*shape), validate_args=False)

    @property
    def loc(self) -> Tensor:
        """Return the means of the normal variables."""
        return self.base_dist.base_dist.loc  # type: ignore[attr-defined, no-any-return]

    @property
    def scale(self) -> Tensor:
        """Return the standard deviations of the normal variables."""
        return self.base_dist.base_dist.scale  # type: ignore[attr-defined, no-any-return]
