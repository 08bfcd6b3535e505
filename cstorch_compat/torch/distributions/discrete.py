"""Discrete distributions. The random numbers match PyTorch's observed results."""

from typing import Any

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.continuous import logits_to_probs, probs_to_logits, smallest_normal
from cstorch_compat.torch.distributions.distribution import Distribution, ExponentialFamily, broadcast_all
from cstorch_compat.torch.distributions.gamma_sampling import poisson
from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.tensor import Size, Tensor, grad_mode
from lazytensor.errors import OptionInvalid, OptionMissing
from lazytensor.functional import loss, random_sampling, reduction
from lazytensor.functional.creation import arange, rand, zeros
from lazytensor.functional.embedding import one_hot
from lazytensor.functional.gather_scatter import gather, scatter_add
from lazytensor.functional.pointwise import cast_to
from lazytensor.functional.pointwise_special import lgamma, xlogy
from lazytensor.functional.views import broadcast_tensors, expand


def require_probs_or_logits(probs: Any, logits: Any) -> None:
    """Raise ValueError unless exactly one of `probs` and `logits` is given."""
    if (probs is None) == (logits is None):
        raise OptionInvalid(
            "Either `probs` or `logits` must be specified, but not both.",
            where=source.where(),
            hint="Pass one of the two.",
        )


class _ProbsOrLogits(Distribution):
    """The base class of distributions given by probabilities or by logits. The other is computed on access."""

    is_binary = True

    def __getattr__(self, name: str) -> Any:
        # Computed at each access: equal nodes are shared, and a value cached in no_grad would carry no gradient.
        own = self.__dict__
        if name == "logits" and "probs" in own:
            return probs_to_logits(own["probs"], self.is_binary)
        if name == "probs" and "logits" in own:
            return logits_to_probs(own["logits"], self.is_binary)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _param(self) -> Tensor:
        given: Tensor = self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]
        return given

    @property
    def param_shape(self) -> Size:
        """Return the shape of the given parameter."""
        return self._param.shape


