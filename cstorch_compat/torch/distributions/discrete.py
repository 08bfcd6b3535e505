"""Families over classes and counts. What PyTorch draws was worked out from its answers."""

from typing import Any

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.continuous import logits_to_probs, probs_to_logits, smallest_normal
from cstorch_compat.torch.distributions.distribution import Distribution, ExponentialFamily, broadcast_all
from cstorch_compat.torch.distributions.gamma_sampling import poisson
from lazytensor.core import dtype as dt
from lazytensor.core.tensor import Size, Tensor, grad_mode
from lazytensor.functional import loss, random_sampling, reduction
from lazytensor.functional.creation import arange, rand, zeros
from lazytensor.functional.embedding import one_hot
from lazytensor.functional.gather_scatter import gather, scatter_add
from lazytensor.functional.pointwise import cast_to
from lazytensor.functional.pointwise_special import lgamma, xlogy
from lazytensor.functional.views import broadcast_tensors, expand


def require_probs_or_logits(probs: Any, logits: Any) -> None:
    """Raise ValueError unless one of the two is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class _ProbsOrLogits(Distribution):
    """Parameters given as probabilities or as logits; the other follows on demand."""

    is_binary = True

    def __getattr__(self, name: str) -> Any:
        # Computed each time: equal nodes are one, and a value kept from no_grad would carry no gradient.
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
        """The shape of the parameter that was given."""
        return self._param.shape


class _ElementwiseProbs(_ProbsOrLogits):
    """A distribution for each element of the parameter, probs or logits of any shape."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        require_probs_or_logits(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
        super().__init__(self._param.shape, validate_args=validate_args)


