"""Least squares, factorizations that report failures as numbers, condition numbers, and tensor equations.

The functions are published under `torch.linalg`. Matrices are the last two dimensions of a tensor; the leading
dimensions are a batch.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazytensor.core import source
from lazytensor.core.dtype import int32, int64
from lazytensor.core.tensor import Tensor, from_array
from lazytensor.errors import FactorizationFailed, OptionMissing, ShapeError
from lazytensor.functional import creation, linalg, views
from lazytensor.functional import matmul as matrix
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction as red
from lazytensor.functional.strided_views import transpose_matrices

LEAST_SQUARES_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")
"""LAPACK's names of methods; "gels" is for matrices of full rank."""


class LeastSquares(NamedTuple):
    """The result of `lstsq`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class CheckedInverse(NamedTuple):
    """The result of `inv_ex`: `info` is 0 where there is an inverse, else the number of the first zero pivot."""

    inverse: Tensor
    info: Tensor


class CheckedCholesky(NamedTuple):
    """The result of `cholesky_ex`: `info` is 0, or the order of the first leading minor that is not positive."""

    L: Tensor
    info: Tensor


class CheckedSolution(NamedTuple):
    """The result of `solve_ex`: `info` is 0 where there is a solution, else the number of the first zero pivot."""

    result: Tensor
    info: Tensor


class CheckedLU(NamedTuple):
    """The result of `lu_factor_ex`: `info` is 0, or the number of the first zero pivot."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """Return the X of least norm that minimizes the norm of A X - B: [..., m, n] and [..., m, k] -> [..., n, k].

    `B` may be a batch of vectors, with exactly the shape of `A` without its last dimension; then so is X. Singular
    values up to `rcond` times the largest one count as 0; the default is max(m, n) times the rounding error of the
    type. All drivers compute the same through the singular values. `residuals` are the sums of squares of A X - B if
    m > n and all ranks are n, except with the default driver "gelsy"; `rank` is empty with "gels", and
    `singular_values` is there with "gelsd" and "gelss" only. Raises ShapeError for shapes that do not fit or another
    driver.

    >>> import lazytensor as lt
    >>> lt.linalg.lstsq(lt.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), lt.tensor([[1.0], [4.0], [3.0]])).solution
    tensor([[1.],
            [2.]])
    """
    if driver is not None and driver not in LEAST_SQUARES_DRIVERS:
        raise ShapeError(
            f"torch.linalg.lstsq: parameter `driver` should be one of {LEAST_SQUARES_DRIVERS}, but it is {driver!r}",
            where=source.where(),
        )
    if A.ndim < 2 or B.ndim < 1:
        raise ShapeError(
            "torch.linalg.lstsq: A needs at least 2 dimensions and B at least 1, but the shapes are "
            f"{list(A.shape)} and {list(B.shape)}",
            where=source.where(),
        )
    is_vector = B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]
    right = views.unsqueeze(B, -1) if is_vector else B
    m, n = A.shape[-2:]
    tolerance = max(m, n) * 2.0**-A.dtype.mantissa_bits if rcond is None else float(rcond)
    # With a full rank, PyTorch's "gels" has no tolerance.
    solution = matrix.matmul(linalg.pinv(A, rtol=0.0 if driver == "gels" else tolerance), right)
    values = linalg.svdvals(A.detach())
    rank = red.sum(values > tolerance * red.amax(values, -1, True), -1)
    nothing = creation.empty(0, dtype=A.dtype)
    residuals = nothing
    if m > n and driver not in (None, "gelsy") and (driver == "gels" or int(red.amin(rank.reshape(-1), 0)) == n):
        residuals = red.sum(pw.square(matrix.matmul(A, solution) - right), -2)
    return LeastSquares(
        views.squeeze(solution, -1) if is_vector else solution,
        residuals,
        creation.empty(0, dtype=int64) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else nothing,
    )


def _replace_failed(x: Tensor, info: Tensor) -> Tensor:
    """Return matrices with those where `info` is not 0 replaced by the identity, which every method accepts."""
    failed = views.unsqueeze(views.unsqueeze(info != 0, -1), -1)
    return pw.where(failed, creation.eye(x.shape[-1], dtype=x.dtype), x)


def _mark_failed(result: Tensor, info: Tensor) -> Tensor:
    """Return results with NaN where `info` is not 0."""
    return pw.where(views.unsqueeze(views.unsqueeze(info != 0, -1), -1), math.nan, result)


def _raise_failures(name: str, info: Tensor, check_errors: bool, what: str) -> None:
    """Raise FactorizationFailed if `check_errors` is true and `info` is not 0, with the first such number."""
    numbers = info.numpy().reshape(-1) if check_errors else np.zeros(0)
    if numbers.any():
        place = int(np.flatnonzero(numbers)[0])
        first, batch = int(numbers[place]), f"(Batch element {place}): " if info.ndim else ""
        raise FactorizationFailed(f"linalg.{name}: {batch}{what.format(first)}", where=source.where())


def _number_of_zero_pivot(factors: Tensor) -> Tensor:
    """Return for each factorization the number of the first 0 on the diagonal of U, from 1, or 0: int32 [...]."""
    zeros = linalg.diagonal(factors) == 0
    first = red.argmax(pw.cast_to(zeros, int32), -1) + 1
    return pw.cast_to(pw.where(red.any(zeros, -1), first, 0), int32)


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> CheckedLU:
    """Return the factors of `lu_factor`, and int32 [...] with the number of the first zero pivot, or 0.

    With `check_errors` a zero pivot raises FactorizationFailed.

    >>> import lazytensor as lt
    >>> lt.linalg.lu_factor_ex(lt.tensor([[1.0, 2.0], [2.0, 4.0]])).info
    tensor(2, dtype=lazytensor.int32)
    """
    factors, pivots = linalg.lu_factor(A, pivot=pivot)
    info = _number_of_zero_pivot(factors)
    _raise_failures(
        "lu_factor_ex", info, check_errors, "U[{0},{0}] is zero and using it on lu_solve would divide by zero."
    )
    return CheckedLU(factors, pivots, info)


def inv_ex(A: Tensor, *, check_errors: bool = False) -> CheckedInverse:
    """Return the inverse of each matrix [..., n, n], and int32 [...] with the number of the first zero pivot, or 0.

    The inverse of a singular matrix is NaN. With `check_errors` such a matrix raises FactorizationFailed.

    >>> import lazytensor as lt
    >>> lt.linalg.inv_ex(lt.tensor([[2.0, 0.0], [0.0, 4.0]])).info
    tensor(0, dtype=lazytensor.int32)
    """
    info = lu_factor_ex(A).info
    _raise_failures(
        "inv_ex",
        info,
        check_errors,
        "The diagonal element {0} is zero, the inversion could not be completed because the input matrix is singular.",
    )
    return CheckedInverse(_mark_failed(linalg.inv(_replace_failed(A, info)), info), info)


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> CheckedSolution:
    """Return X with A X = B as `solve`, and int32 [...] with the number of the first zero pivot of A, or 0.

    X is NaN for a singular matrix. With `check_errors` such a matrix raises FactorizationFailed.

    >>> import lazytensor as lt
    >>> lt.linalg.solve_ex(lt.tensor([[2.0, 0.0], [0.0, 4.0]]), lt.tensor([2.0, 8.0])).result
    tensor([1., 2.])
    """
    info = lu_factor_ex(A).info
    _raise_failures(
        "solve_ex", info, check_errors, "The solver failed because the input matrix is singular: pivot {0} is zero."
    )
    is_vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    result = linalg.solve(_replace_failed(A, info), B, left=left)
    failed = views.unsqueeze(info != 0, -1)
    return CheckedSolution(pw.where(failed if is_vector else views.unsqueeze(failed, -1), math.nan, result), info)


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CheckedCholesky:
    """Return L of `cholesky` [..., n, n], and int32 [...] with the order of the first minor that is not positive, or 0.

    L is NaN where a matrix is not positive definite. With `check_errors` such a matrix raises FactorizationFailed. The
    values of `A` are read.

    >>> import lazytensor as lt
    >>> lt.linalg.cholesky_ex(lt.tensor([[1.0, 2.0], [2.0, 1.0]])).info
    tensor(2, dtype=lazytensor.int32)
    """
    array = A.detach().numpy().astype(np.float64)
    # NumPy reads the lower triangle.
    array = np.swapaxes(array, -1, -2) if upper else array
    orders = [_order_of_first_minor(m) for m in array.reshape(-1, *array.shape[-2:])]
    info = from_array(np.asarray(orders, np.int32).reshape(array.shape[:-2]))
    _raise_failures(
        "cholesky_ex",
        info,
        check_errors,
        "The factorization could not be completed because the input is not positive-definite (the leading minor of "
        "order {0} is not positive-definite).",
    )
    return CheckedCholesky(_mark_failed(linalg.cholesky(_replace_failed(A, info), upper), info), info)


def _order_of_first_minor(matrix: np.ndarray) -> int:
    """Return the order of the first leading minor of a matrix that is not positive definite, or 0."""
    if _is_positive_definite(matrix):
        return 0
    return next(k for k in range(1, len(matrix) + 1) if not _is_positive_definite(matrix[:k, :k]))


def _is_positive_definite(matrix: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Return X with A X = B from the factorization of A by `lu_factor`: [..., n, k].

    With `left` false it is X A = B, and `adjoint` stands for the transpose of A.

    >>> import lazytensor as lt
    >>> factors, pivots = lt.linalg.lu_factor(lt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> lt.linalg.lu_solve(factors, pivots, lt.tensor([[2.0], [2.0]]))
    tensor([[1.0000],
            [0.5000]])
    """
    if not left:
        # X A = B is A^T X^T = B^T.
        return transpose_matrices(lu_solve(LU, pivots, transpose_matrices(B), adjoint=not adjoint))
    if not adjoint:
        return linalg.lu_solve(B, LU, pivots)
    # A^T = U^T L^T P^T, so U^T y = B, then L^T z = y, then X = P z.
    exchanges, low, up = linalg.lu_unpack(LU, pivots)
    half = linalg.solve_triangular(transpose_matrices(up), B, upper=False)
    return matrix.matmul(exchanges, linalg.solve_triangular(transpose_matrices(low), half, upper=True))


