"""The base class of distributions: shapes, argument checks, and quantities derived from others."""

from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from cstorch_compat.torch.distributions import constraints as constraints
from cstorch_compat.torch.distributions.constraints import Constraint
from lazytensor.core import source, storage
from lazytensor.core.tensor import Size, Tensor, grad_mode
from lazytensor.errors import OptionInvalid, OptionMissing, TraceError
from lazytensor.functional import reduction
from lazytensor.functional.creation import tensor
from lazytensor.functional.type_promotion import default_dtype
from lazytensor.functional.views import broadcast_tensors, expand


def set_default_validate_args(value: bool) -> None:
    """Set the default of `validate_args` for distributions created later. Raises ValueError if `value` is not a bool.

    The numbers 0 and 1 are accepted too.
    """
    if value not in (True, False):
        raise ValueError
    Distribution._validate_args = value


@contextmanager
def argument_validation(flag: bool) -> Any:
    """Return a context manager that sets the default of `validate_args` and restores it at the end."""
    before = Distribution._validate_args
    set_default_validate_args(flag)
    try:
        yield
    finally:
        set_default_validate_args(before)


def as_size(shape: Any) -> Size:
    """Return a tuple, list or Size as a Size."""
    return Size(tuple(shape))


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return numbers and tensors as tensors of one shape.

    Numbers get the dtype of the first tensor, or the default dtype if there is none. Raises ValueError for other
    objects.
    """
    like = next((v for v in values if isinstance(v, Tensor)), None)
    if not all(isinstance(v, Tensor | bool | int | float) for v in values):
        raise OptionInvalid(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.",
            where=source.where(),
            hint="Pass numbers or tensors.",
        )
    dtype = like.dtype if like is not None else default_dtype()
    members = [v if isinstance(v, Tensor) else tensor(v, dtype=dtype) for v in values]
    return tuple(broadcast_tensors(*members))


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """Return the sum of `value` over its last `dims` dimensions."""
    return value if dims == 0 else reduction.sum(value, tuple(range(-dims, 0)))


class Distribution:
    """The base class of probability distributions.

    `batch_shape` is the shape of independent distributions, and `event_shape` the shape of one sample. With
    `validate_args`, parameters and values are checked, and invalid ones raise ValueError.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: Mapping[str, Constraint] = {}
    support: Any = constraints.dependent
    set_default_validate_args = staticmethod(set_default_validate_args)
    _validate_args: bool = True
    """Whether arguments and values are checked; on the class the default."""

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None):
        self._batch_shape, self._event_shape = as_size(batch_shape), as_size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_arguments()

    def _check_arguments(self) -> None:
        """Raise ValueError if a tensor parameter violates its constraint in `arg_constraints`.

        Parameters that are computed from others or are no tensors, and constraints that depend on other parameters, are
        skipped. Inside a traced step, where values are unknown, it raises TraceError.
        """
        for name, constraint in self.arg_constraints.items():
            # Skip parameters that are computed from others.
            if isinstance(constraint, constraints._Dependent) or name not in self.__dict__:
                continue
            # Parameters that are not tensors, such as counts, are checked by the subclass.
            value = self.__dict__[name]
            if not isinstance(value, Tensor):
                continue
            if not _is_satisfied(constraint, value):
                raise OptionInvalid(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}",
                    where=source.where(),
                    hint="Pass values that satisfy the constraint, or validate_args=False.",
                )

    @property
    def batch_shape(self) -> Size:
        """Return the shape of independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Return the shape of one sample."""
        return self._event_shape

    def _missing(self, name: str) -> OptionMissing:
        """Return the error for a member that the class does not implement."""
        return OptionMissing(
            f"{type(self).__name__} does not implement {name}",
            where=source.where(),
            hint="Compute it in the script, or define it in a subclass.",
        )

    @property
    def mean(self) -> Any:
        """Return the expected value."""
        raise self._missing("mean")

    @property
    def mode(self) -> Any:
        """Return the most likely value."""
        raise self._missing("mode")

    @property
    def variance(self) -> Any:
        """Return the variance."""
        raise self._missing("variance")

    @property
    def stddev(self) -> Tensor:
        """Return the standard deviation."""
        deviation: Tensor = self.variance.sqrt()
        return deviation

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples that are differentiable in the parameters.

        Their shape is [*sample_shape, *batch_shape, *event_shape]. Raises NotImplementedError if `has_rsample` is
        False.
        """
        raise self._missing("rsample")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples without gradients, of shape [*sample_shape, *batch_shape, *event_shape]."""
        with grad_mode(False):
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """Return `sample((n,))`."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log of the density or probability at `value`."""
        raise self._missing("log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function at `value`."""
        raise self._missing("cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of the cumulative distribution function at the probability `value`."""
        raise self._missing("icdf")

    def entropy(self) -> Tensor:
        """Return the entropy."""
        raise self._missing("entropy")

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution along a new first dimension."""
        raise self._missing("enumerate_support")

    def expand(self, batch_shape: Any, _instance: Any = None) -> "Distribution":
        """Return a copy of the distribution with its parameters expanded to `batch_shape`.

        The constructor of the class is not called. A subclass may pass the object that becomes the copy as `_instance`.
        """
        # Bypass the constructor, whose arguments differ between subclasses.
        grown = type(self).__new__(type(self)) if _instance is None else _instance
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

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Return a new object of the class of this distribution without calling its constructor, or `_instance`.

        Raises NotImplementedError if the class has another constructor than `cls` and there is no `_instance`.
        """
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError if `value` is no tensor, does not broadcast, or is outside of the support.

        Without `validate_args`, do nothing. If the support depends on parameters, only the shape is checked. Raises
        TraceError inside a traced step, where values are unknown.
        """
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise OptionInvalid(
                f"The value argument to log_prob must be a Tensor, but is {value!r}",
                where=source.where(),
                hint="Pass a tensor.",
            )
        wanted, shape = self._extended_shape(), value.shape
        for a, b in zip(reversed(shape), reversed(wanted), strict=False):
            if 1 not in (a, b) and a != b:
                raise OptionInvalid(
                    f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {wanted}.",
                    where=source.where(),
                    hint="Pass a value whose shape can be broadcast.",
                )
        support = self.support
        # The support is unknown, so the value cannot be checked.
        if isinstance(support, constraints._Dependent):
            return
        if not _is_satisfied(support, value):
            raise OptionInvalid(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}",
                where=source.where(),
                hint="Pass values of the support, or validate_args=False.",
            )

    def __repr__(self) -> str:
        shown = [n for n in self.arg_constraints if n in self.__dict__]
        parts = [
            f"{n}: {v if not isinstance(v, Tensor) or v.numel() == 1 else v.size()}"
            for n, v in ((n, self.__dict__[n]) for n in shown)
        ]
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """The base class of exponential-family distributions."""


def _is_satisfied(constraint: Constraint, value: Tensor) -> bool:
    """Return whether all elements satisfy a constraint. Values that a plan does not compute count as valid.

    Raises TraceError inside a traced step, where values are unknown.
    """
    if storage.is_unknown_in_plan(value.node):
        return True
    try:
        # The check of a computed array is faster than recording and computing its operations.
        if constraints.accepts_arrays(constraint):
            with np.errstate(all="ignore"):
                return bool(np.all(constraint.check(value.array(".item()"))))
        return bool(reduction.all(constraint.check(value)).item())
    except TraceError as error:
        hint = "Create the distribution with validate_args=False, because values cannot be checked in a traced step."
        raise TraceError(error.what, where=error.where, hint=hint) from None
