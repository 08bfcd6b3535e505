"""Least squares and checked factorizations agree with NumPy, and report failures as numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.autograd.function import grad
from lazytensor.errors import FactorizationFailed, OptionMissing, ShapeError

SIZES = st.integers(1, 5)


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def close(ours: lt.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), SIZES, SIZES, SIZES)
def test_least_squares_is_that_of_numpy(seed, m, n, k):
    a, b = drawn(seed, m, n), drawn(seed + 1, m, k)
    solution, residuals, rank, values = np.linalg.lstsq(a, b, rcond=None)
    result = lt.linalg.lstsq(lt.tensor(a), lt.tensor(b), driver="gelsd")
    close(result.solution, solution)
    close(result.singular_values, values)
    assert int(result.rank) == rank
    close(result.residuals, residuals if m > n else np.zeros(0))
    close(lt.linalg.lstsq(lt.tensor(a), lt.tensor(b[:, 0])).solution, solution[:, 0])


def test_least_squares_of_a_matrix_without_full_rank_has_the_least_norm():
    a = lt.tensor([[1.0, 1.0], [1.0, 1.0]])
    result = lt.linalg.lstsq(a, lt.ones(2, 1))
    close(result.solution, np.full((2, 1), 0.5))
    assert int(result.rank) == 1
    with pytest.raises(ShapeError, match="driver"):
        lt.linalg.lstsq(a, a, driver="best")


def test_gradient_of_least_squares_is_that_of_the_normal_equations():
    a, b = (lt.tensor(drawn(k, 4, 2), requires_grad=True) for k in (0, 1))
    first = grad(lt.linalg.lstsq(a, b).solution.square().sum(), (a, b))
    normal = lt.linalg.solve(a.t() @ a, a.t() @ b)
    for ours, expected in zip(first, grad(normal.square().sum(), (a, b)), strict=True):
        close(ours, expected.numpy())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), SIZES)
def test_checked_functions_have_the_values_of_the_plain_ones(seed, n):
    a, b = lt.tensor(drawn(seed, 2, n, n)), lt.tensor(drawn(seed + 1, 2, n, 3))
    positive = a @ a.mT + lt.eye(n)
    for checked, plain in (
        (lt.linalg.inv_ex(a), lt.linalg.inv(a)),
        (lt.linalg.solve_ex(a, b), lt.linalg.solve(a, b)),
        (lt.linalg.cholesky_ex(positive), lt.linalg.cholesky(positive)),
        (lt.linalg.lu_factor_ex(a)[::2], lt.linalg.lu_factor(a)[0]),
    ):
        value, info = checked
        close(value, plain.numpy())
        assert info.dtype is lt.int32 and info.tolist() == [0, 0]
    close(lt.linalg.lu_solve(*lt.linalg.lu_factor(a), b), lt.linalg.solve(a, b).numpy())
    close(lt.linalg.lu_solve(*lt.linalg.lu_factor(a), b, adjoint=True), lt.linalg.solve(a.mT, b).numpy())
    close(lt.linalg.lu_solve(*lt.linalg.lu_factor(a), b.mT, left=False), lt.linalg.solve(a, b.mT, left=False).numpy())


def test_checked_functions_report_the_matrices_that_fail_and_keep_the_others():
    matrices = lt.stack([lt.eye(2), lt.tensor([[1.0, 2.0], [2.0, 4.0]]), lt.zeros(2, 2)])
    for value, info in (lt.linalg.inv_ex(matrices), lt.linalg.solve_ex(matrices, lt.eye(2).expand(3, 2, 2))):
        assert info.tolist() == [0, 2, 1]
        close(value[0], np.eye(2))
        assert not lt.isfinite(value[1:]).any()
    factor, info = lt.linalg.cholesky_ex(lt.stack([lt.eye(2), lt.tensor([[1.0, 2.0], [2.0, 1.0]]), -lt.eye(2)]))
    assert info.tolist() == [0, 2, 1]
    close(factor[0], np.eye(2))


@pytest.mark.parametrize("name", ["inv_ex", "cholesky_ex", "lu_factor_ex"])
def test_checked_functions_raise_if_errors_are_requested(name):
    with pytest.raises(FactorizationFailed, match=f"linalg.{name}: .Batch element 1.: .*1"):
        getattr(lt.linalg, name)(lt.stack([lt.eye(2), lt.zeros(2, 2)]), check_errors=True)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), SIZES, st.sampled_from([None, 2, -2, "fro", "nuc", 1, -1, np.inf, -np.inf]))
def test_condition_number_is_that_of_numpy(seed, n, p):
    a = drawn(seed, n, n) + 2 * np.eye(n)
    np.testing.assert_allclose(lt.linalg.cond(lt.tensor(a), p).item(), np.linalg.cond(a, p), rtol=1e-5)


def test_condition_number_of_a_singular_matrix_is_infinite():
    assert lt.linalg.cond(lt.ones(2, 2), "fro").item() == np.inf


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 99))
def test_tensor_equations_are_those_of_numpy(seed):
    a, b = drawn(seed, 2, 3, 6), drawn(seed + 1, 2, 3)
    close(lt.linalg.tensorinv(lt.tensor(a)), np.linalg.tensorinv(a))
    close(lt.linalg.tensorsolve(lt.tensor(a), lt.tensor(b)), np.linalg.tensorsolve(a, b))
    moved = drawn(seed, 2, 6, 3)
    close(
        lt.linalg.tensorsolve(lt.tensor(moved), lt.tensor(drawn(seed, 2, 3)), (1,)),
        np.linalg.tensorsolve(moved, drawn(seed, 2, 3), (1,)),
    )
    with pytest.raises(ShapeError, match="product of the first extents"):
        lt.linalg.tensorinv(lt.ones(2, 3), 1)


def test_vandermonde_matrix_is_that_of_numpy():
    x = drawn(0, 3)
    close(lt.linalg.vander(lt.tensor(x)), np.vander(x, increasing=True))
    close(lt.linalg.vander(lt.tensor(x), N=5), np.vander(x, 5, increasing=True))


def test_rank_counts_singular_values_above_the_tolerances():
    values = lt.diag(lt.tensor([4.0, 1.0, 1e-3]))
    assert lt.linalg.matrix_rank(values).item() == 3
    assert lt.linalg.matrix_rank(values, atol=1e-2).item() == 2
    assert lt.linalg.matrix_rank(values, rtol=lt.tensor(0.5)).item() == 1
    assert lt.linalg.matrix_rank(values, 2.0).item() == 1


@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_complex_eigenvalues_are_refused_with_a_way_out(name):
    with pytest.raises(OptionMissing, match=r"test_linear_systems\.py:\d+.*complex") as caught:
        getattr(lt.linalg, name)(lt.eye(2))
    assert "eigh" in caught.value.hint
