"""The constraints of `torch.distributions.constraints`, which test whether parameters and values are valid."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.core.tensor import Tensor, from_array
from lazytensor.errors import OptionMissing
from lazytensor.functional import reduction
from lazytensor.functional.comparison import isclose

SUM_TOLERANCE = 1e-6
"""The tolerance for probabilities that have to sum to 1."""


class Constraint:
    """A region of valid values.

    `check(value)` returns a bool for each event. The last `event_dim` dimensions are one event. `is_discrete` states
    whether the region consists of integers.
    """

    is_discrete = False
    event_dim = 0

    def __init__(self, name: str = "", check: Callable[[Any], Any] | None = None, **facts: Any):
        self.name, self._check = name or type(self).__name__, check
        self.is_discrete = facts.get("is_discrete", self.is_discrete)
        self.event_dim = facts.get("event_dim", self.event_dim)

    def check(self, value: Any) -> Any:
        """Return a bool tensor with one element for each event, which is True for events in the region.

        Raises NotImplementedError for a constraint without a check.
        """
        if self._check is None:
            raise OptionMissing(
                f"{self} has no check",
                where=source.where(),
                hint="Use a constraint with a check, such as constraints.positive.",
            )
        return self._check(value)

    def __repr__(self) -> str:
        return self.name


class Dependent(Constraint):
    """A constraint that depends on other parameters, so it cannot be checked by itself."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0):
        super().__init__("Dependent()", None, is_discrete=is_discrete, event_dim=event_dim)


dependent = Dependent()
boolean = Constraint("Boolean()", lambda v: (v == 0) | (v == 1), is_discrete=True)
real = Constraint("Real()", lambda v: v == v)
nonnegative_integer = Constraint(
    "IntegerGreaterThan(lower_bound=0)", lambda v: (v % 1 == 0) & (v >= 0), is_discrete=True
)
positive_integer = Constraint("IntegerGreaterThan(lower_bound=1)", lambda v: (v % 1 == 0) & (v >= 1), is_discrete=True)
positive = Constraint("GreaterThan(lower_bound=0.0)", lambda v: v > 0)
nonnegative = Constraint("GreaterThanEq(lower_bound=0.0)", lambda v: v >= 0)
unit_interval = Constraint("Interval(lower_bound=0.0, upper_bound=1.0)", lambda v: (v >= 0) & (v <= 1))


def greater_than(lower_bound: Any) -> Constraint:
    """Return the constraint x > `lower_bound`."""
    return Constraint(f"GreaterThan(lower_bound={lower_bound})", lambda v: v > lower_bound)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """Return the constraint x >= `lower_bound`."""
    return Constraint(f"GreaterThanEq(lower_bound={lower_bound})", lambda v: v >= lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Return the constraint x < `upper_bound`."""
    return Constraint(f"LessThan(upper_bound={upper_bound})", lambda v: v < upper_bound)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Return the constraint `lower_bound` <= x <= `upper_bound`."""
    name = f"Interval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda v: (v >= lower_bound) & (v <= upper_bound))


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Return the constraint `lower_bound` <= x < `upper_bound`."""
    name = f"HalfOpenInterval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda v: (v >= lower_bound) & (v < upper_bound))


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Return the constraint that x is an integer with `lower_bound` <= x <= `upper_bound`."""
    name = f"IntegerInterval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda v: (v % 1 == 0) & (v >= lower_bound) & (v <= upper_bound), is_discrete=True)


def multinomial(total: Any) -> Constraint:
    """Return the constraint that counts along the last dimension are >= 0 and sum to at most `total`."""
    inside = lambda v: reduction.all(v >= 0, -1) & (reduction.sum(v, -1) <= total)  # noqa: E731
    return Constraint("Multinomial()", inside, is_discrete=True, event_dim=1)


def independent(base: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """Return the constraint that holds if `base` holds for all elements of the last batch dimensions.

    The last `reinterpreted_batch_ndims` batch dimensions become part of an event.
    """

    def inside(value: Any) -> Any:
        answer = base.check(value)
        for _ in range(reinterpreted_batch_ndims):
            answer = reduction.all(answer, -1)
        return answer

    dims = base.event_dim + reinterpreted_batch_ndims
    name = f"IndependentConstraint({base}, {reinterpreted_batch_ndims})"
    return Constraint(name, inside, is_discrete=base.is_discrete, event_dim=dims)


def _is_simplex(v: Any) -> Any:
    return reduction.all(v >= 0, -1) & (abs(reduction.sum(v, -1) - 1) < SUM_TOLERANCE)


def _is_lower(v: Tensor) -> Any:
    return reduction.all((v.tril() == v).flatten(-2), -1)


def _is_positive_definite(v: Tensor) -> Any:
    is_symmetric = reduction.all(isclose(v, v.mT, atol=1e-6).flatten(-2), -1)
    matrices = v.array("a distribution")
    factored = [_has_factor(m) for m in matrices.reshape(-1, *matrices.shape[-2:])]
    return is_symmetric & from_array(np.reshape(np.array(factored, bool), matrices.shape[:-2]))


def _has_factor(matrix: np.ndarray) -> bool:
    """Return whether a matrix has a Cholesky factor."""
    try:
        return bool(np.isfinite(np.linalg.cholesky(matrix)).all())
    except np.linalg.LinAlgError:
        return False


simplex = Constraint("Simplex()", _is_simplex, event_dim=1)
one_hot = Constraint(
    "OneHot()",
    lambda v: reduction.all((v == 0) | (v == 1), -1) & (reduction.sum(v, -1) == 1),
    is_discrete=True,
    event_dim=1,
)
real_vector = Constraint("IndependentConstraint(Real(), 1)", lambda v: reduction.all(v == v, -1), event_dim=1)
lower_triangular = Constraint("LowerTriangular()", _is_lower, event_dim=2)
lower_cholesky = Constraint(
    "LowerCholesky()",
    lambda v: _is_lower(v) & reduction.all(v.diagonal(dim1=-2, dim2=-1) > 0, -1),
    event_dim=2,
)
positive_definite = Constraint("PositiveDefinite()", _is_positive_definite, event_dim=2)
