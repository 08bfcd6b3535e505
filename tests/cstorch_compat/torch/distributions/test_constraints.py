"""Constraints, their registries of transforms, and the protocol of distributions for subclasses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.torch.distributions import utils
from lazytensor import arange, manual_seed, ones, randn, tensor, tril_indices

D = get_mirror("torch.distributions")
C = D.constraints
TRANSFORMED = {
    "real": (C.real, (3,)),
    "positive": (C.positive, (3,)),
    "nonnegative": (C.nonnegative, (3,)),
    "greater_than": (C.greater_than(2.0), (3,)),
    "less_than": (C.less_than(-1.0), (3,)),
    "unit_interval": (C.unit_interval, (3,)),
    "interval": (C.interval(-2.0, 5.0), (3,)),
    "half_open_interval": (C.half_open_interval(1.0, 2.0), (3,)),
    "independent": (C.independent(C.positive, 1), (2, 3)),
    "simplex": (C.simplex, (2, 4)),
    "cat": (C.cat([C.positive, C.unit_interval], -1, [2, 1]), (2, 3)),
    "stack": (C.stack([C.real, C.less_than(0.0)], -1), (4, 2)),
    "lower_cholesky": (C.lower_cholesky, (2, 3, 3)),
    "positive_definite": (C.positive_definite, (3, 3)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("registry", [D.biject_to, D.transform_to], ids=["biject_to", "transform_to"])
def test_transforms_map_all_numbers_into_the_region_and_back(registry, name):
    constraint, shape = TRANSFORMED[name]
    if registry is D.biject_to and name in ("lower_cholesky", "positive_definite"):
        with pytest.raises(NotImplementedError, match="Cannot transform _"):
            registry(constraint)
        return
    manual_seed(0)
    transform, x = registry(constraint), randn(shape)
    y = transform(x)
    assert bool(constraint.check(y).all())
    np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-4, atol=1e-5)
    if transform.bijective and name not in ("lower_cholesky", "positive_definite"):
        np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-3, atol=1e-4)
        slope = transform.log_abs_det_jacobian(x, y)
        # As in PyTorch, a stack has one for each slice.
        events = 0 if name == "stack" else transform.event_dim
        assert np.isfinite(slope.numpy()).all() and slope.shape == shape[: len(shape) - events]


def test_a_registry_takes_classes_and_objects_and_replaces_earlier_functions():
    registry = D.constraint_registry.ConstraintRegistry()
    registry.register(C.real, lambda c: "first")

    @registry.register(type(C.real))
    def make(constraint):
        return constraint

    assert registry(C.real) is C.real
    with pytest.raises(TypeError, match="Constraint subclass or instance"):
        registry.register(int, make)
    with pytest.raises(NotImplementedError):
        registry(C.positive)


RECORDED = {
    "boolean": [[True, False, True]], "nonnegative_integer": [[True, False, True]],
    "positive_integer": [[False, False, True]], "simplex": [False], "one_hot": [False], "real": [[True, True, True]],
    "unit_interval": [[True, True, True]],
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_checks_are_those_of_pytorch(name):
    assert getattr(C, name).check(tensor([[0.0, 0.5, 1.0]])).tolist() == RECORDED[name]


def test_matrices_are_checked():
    eye, other = np.eye(2, dtype=np.float32), np.array([[1, 2], [0, 1]], np.float32)
    both = tensor(np.stack([eye, other, -eye, eye * 0]))
    assert C.symmetric.check(both).tolist() == [True, False, True, True]
    # PyTorch reports only the symmetry of a batch with an asymmetric matrix.
    assert C.positive_definite.check(both).tolist() == [True, False, False, False]
    assert C.positive_semidefinite.check(both).tolist() == [True, False, False, True]
    assert C.corr_cholesky.check(both).tolist() == [True, False, False, False]
    assert C.square.check(both).tolist() == [True] * 4


def test_a_dependent_property_is_a_constraint_of_the_class_and_of_the_object():
    class Window(D.Distribution):
        def __init__(self, high):
            self.high = high
            super().__init__(high.shape)

        @C.dependent_property(is_discrete=False, event_dim=0)
        def support(self):
            return C.interval(0.0, self.high)

        @C.dependent_property
        def other(self):
            return C.real

    assert C.is_dependent(Window.support) and Window.support.event_dim == 0 and not Window.support.is_discrete
    assert Window(ones(2)).support.check(tensor([0.5, 2.0])).tolist() == [True, False]
    with pytest.raises(NotImplementedError, match="statically"):
        Window.other.event_dim  # noqa: B018
    with pytest.raises(ValueError, match="dependent constraint"):
        C.dependent.check(ones(1))


def test_a_transform_of_a_script_defines_call_and_inverse():
    class Double(D.Transform):
        domain = codomain = C.real

        def _call(self, x):
            return 2 * x

        def _inverse(self, y):
            return y / 2

        def log_abs_det_jacobian(self, x, y):
            return x * 0 + np.log(2.0)

    t = Double()
    assert t(ones(2)).tolist() == [2, 2] and t.inv(ones(2)).tolist() == [0.5, 0.5]
    shifted = D.TransformedDistribution(D.Normal(0.0, 1.0), [t])
    np.testing.assert_allclose(shifted.log_prob(ones(1)).item(), D.Normal(0.0, 2.0).log_prob(ones(1)).item(), rtol=1e-6)
    assert D.transforms.ExpTransform()._call(ones(1)).item() == pytest.approx(np.e, rel=1e-6)


def test_the_default_of_validation_is_an_attribute_of_the_class():
    assert D.Distribution._validate_args is True
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
        assert D.Distribution._validate_args is False
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="scale"):
        D.Normal(0.0, -1.0)


def test_distributions_that_are_not_implemented_can_be_subclassed_and_are_refused_on_use():
    class Mine(D.Wishart):
        pass

    assert issubclass(Mine, D.ExponentialFamily)
    with pytest.raises(NotImplementedError, match="Wishart: not implemented"):
        Mine(1, 2)


@given(st.integers(1, 6), st.integers(-2, 0))
def test_vectors_of_triangles_and_matrices_are_inverse(n, diag):
    count = tril_indices(n, n, diag).shape[1]
    if count:
        vec = arange(1.0, count + 1).expand(2, count)
        matrix = utils.vec_to_tril_matrix(vec, diag)
        assert matrix.shape == (2, n, n) and bool((matrix.tril(diag) == matrix).all())
        assert utils.tril_matrix_to_vec(matrix, diag).tolist() == vec.tolist()


def test_a_lazy_property_is_computed_once():
    class Counter:
        calls = 0

        @utils.lazy_property
        def value(self):
            """The number of calls."""
            self.calls += 1
            return self.calls

    counter = Counter()
    assert (counter.value, counter.value, counter.calls) == (1, 1, 1) and "number" in Counter.value.__doc__


def test_a_constraint_of_the_script_may_use_methods_of_tensors():
    class Sorted(C.greater_than):
        def check(self, value):
            return super().check(value) & (value.sort().values == value).unsqueeze(0).squeeze(0)

    class Ordered(D.Distribution):
        arg_constraints = {"points": Sorted(0.0)}

        def __init__(self, points):
            self.points = points
            super().__init__()

    Ordered(tensor([1.0, 2.0]))
    for points in ([2.0, 1.0], [-1.0, 1.0], [1.0, float("nan")]):
        with pytest.raises(ValueError, match="points"):
            Ordered(tensor(points))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_invalid_arguments_of_a_distribution_are_refused(bad):
    D.Normal(tensor([0.0, float("inf")]), tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="probs"):
        D.Bernoulli(probs=tensor([0.5, bad]))
    with pytest.raises(ValueError, match="value"):
        D.Poisson(ones(2)).log_prob(tensor([1.0, bad]))
