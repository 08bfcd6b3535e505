"""The registries `biject_to` and `transform_to`, which map constraints to transforms of unconstrained numbers."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.torch.distributions import constraints, transforms
from cstorch_compat.torch.distributions.constraints import Constraint
from cstorch_compat.torch.distributions.transforms import Transform

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """A table from classes of constraints to functions that return a transform onto the region of a constraint.

    >>> transform_to(constraints.positive)
    ExpTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Factory] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Register `factory` for a class of constraints, or for the class of an object. It replaces an earlier one.

        Without `factory`, return a decorator. Raises TypeError if `constraint` is no constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """Return the transform of a constraint. Raises NotImplementedError if its exact class is not registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
"""The registry of bijective transforms."""
transform_to = ConstraintRegistry()
"""The registry of transforms that are not always bijective, and then use fewer or more numbers."""


def _is_number(value: Any, wanted: float) -> bool:
    return isinstance(value, int | float) and value == wanted


def _make_greater_transform(constraint: Any) -> Transform:
    if _is_number(constraint.lower_bound, 0):
        return transforms.ExpTransform()
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


def _make_less_transform(constraint: Any) -> Transform:
    flip = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), flip])


def _make_interval_transform(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if _is_number(low, 0) and _is_number(high, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _register_elementwise(registry: ConstraintRegistry) -> None:
    """Register the transforms that both registries have."""
    registry.register(constraints.real, lambda c: transforms.identity_transform)
    registry.register(constraints._GreaterThan, _make_greater_transform)
    registry.register(constraints._GreaterThanEq, _make_greater_transform)
    registry.register(constraints._LessThan, _make_less_transform)
    registry.register(constraints._Interval, _make_interval_transform)
    registry.register(constraints._HalfOpenInterval, _make_interval_transform)
    registry.register(
        constraints._IndependentConstraint,
        lambda c: transforms.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims),
    )
    registry.register(
        constraints._Cat, lambda c: transforms.CatTransform([registry(part) for part in c.cseq], c.dim, c.lengths)
    )
    registry.register(
        constraints._Stack, lambda c: transforms.StackTransform([registry(part) for part in c.cseq], c.dim)
    )


_register_elementwise(biject_to)
_register_elementwise(transform_to)
biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
for _positive in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_positive, lambda c: transforms.PositiveDefiniteTransform())
