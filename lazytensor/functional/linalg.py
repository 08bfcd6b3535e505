"""Linear algebra: factorizations, linear systems, determinants, inverses and matrix norms.

The functions are published under `torch` or `torch.linalg`. Matrices are the last two dimensions of a tensor; the
leading dimensions are a batch.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from lazytensor.core import source
from lazytensor.core.dtype import DType, int32
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import OptionMissing, ShapeError
from lazytensor.functional import creation, diagonals, joining_and_splitting, tensor_products, views
from lazytensor.functional import matmul as matrix
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction as red
from lazytensor.functional.matmul import matmul as matmul
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.reduction import Dim
from lazytensor.functional.statistics import vector_norm as vector_norm
from lazytensor.functional.strided_views import transpose_matrices
from lazytensor.functional.tensor_products import multi_dot as multi_dot
from lazytensor.functional.tensor_products import vecdot as vecdot
from lazytensor.functional.type_promotion import broadcast_shape
from lazytensor.functional.views import normalize_dim, unsqueeze
from lazytensor.ir.graph import Node
from lazytensor.ops import call, linalg
from lazytensor.ops.shape import broadcast_to


class SignLog(NamedTuple):
    """The result of `slogdet`: the sign of the determinant and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


class QR(NamedTuple):
    """The result of `qr`: A = Q R."""

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """The result of `svd`: A = U diag(S) Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Reflectors(NamedTuple):
    """The result of `geqrf`: R with the Householder vectors below it, and their factors."""

    a: Tensor
    tau: Tensor


class Solution(NamedTuple):
    """The result of `triangular_solve`: the solution and a copy of the coefficient matrix."""

    solution: Tensor
    cloned_coefficient: Tensor


class Eigen(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _matrix_node(x: Tensor) -> Node:
    """Return the node of a batch of matrices. Raises ShapeError for fewer than two dimensions or integers."""
    if x.ndim < 2:
        raise ShapeError(
            f"linalg: The input tensor A must have at least 2 dimensions, but it has the shape {list(x.shape)}",
            where=source.where(),
            hint="Pass a matrix, or a stack of matrices.",
        )
    if x.dtype.kind != "f":
        raise ShapeError(
            f"Expected a floating point or complex tensor as input. Got {x.dtype.name}",
            where=source.where(),
            hint="Convert the matrix first, for example with .float().",
        )
    return operand_node(x)


def _broadcast_stacks(a: Tensor, b: Tensor) -> tuple[Node, Node]:
    """Return the nodes of two batches of matrices, broadcast to the same leading dimensions."""
    x, y = _matrix_node(a), _matrix_node(b)
    lead = broadcast_shape(x.type.shape[:-2], y.type.shape[:-2])
    return broadcast_to(x, (*lead, *x.type.shape[-2:])), broadcast_to(y, (*lead, *y.type.shape[-2:]))


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """Return X with A X = B, or X A = B if `left` is false: [..., n, n] and [..., n, k] -> [..., n, k].

    The batch dimensions broadcast. `B` may be a vector [n], or a batch of vectors with exactly the batch dimensions of
    `A`; then so is X. Raises ShapeError if the shapes do not fit, and at execution if a matrix is singular.
    """
    if not left:
        # X A = B is A^T X^T = B^T.
        return transpose_matrices(solve(transpose_matrices(A), transpose_matrices(B)))
    # PyTorch's rule: B is a batch of vectors if its shape is exactly the batch shape of A and n.
    if B.ndim == 1 or (B.ndim == A.ndim - 1 and B.spec.shape == A.spec.shape[:-1]):
        out = solve(A, unsqueeze(B, -1))
        return views.view(out, out.spec.shape[:-1])
    return tensor_of(linalg.solve(*_broadcast_stacks(A, B)), A, B)


@method(names="inverse")
def inv(A: Tensor) -> Tensor:
    """Return the inverse of each matrix: [..., n, n] -> [..., n, n]. Raises ShapeError if a matrix is singular.

    >>> import lazytensor as lt
    >>> lt.inverse(lt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return tensor_of(linalg.inverse(_matrix_node(A)), A)


inverse = inv


def pinv(
    A: Tensor,
    rtol: float | Tensor | None = None,
    *,
    atol: float | Tensor | None = None,
    rcond: float | Tensor | None = None,
    hermitian: bool = False,
) -> Tensor:
    """Return the Moore-Penrose pseudoinverse of each matrix: [..., m, n] -> [..., n, m].

    Singular values up to the larger one of `atol` and `rtol` (or `rcond`) times the largest singular value count as 0.
    The default of `rtol` is max(m, n) times the rounding error of the dtype, or 0 if `atol` is above 0. Both may be
    tensors with one element, whose values are read. `hermitian` is ignored.
    """
    n = _matrix_node(A)
    given, absolute = rtol if rtol is not None else rcond, 0.0 if atol is None else float(atol)
    if given is not None:
        relative = float(given)
    else:
        # The larger extent times the rounding error of the dtype, LAPACK's usual bound.
        relative = 0.0 if absolute > 0 else max(n.type.shape[-2:]) * 2.0**-A.dtype.mantissa_bits
    attrs = {"atol": absolute} if absolute > 0 else {}
    return tensor_of(call("pinv", n, rcond=relative, **attrs), A)


@method
def pinverse(x: Tensor, rcond: float = 1e-15) -> Tensor:
    """Return the Moore-Penrose pseudoinverse of each matrix: [..., m, n] -> [..., n, m].

    Singular values below `rcond` times the largest count as 0.

    >>> import lazytensor as lt
    >>> lt.pinverse(lt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return pinv(x, rcond)


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Return X with A X = B, or X A = B if `left` is false, for triangular A: [..., n, n], [..., n, k] -> [..., n, k].

    Only the upper triangle of `A` is read if `upper` is true, else only the lower one. If `unitriangular` is true, its
    diagonal counts as ones. Raises ShapeError if the shapes do not fit.
    """
    if not left:
        # Transposing exchanges the upper and the lower triangle.
        flipped = solve_triangular(
            transpose_matrices(A), transpose_matrices(B), upper=not upper, unitriangular=unitriangular
        )
        return transpose_matrices(flipped)
    a, b = _broadcast_stacks(A, B)
    return tensor_of(linalg.triangular(linalg.set_unit_diagonal(a) if unitriangular else a, b, not upper), A, B)


@method
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Solution:
    """Return X with A X = b, or A^T X = b if `transpose` is true, and a copy of `A`.

    X is [..., n, k] and A [..., n, n]. Only the upper triangle of `A` is read if `upper` is true, else only the lower
    one. If `unitriangular` is true, its diagonal counts as ones. Raises ShapeError if the shapes do not fit.

    >>> import lazytensor as lt
    >>> lt.triangular_solve(lt.tensor([[4.0], [8.0]]), lt.tensor([[2.0, 1.0], [0.0, 4.0]])).solution
    tensor([[1.],
            [2.]])
    """
    a, right = _broadcast_stacks(A, b)
    used = linalg.set_unit_diagonal(a) if unitriangular else a
    return Solution(tensor_of(linalg.triangular(used, right, not upper, transpose), A, b), tensor_of(a, A))


@method
def cholesky(x: Tensor, upper: bool = False) -> Tensor:
    """Return the lower triangular L with x = L L^T, or L^T if `upper` is true: [..., n, n].

    Only the lower triangle of `x` is read, or the upper one if `upper` is true. Raises ShapeError if a matrix is not
    positive definite.

    >>> import lazytensor as lt
    >>> lt.cholesky(lt.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    n = call("cholesky", _matrix_node(_mirror_triangle(x, upper)))
    return tensor_of(linalg.transpose_matrices(n) if upper else n, x)


def _mirror_triangle(A: Tensor, upper: bool) -> Tensor:
    """Return symmetric matrices with the lower triangle of `A`, or the upper one if `upper` is true.

    As in PyTorch, the gradient passes to both triangles. Matrices that are not square are returned as they are.
    """
    if A.ndim < 2 or A.spec.shape[-1] != A.spec.shape[-2]:
        return A
    x = A.detach()
    half, strict = (diagonals.triu(x), diagonals.triu(x, 1)) if upper else (diagonals.tril(x), diagonals.tril(x, -1))
    # The difference is exactly 0 for a symmetric matrix.
    return A + (half + transpose_matrices(strict) - x)


@method
def cholesky_solve(b: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """Return X with L L^T X = b, or L^T L X = b if `upper` is true: [..., n, k] and [..., n, n] -> [..., n, k].

    `L` is the Cholesky factor, of which only the lower triangle is read, or the upper one if `upper` is true. Raises
    ShapeError if the shapes do not fit.

    >>> import lazytensor as lt
    >>> lt.cholesky_solve(lt.tensor([[4.0], [16.0]]), lt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[1.],
            [1.]])
    """
    if L.requires_grad:  # the gradient is that of L L^T, which is not limited to one triangle
        whole = L - L.detach() + (diagonals.triu if upper else diagonals.tril)(L.detach())
        left, right_ = (transpose_matrices(whole), whole) if upper else (whole, transpose_matrices(whole))
        return solve(matrix.matmul(left, right_), b)
    low, right = _broadcast_stacks(L, b)
    # L y = b, then L^T x = y; the other way round with the upper triangle.
    half = linalg.triangular(low, right, not upper, upper)
    return tensor_of(linalg.triangular(low, half, not upper, not upper), L, b)


@method
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """Return the inverse of L L^T, or of L^T L if `upper` is true: [..., n, n].

    `L` is the Cholesky factor, upper triangular if `upper` is true. Raises ShapeError if it is not square.

    >>> import lazytensor as lt
    >>> lt.cholesky_inverse(lt.tensor([[2.0, 0.0], [0.0, 4.0]])).diagonal()
    tensor([0.2500, 0.0625])
    """
    return cholesky_solve(_identity_stack(L, L.spec.shape[-1]), L, upper)


def _identity_stack(like: Tensor, n: int) -> Tensor:
    return tensor_of(linalg.identity_matrices(like.spec, n), like)


def _slice_rows(x: Tensor, first: int, limit: int) -> Tensor:
    return views.slice_dim(x, x.ndim - 2, first, limit)


def _slice_columns(x: Tensor, first: int, limit: int) -> Tensor:
    return views.slice_dim(x, x.ndim - 1, first, limit)


def lu_factor(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    """Return L and U packed in one matrix [..., m, n], and the row exchanges int32 [..., min(m, n)].

    Raises OptionMissing (a RuntimeError), as PyTorch on the CPU, if `pivot` is false.
    """
    if not pivot:
        raise OptionMissing(
            "linalg.lu_factor: LU without pivoting is not implemented on the CPU",
            where=source.where(),
            hint="Call it with pivot=True.",
        )
    packed = tensor_of(call("lu", _matrix_node(A)), A)
    m, n = A.spec.shape[-2:]
    # The operation has one result: rows 0 to m - 1 contain L and U, row m the exchanges.
    pivots = views.select(packed.detach(), -2, m)
    return pw.clone(_slice_rows(packed, 0, m)), pw.cast_to(_slice_columns(pivots, 0, min(m, n)), int32)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Return P [..., m, m], L [..., m, k] and U [..., k, n] of the factorization that `lu_factor` returned.

    k is min(m, n). L and U are empty tensors if `unpack_data` is false, and P if `unpack_pivots` is false.

    >>> import lazytensor as lt
    >>> factors, pivots = lt.tensor([[2.0, 0.0], [0.0, 4.0]]), lt.tensor([2, 2], dtype=lt.int32)
    >>> lt.lu_unpack(factors, pivots)[0]
    tensor([[0., 1.],
            [1., 0.]])
    """
    m, n = LU_data.spec.shape[-2:]
    k = min(m, n)
    nothing = creation.empty(0, dtype=LU_data.dtype, device=LU_data.device)
    low = up = exchanges = nothing
    if unpack_data:
        square = _slice_columns(LU_data, 0, k)
        low = diagonals.tril(square, -1) + _rectangular_identity(square)
        up = diagonals.triu(_slice_rows(LU_data, 0, k))
    if unpack_pivots:
        exchanges = _permutation_matrix(LU_pivots, m, LU_data.dtype)
    return exchanges, low, up


