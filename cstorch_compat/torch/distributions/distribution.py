"""The base of all families: shapes, checks of arguments, and what follows from the log of a density."""

from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.constraints import Constraint
from lazytensor.core import storage
from lazytensor.core.tensor import Size, Tensor, grad_mode
from lazytensor.errors import TraceError
from lazytensor.functional import reduction
from lazytensor.functional.creation import tensor
from lazytensor.functional.type_promotion import default_dtype
from lazytensor.functional.views import broadcast_tensors, expand

_validates_args = True


def set_default_validate_args(value: bool) -> None:
    """Whether arguments are checked where nobody says."""
    global _validates_args
    if value not in (True, False):
        raise ValueError
    _validates_args = value


@contextmanager
def argument_validation(flag: bool) -> Any:
    """Check arguments or not inside of a block."""
    before = _validates_args
    set_default_validate_args(flag)
    try:
        yield
    finally:
        set_default_validate_args(before)


def as_size(shape: Any) -> Size:
    """A shape given as a tuple, a list or a Size."""
    return Size(tuple(shape))


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape, in the type of the tensors."""
    # The type of a given tensor decides; numbers alone take the default one.
    like = next((v for v in values if isinstance(v, Tensor)), None)
    if not all(isinstance(v, Tensor | bool | int | float) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    dtype = like.dtype if like is not None else default_dtype()
    members = [v if isinstance(v, Tensor) else tensor(v, dtype=dtype) for v in values]
    return tuple(broadcast_tensors(*members))


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the last dimensions."""
    return value if dims == 0 else reduction.sum(value, tuple(range(-dims, 0)))


class Distribution:
    """A family with its parameters: `batch_shape` are independent ones, `event_shape` is the shape of one value."""

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: Mapping[str, Constraint] = {}
    support: Any = constraints.dependent
    set_default_validate_args = staticmethod(set_default_validate_args)

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None):
        self._batch_shape, self._event_shape = as_size(batch_shape), as_size(event_shape)
        self._validate_args = _validates_args if validate_args is None else validate_args
        if self._validate_args:
            self._check_arguments()

    def _check_arguments(self) -> None:
        for name, constraint in self.arg_constraints.items():
            # A parameter that another one stands for is computed on demand, and was not given.
            if isinstance(constraint, constraints.Dependent) or name not in self.__dict__:
                continue
            # Numbers that are no tensors, as counts, have been checked by the family.
            value = self.__dict__[name]
            if not isinstance(value, Tensor):
                continue
            if not _is_satisfied(constraint, value):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    @property
    def batch_shape(self) -> Size:
        """The shape of independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def mean(self) -> Any:
        """The expected value."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The expected square of the distance from the mean."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        deviation: Tensor = self.variance.sqrt()
        return deviation

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Values that carry gradients to the parameters."""
        raise NotImplementedError

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Values of shape [*sample_shape, *batch_shape, *event_shape], without gradients."""
        with grad_mode(False):
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """As `sample((n,))`."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log of the density or probability at a value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to this one."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which a probability lies."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The expected value of minus the log of the density."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Every value of a discrete family."""
        raise NotImplementedError

    def expand(self, batch_shape: Any, _instance: Any = None) -> "Distribution":
        """The same distribution for a larger batch."""
        # Past the constructor, whose arguments are the family's own.
        grown = type(self).__new__(type(self))
        grown.__dict__.update(self.__dict__)
        shape = as_size(batch_shape)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor):
                own = value.shape[len(self._batch_shape) :]
                grown.__dict__[name] = expand(value, (*shape, *own))
            elif isinstance(value, Distribution):
                extra = value.batch_shape[len(self._batch_shape) :]
                grown.__dict__[name] = value.expand((*shape, *extra))
        grown._batch_shape = shape
        return grown

    def _validate_sample(self, value: Any) -> None:
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        wanted, shape = self._extended_shape(), value.shape
        # From the end, as shapes broadcast.
        for a, b in zip(reversed(shape), reversed(wanted), strict=False):
            if 1 not in (a, b) and a != b:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {wanted}.")
        support = self.support
        # Unknown until the parameters are: nothing to hold a value to.
        if isinstance(support, constraints.Dependent):
            return
        if not _is_satisfied(support, value):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        shown = [n for n in self.arg_constraints if n in self.__dict__]
        parts = [
            f"{n}: {v if not isinstance(v, Tensor) or v.numel() == 1 else v.size()}"
            for n, v in ((n, self.__dict__[n]) for n in shown)
        ]
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """A family whose density is exp of a product of parameters and statistics."""


def _is_satisfied(constraint: Constraint, value: Tensor) -> bool:
    """Whether all elements keep a constraint; where a plan has no values none is broken."""
    if storage.is_unknown_in_plan(value.node):
        return True
    try:
        return bool(reduction.all(constraint.check(value)).item())
    except TraceError as error:
        hint = "Make the distribution with validate_args=False: a step has no values to be looked at."
        raise TraceError(error.what, where=error.where, hint=hint) from None