def cond(A: Tensor, p: float | str | None = None) -> Tensor:
    """Return the condition number of each matrix in the norm `p` of `matrix_norm`: [..., m, n] -> [...].

    By default, or for 2 and -2, it is the ratio of the singular values, and matrices need not be square. It is infinite
    for a singular matrix.

    >>> import lazytensor as lt
    >>> lt.linalg.cond(lt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(2.)
    """
    if p is None or p in (2, -2):
        values = linalg.svdvals(A)
        largest, smallest = red.amax(values, -1), red.amin(values, -1)
        return smallest / largest if p == -2 else largest / smallest
    info = lu_factor_ex(A).info
    inverse = linalg.inv(_replace_failed(A, info))
    product = linalg.matrix_norm(A, p) * linalg.matrix_norm(inverse, p)
    return pw.where(info != 0, math.inf, product)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """Return the inverse of `A` as a map from its dimensions after the first `ind` to those: [a.., b..] -> [b.., a..].

    Raises ShapeError if the two products of extents differ.

    >>> import lazytensor as lt
    >>> lt.linalg.tensorinv(lt.eye(6).reshape(2, 3, 6)).shape
    lazytensor.Size([6, 2, 3])
    """
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    _require_square("tensorinv", first, last)
    return linalg.inv(A.reshape(math.prod(first), -1)).reshape((*last, *first))


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """Return X with the sum of A[b.., x..] X[x..] over all x equal to B: [b.., x..] and [b..] -> [x..].

    The dimensions `dims` of `A` are moved to its end first. Raises ShapeError if the extents do not fit.

    >>> import lazytensor as lt
    >>> lt.linalg.tensorsolve(lt.eye(6).reshape(2, 3, 6), lt.ones(2, 3))
    tensor([1., 1., 1., 1., 1., 1.])
    """
    if dims is not None:
        A = views.movedim(A, tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    first, last = tuple(A.shape[: B.ndim]), tuple(A.shape[B.ndim :])
    _require_square("tensorsolve", first, last)
    return linalg.solve(A.reshape(math.prod(first), -1), B.reshape(-1)).reshape(last)


def _require_square(name: str, first: tuple[int, ...], last: tuple[int, ...]) -> None:
    if math.prod(first) != math.prod(last):
        raise ShapeError(
            f"linalg.{name}: the product of the first extents has to be that of the last ones, but they are "
            f"{list(first)} and {list(last)}",
            where=source.where(),
        )


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Return the powers 0 to N - 1 of each element in a new last dimension: [..., n] -> [..., n, N]. N is n by default.

    >>> import lazytensor as lt
    >>> lt.linalg.vander(lt.tensor([2.0, 3.0]), N=3)
    tensor([[1., 2., 4.],
            [1., 3., 9.]])
    """
    if N is not None and N <= 1:
        raise ShapeError("N must be greater than 1.", where=source.where())
    return pw.pow(views.unsqueeze(x, -1), creation.arange(x.shape[-1] if N is None else N))


def _refuse_complex(name: str) -> Callable[..., Any]:
    def refused(A: Tensor) -> Any:
        raise OptionMissing(
            f"linalg.{name} has complex results, and complex numbers are not supported",
            where=source.where(),
            hint="Use torch.linalg.eigh for symmetric matrices.",
        )

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Raise OptionMissing, because eigenvalues of general matrices are complex."
    return refused


eig, eigvals = _refuse_complex("eig"), _refuse_complex("eigvals")