def _rectangular_identity(x: Tensor) -> Tensor:
    return creation.eye(*x.spec.shape[-2:], dtype=x.dtype)


def _permutation_matrix(pivots: Tensor, n: int, dtype: DType) -> Tensor:
    return tensor_of(call("permutation", operand_node(pivots), n=n, dtype=dtype), pivots)


def lu(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Return P [..., m, m], L [..., m, k] and U [..., k, n] with A = P L U, where k = min(m, n).

    P has no gradient. Raises OptionMissing (a RuntimeError), as PyTorch on the CPU, if `pivot` is false.
    """
    return lu_unpack(*lu_factor(A, pivot=pivot))


@method
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """Return X with A X = b from the factorization of A by `lu_factor`: [..., n, k].

    `b` is [..., n, k], `LU_data` [..., n, n] and `LU_pivots` int32 [..., n].

    >>> import lazytensor as lt
    >>> factors, pivots = lt.tensor([[2.0, 0.0], [0.0, 4.0]]), lt.tensor([1, 2], dtype=lt.int32)
    >>> lt.lu_solve(lt.tensor([[2.0], [2.0]]), factors, pivots)
    tensor([[1.0000],
            [0.5000]])
    """
    n = LU_data.spec.shape[-1]
    arranged = matrix.matmul(transpose_matrices(_permutation_matrix(LU_pivots, n, LU_data.dtype)), b)
    # A = P L U, so L y = P^T b, then U x = y.
    half = solve_triangular(LU_data, arranged, upper=False, unitriangular=True)
    return solve_triangular(LU_data, half, upper=True)


@method
def det(A: Tensor) -> Tensor:
    """Return the determinant of each matrix: [..., n, n] -> [...]. Raises ShapeError if the matrices are not square.

    >>> import lazytensor as lt
    >>> lt.det(lt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(8.)
    """
    return tensor_of(call("det", _matrix_node(A)), A)


@method
def slogdet(A: Tensor) -> SignLog:
    """Return the sign of each determinant and the logarithm of its absolute value.

    [..., n, n] gives two tensors [...]. Raises ShapeError if the matrices are not square.

    >>> import lazytensor as lt
    >>> lt.slogdet(lt.tensor([[0.0, 2.0], [4.0, 0.0]])).sign
    tensor(-1.)
    """
    n = _matrix_node(A)
    return SignLog(tensor_of(call("det_sign", n), A), tensor_of(call("logabsdet", n), A))


@method
def logdet(x: Tensor) -> Tensor:
    """Return the logarithm of each determinant, NaN if it is negative, -inf if it is 0: [..., n, n] -> [...].

    Raises ShapeError if the matrices are not square.

    >>> import lazytensor as lt
    >>> lt.logdet(lt.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(2.0794)
    """
    sign, size = slogdet(x)
    return pw.where(sign < 0, math.nan, size)


@method
def qr(A: Tensor, some: bool | str = True, *, mode: str = "reduced") -> QR:
    """Return Q with orthonormal columns and the upper triangular R, with A = Q R.

    A is [..., m, n], Q [..., m, k] and R [..., k, n] with k = min(m, n). Raises OptionMissing for another `mode` than
    "reduced", or if `some` is false.

    >>> import lazytensor as lt
    >>> lt.abs(lt.qr(lt.tensor([[3.0, 0.0], [4.0, 5.0]])).R)
    tensor([[5., 4.],
            [0., 3.]])
    """
    if some not in (True, "reduced") or mode != "reduced":
        raise OptionMissing(
            f"qr supports only the reduced form, but got mode={mode!r}",
            where=source.where(),
            hint="Use mode='reduced'.",
        )
    packed = tensor_of(call("qr", _matrix_node(A)), A)
    m = A.spec.shape[-2]
    # The operation returns Q above R^T, which both have k columns.
    return QR(_slice_rows(packed, 0, m), transpose_matrices(_slice_rows(packed, m, sum(A.spec.shape[-2:]))))


@method
def geqrf(x: Tensor) -> Reflectors:
    """Return R with the Householder vectors below its diagonal [..., m, n], and their factors [..., min(m, n)].

    The result has no gradient.

    >>> import lazytensor as lt
    >>> lt.geqrf(lt.tensor([[3.0, 1.0], [4.0, 2.0]]))[0]
    tensor([[-5.0000, -2.2000],
            [ 0.5000,  0.4000]])
    """
    packed = tensor_of(call("geqrf", _matrix_node(x)), x).detach()
    m, n = x.spec.shape[-2:]
    tau = views.select(packed, -2, m)
    return Reflectors(pw.clone(_slice_rows(packed, 0, m)), pw.clone(_slice_columns(tau, 0, min(m, n))))


def _apply_reflectors(a: Tensor, tau: Tensor, y: Tensor, transpose: bool) -> Tensor:
    """Return Q y, or Q^T y if `transpose` is true, by one Householder reflection after another.

    `a` and `tau` are the result of `geqrf`.
    """
    m, count = a.spec.shape[-2], tau.spec.shape[-1]
    # The vectors are stored below the diagonal, without their leading 1.
    low = diagonals.tril(_slice_columns(a, 0, count), -1) + creation.eye(m, count, dtype=a.dtype)
    # Q is H1 H2 ... Hk, so Q y applies the last reflection first, and Q^T y the first.
    for i in range(count) if transpose else reversed(range(count)):
        v = _slice_columns(low, i, i + 1)
        scale = unsqueeze(_slice_columns(tau, i, i + 1), -1)
        y = y - scale * matrix.matmul(v, matrix.matmul(transpose_matrices(v), y))
    return y


@method
def ormqr(a: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Return Q @ other, for the Q that `geqrf` describes by `a` and `tau`: [..., m, n].

    If `left` is false, return other @ Q. If `transpose` is true, Q^T takes the place of Q.

    >>> import lazytensor as lt
    >>> factors, tau = lt.geqrf(lt.tensor([[3.0], [4.0]]))
    >>> lt.ormqr(factors, tau, lt.tensor([[5.0], [0.0]]))
    tensor([[-3.],
            [-4.]])
    """
    if left:
        return _apply_reflectors(a, tau, other, transpose)
    # C Q is (Q^T C^T)^T.
    return transpose_matrices(_apply_reflectors(a, tau, transpose_matrices(other), not transpose))


def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """Return the first n columns of the Q that `geqrf` describes: [..., m, n] and [..., k] -> [..., m, n]."""
    m, n = A.spec.shape[-2:]
    start = views.expand(creation.eye(m, n, dtype=A.dtype), (*A.spec.shape[:-2], m, n))
    return _apply_reflectors(A, tau, start, False)


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """Return the singular value decomposition A = U diag(S) Vh: U [..., m, k], S [..., k] and Vh [..., k, n].

    k is min(m, n). If `full_matrices` is true, U is [..., m, m] and Vh [..., n, n]; the additional vectors have no
    gradient. `driver` is ignored.
    """
    node = _matrix_node(A)
    packed, (m, n) = tensor_of(call("svd", node), A), A.spec.shape[-2:]
    u, v = _slice_rows(packed, 0, m), _slice_rows(packed, m + 1, m + 1 + n)
    if full_matrices and m != n:
        beyond = tensor_of(call("svd_complement", node), A).detach()
        u, v = (
            (joining_and_splitting.cat([u, beyond], -1), v)
            if m > n
            else (u, joining_and_splitting.cat([v, beyond], -1))
        )
    return SVD(u, views.select(packed, -2, m), transpose_matrices(v))


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Return the singular values of each matrix in descending order: [..., m, n] -> [..., min(m, n)].

    `driver` is ignored.
    """
    return tensor_of(call("singular_values", _matrix_node(A)), A)


def eigh(A: Tensor, UPLO: str = "L") -> Eigen:
    """Return the eigenvalues [..., n] in ascending order and the eigenvectors [..., n, n] of symmetric matrices.

    Only the lower triangle of `A` is read if `UPLO` is "L", and only the upper one if it is "U". Raises ShapeError if
    the matrices are not square, and for another `UPLO`.
    """
    if UPLO.upper() not in ("L", "U"):
        raise ShapeError(
            f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}", where=source.where(), hint="Pass 'L' or 'U'."
        )
    packed = tensor_of(call("eigh", _matrix_node(_mirror_triangle(A, UPLO.upper() == "U"))), A)
    return Eigen(views.select(packed, -2, 0), _slice_rows(packed, 1, A.spec.shape[-1] + 1))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Return the eigenvalues of symmetric matrices in ascending order: [..., n, n] -> [..., n].

    Reads one triangle of `A`, and raises ShapeError, as `eigh` does.
    """
    return eigh(A, UPLO).eigenvalues


def matrix_rank(
    A: Tensor,
    tol: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """Return the rank of each matrix, the number of singular values above a tolerance: [..., m, n] -> int64 [...].

    The tolerance is `tol`, or the larger of `atol` and `rtol` times the largest singular value. Without any of them,
    `rtol` is max(m, n) times the rounding error of the dtype. Tolerances may be tensors [...]. `hermitian` is ignored.
    """
    values = svdvals(A.detach())
    largest = red.amax(values, -1)
    if tol is not None:
        atol, rtol = tol, 0.0
    elif rtol is None:
        rtol = max(A.spec.shape[-2:]) * 2.0 ** (-A.dtype.mantissa_bits) if atol is None else 0.0
    limit = pw.maximum(largest * rtol, creation.as_tensor(0.0 if atol is None else atol))
    return red.sum(values > unsqueeze(limit, -1), -1)


@method
def matrix_exp(x: Tensor) -> Tensor:
    """Return the matrix exponential of each matrix: [..., n, n] -> [..., n, n].

    Raises ShapeError if the matrices are not square.

    >>> import lazytensor as lt
    >>> lt.matrix_exp(lt.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return tensor_of(call("matrix_exp", _matrix_node(x)), x)


@method
def matrix_power(x: Tensor, n: int) -> Tensor:
    """Return the `n`-th power of each matrix [..., n, n].

    Negative powers are powers of the inverse; power 0 is the identity. Raises ShapeError if `n` is negative and a
    matrix is singular.

    >>> import lazytensor as lt
    >>> lt.matrix_power(lt.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    if n < 0:
        return matrix_power(inv(x), -n)
    if n == 0:
        return _identity_stack(x, x.spec.shape[-1])
    # Exponentiation by squaring takes about log2(n) products.
    half = matrix_power(x, n // 2) if n > 1 else None
    whole = x if half is None else matrix.matmul(half, half)
    return matrix.matmul(whole, x) if n > 1 and n % 2 else whole


def matrix_norm(
    A: Tensor,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Return a norm of each matrix over the two dimensions `dim`: [..., m, n] -> [...].

    `ord` is "fro" (Frobenius), "nuc" (sum of singular values), 2 or -2 (largest or smallest singular value), 1 or -1
    (largest or smallest column sum of |x|), inf or -inf (the same of rows). If `keepdim` is true, both dimensions stay
    with extent 1. If `dtype` is given, `A` is converted first. Raises ShapeError for another `ord`.
    """
    x = A if dtype is None else pw.cast_to(A, dtype)
    row, column = (normalize_dim(d, x.ndim) for d in dim)
    if ord == "fro":
        return vector_norm(x, 2, (row, column), keepdim)
    # These norms need the singular values of the matrices over the two dimensions.
    if ord in ("nuc", 2, -2):
        rest = [d for d in range(x.ndim) if d not in (row, column)]
        values = svdvals(views.permute(x, [*rest, row, column]))
        out = red.sum(values, -1) if ord == "nuc" else (red.amax if ord == 2 else red.amin)(values, -1)
        kept = tuple(1 if d in (row, column) else e for d, e in enumerate(x.spec.shape))
        return views.view(out, kept) if keepdim else out
    if ord not in (1, -1, math.inf, -math.inf):
        raise ShapeError(
            f"linalg.matrix_norm: Order {ord} not supported.",
            where=source.where(),
            hint='Use one of 1, 2, inf, their negatives, "fro" and "nuc".',
        )
    # Sum over one of the dimensions, then take the extreme over the other.
    by_column = abs(ord) == 1
    first, second = (row, column) if by_column else (column, row)
    sums = red.sum(pw.abs(x), first, True)
    out = (red.amax if ord > 0 else red.amin)(sums, second, True)
    gone = (row, column)
    return out if keepdim else views.view(out, tuple(e for d, e in enumerate(out.spec.shape) if d not in gone))


def norm(
    A: Tensor, ord: float | str | None = None, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Return a vector norm or a matrix norm of `A` over the dimensions `dim`.

    These dimensions are removed unless `keepdim` is true. If `ord` is None, it is the Euclidean norm over `dim`, or
    over all elements. If `ord` is given and `dim` has two dimensions, or `A` has two and `dim` is None, it is
    `matrix_norm`. Otherwise it is `vector_norm`. If `dtype` is given, `A` is converted first. Raises ShapeError if
    `ord` is given for more than two dimensions, or is a string for other than two.
    """
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    dims = [dim] if isinstance(dim, int) else list(range(A.ndim)) if dim is None else list(dim)
    if len(dims) == 2:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    if len(dims) > 2 or isinstance(ord, str):
        raise ShapeError(
            f"linalg.norm: ord {ord!r} needs one or two dimensions, but got {dims}",
            where=source.where(),
            hint="Pass dim with one or two dimensions.",
        )
    return vector_norm(A, ord, dims, keepdim, dtype=dtype)


def cross(x: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Return the cross product along `dim`, which has extent 3.

    The shapes broadcast. Raises ShapeError for another extent.
    """
    return tensor_products.cross(x, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return a view of a diagonal of each matrix: [..., m, n] -> [..., k]. `offset` > 0 is above the main diagonal."""
    return diagonals.diagonal(A, offset, dim1, dim2)
