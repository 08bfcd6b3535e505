"""The constraints of `torch.distributions.constraints`, which test whether parameters and values are valid.

A class has its private name of PyTorch, which libraries use in their registries, and a public name for its constructor.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.core.tensor import Tensor, from_array
from lazytensor.errors import OptionMissing
from lazytensor.functional import reduction
from lazytensor.functional.comparison import isclose
from lazytensor.functional.joining_and_splitting import cat as concatenate
from lazytensor.functional.joining_and_splitting import stack as stack_tensors

SUM_TOLERANCE = 1e-6
"""The tolerance for probabilities that have to sum to 1."""
CORRELATION_TOLERANCE = 1e-5
"""The tolerance for the norms of the rows of a factor of a correlation matrix."""


class Constraint:
    """A region of valid values. A subclass defines `check`.

    `check(value)` returns a bool for each event. The last `event_dim` dimensions are one event. `is_discrete` states
    whether the region consists of integers.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Return a bool tensor with one element for each event, which is True for events in the region.

        Raises NotImplementedError for a constraint without a check.
        """
        raise OptionMissing(
            f"{self} has no check",
            where=source.where(),
            hint="Use a constraint with a check, such as constraints.positive.",
        )

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_") + "()"


class _Dependent(Constraint):
    """A constraint that depends on other parameters, so it cannot be checked by itself."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        """Return whether the region consists of integers. Raises NotImplementedError if this is not known."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return bool(self._is_discrete)

    @property
    def event_dim(self) -> int:
        """Return the number of dimensions of one event. Raises NotImplementedError if this is not known."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return int(self._event_dim)

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> "_Dependent":
        """Return a dependent constraint with other facts; the default is a fact of this one."""
        is_discrete = self._is_discrete if is_discrete is NotImplemented else is_discrete
        event_dim = self._event_dim if event_dim is NotImplemented else event_dim
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Any) -> Any:
        """Raise ValueError."""
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Return whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of a distribution that returns a constraint, and on the class is a dependent constraint.

    It decorates a method, with or without the keyword arguments `is_discrete` and `event_dim`.
    """

    def __init__(
        self,
        fn: Callable[[Any], Constraint] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ):
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> "_DependentProperty":  # type: ignore[override]
        """Return the property of a method, with the same facts."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value  # NaN is not equal to itself


class _Bounded(Constraint):
    """The base class of constraints with bounds, which the constructor takes and `repr` shows."""

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


class _GreaterThan(_Bounded):
    def __init__(self, lower_bound: Any):
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(_GreaterThan):
    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class _IntegerGreaterThan(_GreaterThan):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _LessThan(_Bounded):
    def __init__(self, upper_bound: Any):
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


def accepts_arrays(constraint: Constraint) -> bool:
    """Return whether `constraint.check` also takes a NumPy array: it compares each element with numbers.

    A subclass of the script does not count.
    """
    return type(constraint) in _ELEMENTWISE_CLASSES and not any(
        isinstance(bound, Tensor) for bound in vars(constraint).values()
    )


_ELEMENTWISE_CLASSES = frozenset(
    (
        *(_Boolean, _Real, _GreaterThan, _GreaterThanEq, _IntegerGreaterThan, _LessThan),
        *(_Interval, _HalfOpenInterval, _IntegerInterval),
    )
)


class _Multinomial(Constraint):
    """The constraint that counts along the last dimension are >= 0 and sum to at most `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any):
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return reduction.all(value >= 0, -1) & (reduction.sum(value, -1) <= self.upper_bound)


class _IndependentConstraint(Constraint):
    """The constraint that holds if `base_constraint` holds for all elements of the last batch dimensions.

    The last `reinterpreted_batch_ndims` batch dimensions become part of an event.
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int):
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        answer = self.base_constraint.check(value)
        if answer.ndim < self.reinterpreted_batch_ndims:
            raise ValueError(
                f"Expected value.dim() >= {self.event_dim} but got {answer.ndim + int(self.base_constraint.event_dim)}"
            )
        for _ in range(self.reinterpreted_batch_ndims):
            answer = reduction.all(answer, -1)
        return answer

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The constraint that `base_constraint` holds for every component, which the value does not have a dimension of."""

    def __init__(self, base_constraint: Constraint):
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim)

    def check(self, value: Any) -> Any:
        answer = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return reduction.all(answer, -1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return reduction.all(value >= 0, -1) & (abs(reduction.sum(value, -1) - 1) < SUM_TOLERANCE)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return reduction.all((value == 0) | (value == 1), -1) & (reduction.sum(value, -1) == 1)


def _is_lower(v: Tensor) -> Any:
    return reduction.all((v.tril() == v).flatten(-2), -1)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return _is_lower(value)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return _is_lower(value) & reduction.all(value.diagonal(dim1=-2, dim2=-1) > 0, -1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        rows = isclose(reduction.sum(value * value, -1), 1.0 + value[..., 0] * 0, atol=CORRELATION_TOLERANCE)
        return _LowerCholesky().check(value) & reduction.all(rows, -1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return (value[..., 0, 0] == value[..., 0, 0]) | (value.shape[-2] == value.shape[-1])


class _Symmetric(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return reduction.all(isclose(value, value.mT, atol=1e-6).flatten(-2), -1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        return super().check(value) & _map_matrices(value, lambda m: np.linalg.eigvalsh(m).min() >= 0)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        return super().check(value) & _map_matrices(value, _has_factor)


def _map_matrices(v: Tensor, test: Callable[[np.ndarray], Any]) -> Tensor:
    """Return `test(matrix)` for each matrix of a batch, as a bool tensor."""
    matrices = v.array("a distribution")
    answers = [bool(test(m)) for m in matrices.reshape(-1, *matrices.shape[-2:])]
    return from_array(np.reshape(np.array(answers, bool), matrices.shape[:-2]))


def _has_factor(matrix: np.ndarray) -> bool:
    """Return whether a matrix has a Cholesky factor."""
    try:
        return bool(np.isfinite(np.linalg.cholesky(matrix)).all())
    except np.linalg.LinAlgError:
        return False


class _Joined(Constraint):
    """The base class of constraints whose parts hold for parts of the value along the dimension `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0):
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)


class _Cat(_Joined):
    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    @property
    def event_dim(self) -> int:
        return max(int(c.event_dim) for c in self.cseq)

    def check(self, value: Any) -> Any:
        starts = [sum(self.lengths[:k]) for k in range(len(self.lengths))]
        parts = [value.narrow(self.dim, a, n) for a, n in zip(starts, self.lengths, strict=True)]
        return concatenate([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Joined):
    @property
    def event_dim(self) -> int:
        largest = max(int(c.event_dim) for c in self.cseq)
        return largest + (self.dim + largest < 0)

    def check(self, value: Any) -> Any:
        parts = [value.select(self.dim, k) for k in range(value.shape[self.dim])]
        return stack_tensors([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
boolean = _Boolean()
real = _Real()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
unit_interval = _Interval(0.0, 1.0)
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
multinomial = _Multinomial
independent = _IndependentConstraint
simplex = _Simplex()
one_hot = _OneHot()
real_vector = independent(real, 1)
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat, stack = _Cat, _Stack