class Bernoulli(_ElementwiseProbs, ExponentialFamily):
    """1 with a probability, else 0."""

    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        """p"""
        mean: Tensor = self.probs
        return mean

    @property
    def mode(self) -> Tensor:
        """The likelier of the two; NaN for a tie."""
        # Neither of two equally likely values is the mode.
        mode = cast_to(self.probs >= 0.5, self.probs.dtype)
        return mode.masked_fill(self.probs == 0.5, float("nan"))

    @property
    def variance(self) -> Tensor:
        """p (1 - p)"""
        variance: Tensor = self.probs * (1 - self.probs)
        return variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Ones and zeros."""
        with grad_mode(False):
            return random_sampling.bernoulli(expand(self.probs, tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Tensor) -> Tensor:
        """x log p + (1 - x) log(1 - p), by the logits."""
        self._validate_sample(value)
        # By the logits, which keep their digits where a probability is nearly 0 or 1.
        logits, x = broadcast_tensors(self.logits, value)
        return -loss.binary_cross_entropy_with_logits(logits, cast_to(x, logits.dtype), reduction="none")

    def entropy(self) -> Tensor:
        """-p log p - (1 - p) log(1 - p)"""
        return loss.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1."""
        values = arange(2, dtype=self._param.dtype).view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class Geometric(_ElementwiseProbs):
    """Failures before the first success."""

    support = constraints.nonnegative_integer

    @property
    def mean(self) -> Tensor:
        """1 / p - 1"""
        mean: Tensor = 1.0 / self.probs - 1.0
        return mean

    @property
    def mode(self) -> Tensor:
        """0"""
        mode: Tensor = self.probs * 0
        return mode

    @property
    def variance(self) -> Tensor:
        """(1 / p - 1) / p"""
        variance: Tensor = (1.0 / self.probs - 1.0) / self.probs
        return variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """floor(log u / log(1 - p)), for a uniform number that is not 0."""
        with grad_mode(False):
            # A number of 0 would wait for ever.
            u = rand(tuple(self._extended_shape(sample_shape)), dtype=self.probs.dtype)
            return (u.clamp(min=smallest_normal(u.dtype)).log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """x log(1 - p) + log p"""
        self._validate_sample(value)
        x, probs = broadcast_tensors(value, self.probs)
        # 0 failures of a sure success: the product of 0 and -inf is 0.
        return xlogy(x, 1 - probs) + self.probs.log()

    def entropy(self) -> Tensor:
        """That of one trial, over the probability."""
        # Trials are independent, and there are 1 / p of them on average.
        trial = loss.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return trial / self.probs


class Poisson(ExponentialFamily):
    """How many come at a rate."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The rate."""
        return self.rate

    variance = mean

    @property
    def mode(self) -> Tensor:
        """The rate, rounded down."""
        return self.rate.floor()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts."""
        with grad_mode(False):
            return poisson(expand(self.rate, tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Tensor) -> Tensor:
        """x log r - r - log x!"""
        self._validate_sample(value)
        rate, x = broadcast_all(self.rate, value)
        return xlogy(x, rate) - rate - lgamma(x + 1)


class Categorical(_ProbsOrLogits):
    """One of the classes in the last dimension."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    is_binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        require_probs_or_logits(probs, logits)
        given = probs if probs is not None else logits
        if given.dim() < 1:
            which = "probs" if probs is not None else "logits"
            raise ValueError(f"`{which}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / reduction.sum(probs, -1, keepdim=True)
        else:
            self.logits = logits - reduction.logsumexp(logits, -1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @property
    def support(self) -> Any:
        """The numbers of the classes."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: classes have no order."""
        return zeros(tuple(self._batch_shape), dtype=self.probs.dtype) + float("nan")

    variance = mean

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        mode: Tensor = self.probs.argmax(-1)
        return mode

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Numbers of classes."""
        shape = shape_to_tuple(sample_shape)
        with grad_mode(False):
            # All draws of a row at once, and then turned: the order in which PyTorch draws them.
            rows = self.probs.reshape(-1, self._num_events)
            n = Size(shape).numel()
            drawn = random_sampling.multinomial(rows, n, True).t()
            return drawn.reshape(*self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log of the probability of a class."""
        self._validate_sample(value)
        # One row of the table for each value, also where values have more dimensions.
        index, table = broadcast_tensors(cast_to(value, dt.int64).unsqueeze(-1), self.logits)
        return gather(table, -1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """-sum p log p"""
        # A class without probability adds 0, and not NaN.
        logits = self.logits.clamp(min=_lowest_finite(self.logits))
        return -reduction.sum(logits * self.probs, -1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Every class."""
        values = arange(self._num_events).view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


def _lowest_finite(x: Tensor) -> float:
    return float(-3.4028234663852886e38 if x.dtype is dt.float32 else -1.7976931348623157e308)


def shape_to_tuple(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple."""
    return tuple(shape)


class _CategoricalBased(Distribution):
    """A family that draws classes; probabilities and logits are theirs."""

    _categorical: Categorical

    @property
    def probs(self) -> Tensor:
        """The probabilities of the classes."""
        probs: Tensor = self._categorical.probs
        return probs

    @property
    def logits(self) -> Tensor:
        """Their logs."""
        logits: Tensor = self._categorical.logits
        return logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape


class OneHotCategorical(_CategoricalBased):
    """One of the classes, as a vector with a 1 in its place."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits, validate_args)
        events = self._categorical._num_events
        super().__init__(self._categorical.batch_shape, (events,), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """p (1 - p)"""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Vectors with a 1."""
        # Drawn as numbers, then marked: the same random numbers as of Categorical.
        indices = self._categorical.sample(sample_shape)
        return cast_to(one_hot(indices, self._categorical._num_events), self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """That of the class with the 1."""
        self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        """That of the classes."""
        return self._categorical.entropy()


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """As OneHotCategorical, with the gradient of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The drawn vector, which passes gradients on to the probabilities."""
        drawn = self.sample(sample_shape)
        # The difference is 0 and has the gradient.
        return drawn + (self.probs - self.probs.detach())


class Multinomial(_CategoricalBased):
    """How often each class comes in `total_count` draws."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        events = self._categorical._num_events
        super().__init__(self._categorical.batch_shape, (events,), validate_args=validate_args)

    @property
    def support(self) -> Any:
        """Counts that sum to the number of draws."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """n p"""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """n p (1 - p)"""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts of the classes."""
        shape = self._extended_shape(shape_to_tuple(sample_shape))
        # Single draws that are counted, so that they use up as many random numbers.
        drawn = self._categorical.sample((self.total_count, *shape_to_tuple(sample_shape)))
        indices = drawn.permute(*range(1, drawn.dim()), 0)
        counts = zeros(tuple(shape), dtype=self.probs.dtype)
        return scatter_add(counts, -1, indices, counts.new_ones(tuple(indices.shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """log n! - sum log x! + sum x log p"""
        self._validate_sample(value)
        logits, x = broadcast_all(self.logits, value)
        factorials = lgamma(reduction.sum(x, -1) + 1) - reduction.sum(lgamma(x + 1), -1)
        # 0 of what cannot come is certain, and 0 * -inf is NaN.
        impossible = (x == 0) & (logits == -float("inf"))
        return factorials + reduction.sum(logits.masked_fill(impossible, 0) * x, -1)