class _ElementwiseProbs(_ProbsOrLogits):
    """The base class of distributions with one probability or logit for each element."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        require_probs_or_logits(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
        super().__init__(self._param.shape, validate_args=validate_args)


class Bernoulli(_ElementwiseProbs, ExponentialFamily):
    """The Bernoulli distribution: 1 with probability `probs`, else 0."""

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        """Return the probability."""
        mean: Tensor = self.probs
        return mean

    @property
    def mode(self) -> Tensor:
        """Return the more likely value, 0 or 1, or NaN for a probability of 0.5."""
        mode = cast_to(self.probs >= 0.5, self.probs.dtype)
        return mode.masked_fill(self.probs == 0.5, float("nan"))

    @property
    def variance(self) -> Tensor:
        """Return p (1 - p)."""
        variance: Tensor = self.probs * (1 - self.probs)
        return variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples of 0 and 1, without gradients."""
        with grad_mode(False):
            return random_sampling.bernoulli(expand(self.probs, tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return x log(p) + (1 - x) log(1 - p)."""
        self._validate_sample(value)
        # Computed from logits, which are more accurate for probabilities close to 0 or 1.
        logits, x = broadcast_tensors(self.logits, value)
        return -loss.binary_cross_entropy_with_logits(logits, cast_to(x, logits.dtype), reduction="none")

    def entropy(self) -> Tensor:
        """Return -p log(p) - (1 - p) log(1 - p)."""
        return loss.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the values 0 and 1 along a new first dimension, of shape [2, *batch_shape].

        Without `expand`, each batch dimension has size 1.
        """
        values = arange(2, dtype=self._param.dtype).view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class Geometric(_ElementwiseProbs):
    """The geometric distribution: the number of failures before the first success of probability `probs`."""

    support = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        """Return 1 / p - 1."""
        mean: Tensor = 1.0 / self.probs - 1.0
        return mean

    @property
    def mode(self) -> Tensor:
        """Return 0."""
        mode: Tensor = self.probs * 0
        return mode

    @property
    def variance(self) -> Tensor:
        """Return (1 / p - 1) / p."""
        variance: Tensor = (1.0 / self.probs - 1.0) / self.probs
        return variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples floor(log(u) / log(1 - p)), with u uniform and positive, without gradients."""
        with grad_mode(False):
            # u = 0 would give infinity.
            u = rand(tuple(self._extended_shape(sample_shape)), dtype=self.probs.dtype)
            return (u.clamp(min=smallest_normal(u.dtype)).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return x log(1 - p) + log(p)."""
        self._validate_sample(value)
        x, probs = broadcast_tensors(value, self.probs)
        # For x = 0 and p = 1 the product of 0 and -inf has to be 0.
        return xlogy(x, 1 - probs) + self.probs.log()

    def entropy(self) -> Tensor:
        """Return the entropy of one trial divided by p."""
        # There are 1 / p independent trials on average.
        trial = loss.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return trial / self.probs


class Poisson(ExponentialFamily):
    """The Poisson distribution with rate `rate`."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the rate."""
        return self.rate

    variance = mean

    @property
    def mode(self) -> Tensor:
        """Return the rate rounded down."""
        return self.rate.floor()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples (counts) without gradients. Raises TraceError inside a traced step."""
        with grad_mode(False):
            return poisson(expand(self.rate, tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return x log(rate) - rate - log(x!)."""
        self._validate_sample(value)
        rate, x = broadcast_all(self.rate, value)
        return xlogy(x, rate) - rate - lgamma(x + 1)


class Categorical(_ProbsOrLogits):
    """The categorical distribution over the classes in the last dimension of `probs` or `logits`.

    Probabilities are normalized to sum to 1. Raises ValueError for a scalar parameter.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    is_binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        require_probs_or_logits(probs, logits)
        given = probs if probs is not None else logits
        if given.dim() < 1:
            which = "probs" if probs is not None else "logits"
            raise OptionInvalid(
                f"`{which}` parameter must be at least one-dimensional.",
                where=source.where(),
                hint="Pass a vector of probabilities.",
            )
        if probs is not None:
            self.probs = probs / reduction.sum(probs, -1, keepdim=True)
        else:
            self.logits = logits - reduction.logsumexp(logits, -1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @property
    def support(self) -> Any:
        """Return the constraint of class indices, 0 to the number of classes - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """Return NaN, because classes have no order."""
        return zeros(tuple(self._batch_shape), dtype=self.probs.dtype) + float("nan")

    variance = mean

    @property
    def mode(self) -> Tensor:
        """Return the index of the most likely class."""
        mode: Tensor = self.probs.argmax(-1)
        return mode

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return sampled class indices of shape [*sample_shape, *batch_shape], as int64 and without gradients."""
        shape = shape_to_tuple(sample_shape)
        with grad_mode(False):
            # All draws of a row at once and then transposed, as in PyTorch.
            rows = self.probs.reshape(-1, self._num_events)
            n = Size(shape).numel()
            drawn = random_sampling.multinomial(rows, n, True).t()
            return drawn.reshape(*self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability of the class indices in `value`."""
        self._validate_sample(value)
        # Broadcast, because `value` may have more dimensions than the batch.
        index, table = broadcast_tensors(cast_to(value, dt.int64).unsqueeze(-1), self.logits)
        return gather(table, -1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return -sum(p log(p)) over the classes. A class of probability 0 contributes 0."""
        # A class of probability 0 contributes 0 instead of NaN.
        logits = self.logits.clamp(min=_lowest_finite(self.logits))
        return -reduction.sum(logits * self.probs, -1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all class indices along a new first dimension, of shape [classes, *batch_shape].

        Without `expand`, each batch dimension has size 1.
        """
        values = arange(self._num_events).view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


def _lowest_finite(x: Tensor) -> float:
    return float(-3.4028234663852886e38 if x.dtype is dt.float32 else -1.7976931348623157e308)


def shape_to_tuple(shape: Any) -> tuple[int, ...]:
    """Return `shape` as a tuple."""
    return tuple(shape)


class _CategoricalBased(Distribution):
    """The base class of distributions that draw classes from a `Categorical`."""

    _categorical: Categorical

    @property
    def probs(self) -> Tensor:
        """Return the probabilities of the classes."""
        probs: Tensor = self._categorical.probs
        return probs

    @property
    def logits(self) -> Tensor:
        """Return the log probabilities of the classes."""
        logits: Tensor = self._categorical.logits
        return logits

    @property
    def param_shape(self) -> Size:
        """Return the shape of the given parameter."""
        return self._categorical.param_shape


class OneHotCategorical(_CategoricalBased):
    """The categorical distribution whose samples are one-hot vectors."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits, validate_args)
        events = self._categorical._num_events
        super().__init__(self._categorical.batch_shape, (events,), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the probabilities."""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """Return p (1 - p)."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return one-hot vectors, without gradients."""
        # Uses the same random numbers as Categorical.
        indices = self._categorical.sample(sample_shape)
        return cast_to(one_hot(indices, self._categorical._num_events), self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability of the class marked in `value`, which is that of its largest element."""
        self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        """Return the entropy of the classes."""
        return self._categorical.entropy()


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A OneHotCategorical whose samples pass their gradient to the probabilities (straight-through estimator)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return one-hot vectors whose gradient goes to the probabilities."""
        drawn = self.sample(sample_shape)
        # The difference is 0 and carries the gradient.
        return drawn + (self.probs - self.probs.detach())


class Multinomial(_CategoricalBased):
    """The multinomial distribution: the count of each class in `total_count` draws.

    Raises NotImplementedError if `total_count` is not an int.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        if not isinstance(total_count, int):
            raise OptionMissing(
                "inhomogeneous total_count is not supported",
                where=source.where(),
                hint="Pass one total_count for all elements.",
            )
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        events = self._categorical._num_events
        super().__init__(self._categorical.batch_shape, (events,), validate_args=validate_args)

    @property
    def support(self) -> Any:
        """Return the constraint of counts that sum to at most `total_count`."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """Return n p."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """Return n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return sampled counts of the classes, of shape [*sample_shape, *batch_shape, classes], without gradients.

        The counts sum to `total_count` and have the dtype of the probabilities.
        """
        shape = self._extended_shape(shape_to_tuple(sample_shape))
        # Count single draws, to use as many random numbers as PyTorch.
        drawn = self._categorical.sample((self.total_count, *shape_to_tuple(sample_shape)))
        indices = drawn.permute(*range(1, drawn.dim()), 0)
        counts = zeros(tuple(shape), dtype=self.probs.dtype)
        return scatter_add(counts, -1, indices, counts.new_ones(tuple(indices.shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return log(n!) - sum(log(x!)) + sum(x log(p)), where n is the sum of the counts in `value`.

        A count of 0 of a class with probability 0 contributes 0.
        """
        self._validate_sample(value)
        logits, x = broadcast_all(self.logits, value)
        factorials = lgamma(reduction.sum(x, -1) + 1) - reduction.sum(lgamma(x + 1), -1)
        # A count of 0 of an impossible class has probability 1, but 0 * -inf is NaN.
        impossible = (x == 0) & (logits == -float("inf"))
        return factorials + reduction.sum(logits.masked_fill(impossible, 0) * x, -1)
