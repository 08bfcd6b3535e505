"""Matrix factorizations and solutions of linear systems.

All operate on stacks of matrices [..., m, n] and compute in double precision. An operation with several matrices as
results packs them into one, as row blocks below each other, so that its gradient arrives as one tensor. The derivatives
are the well-known ones of matrix calculus (Giles 2008, "Collected matrix derivative results"; Higham 2008 for the
exponential), written with nodes.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor.errors import FactorizationFailed, ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import CLIENT_HINT, illegal_with_hint
from lazytensor.ir.types import Type, Work
from lazytensor.ops.elementwise import eq, where
from lazytensor.ops.op import call, full, full_like, op
from lazytensor.ops.products import matmul
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import broadcast_to, reshape, slice_, transpose

TAYLOR_TERMS = 18
"""Number of terms of the exponential series: 0.5 ** 19 / 19! is below the spacing of float64 at 1."""


def transpose_matrices(x: Node) -> Node:
    """Return each matrix transposed."""
    rank = len(x.type.shape)
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def slice_rows(x: Node, start: int, limit: int) -> Node:
    """Return the rows start..limit - 1 of each matrix."""
    shape = x.type.shape
    return slice_(x, (0,) * (len(shape) - 2) + (start, 0), (*shape[:-2], limit, shape[-1]))


def slice_columns(x: Node, start: int, limit: int) -> Node:
    """Return the columns start..limit - 1 of each matrix."""
    shape = x.type.shape
    return slice_(x, (0,) * (len(shape) - 1) + (start,), (*shape[:-1], limit))


def band_part(x: Node, lower: int | None, upper: int | None) -> Node:
    """Return each matrix without the elements more than `lower` below or `upper` above the diagonal. None keeps all."""
    return call("band_part", x, lower=lower, upper=upper)


def identity_matrices(like: Type, n: int) -> Node:
    """Return n x n identity matrices with the leading dimensions and the dtype of `like`."""
    shape = (*like.shape[:-2], n, n)
    return band_part(full(1, Type(shape, like.dtype)), 0, 0)


def _concat_rows(*parts: Node) -> Node:
    return call("concat", *parts, dim=len(parts[0].type.shape) - 2)


def _square_type(x: Type, **attrs: Any) -> Type:
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"A must be batches of square matrices, but the shape is {list(x.shape)}", hint="Pass square matrices."
        )
    if x.dtype.kind != "f":
        raise ShapeError(
            f"Expected a floating point tensor as input. Got {x.dtype.name}",
            hint="Convert the matrix first, for example with .float().",
        )
    return x


def _scalars_type(x: Type, **attrs: Any) -> Type:
    return Type(_square_type(x).shape[:-2], x.dtype)


def _cubic_work(factor: float) -> Callable[..., Work]:
    """Return a work rule: for each matrix of the first operand, `factor` times rows times columns times the smaller of
    both.

    The bytes are those of all operands and of the result.
    """

    def work(out: Type, *types: Type, **attrs: Any) -> Work:
        m, n = types[0].shape[-2:]
        # The factors are the leading terms of the textbook counts (Golub and Van Loan, Matrix Computations). For
        # iterative algorithms (svd, eigh, pinv) they are only an order of magnitude.
        flops = int(factor * types[0].size * min(m, n))
        return Work(flops, sum(t.nbytes for t in types), out.nbytes)

    return work


def _factor(name: str, infer: Callable[..., Type], eval: Callable[..., np.ndarray], **facets: Any) -> None:
    op(name, infer, eval, cirh=illegal_with_hint(CLIENT_HINT), **facets)


def _for_each_matrix(
    function: Callable[..., Any], shape: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> Callable[..., np.ndarray]:
    """Return a function of one matrix as a function of a stack.

    It computes in float64 and returns the dtype of its operand. `shape` gives the shape of one result from that of the
    matrix. Attributes are passed on.
    """

    def over(x: np.ndarray, **attrs: Any) -> np.ndarray:
        lead = x.shape[:-2]
        out = np.empty((math.prod(lead), *shape(x.shape[-2:])), x.dtype)
        for i, a in enumerate(x.reshape(len(out), *x.shape[-2:])):
            out[i] = function(a.astype(np.float64), **attrs)
        return out.reshape(*lead, *out.shape[1:])

    return over


def _to_float64(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def _symmetrize(x: np.ndarray) -> np.ndarray:
    """Return the mean of a matrix and its transpose. The gradient then belongs to both triangles, as in PyTorch."""
    return _to_float64(x + np.swapaxes(x, -1, -2)) / 2


def _cholesky(x: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(_symmetrize(x)).astype(x.dtype)
    except np.linalg.LinAlgError as e:
        raise FactorizationFailed(
            "linalg.cholesky: The factorization could not be completed because the input is not positive-definite.",
            hint="Add a small multiple of the identity matrix, or use another factorization.",
        ) from e


def _lower_with_half_diagonal(x: Node) -> Node:
    """Return the lower triangle with half of the diagonal."""
    return band_part(x, None, 0) - band_part(x, 0, 0) * 0.5


def _cholesky_vjp(g: Node, y: Node, x: Node) -> tuple[Node]:
    # L^-T P(L^T G) L^-1 with P the lower half, by two substitutions: an inverse would cost more and lose digits.
    inner = _lower_with_half_diagonal(matmul(y, g, True, False))
    left = triangular(y, inner, lower=True, adjoint=True)
    whole = transpose_matrices(triangular(y, transpose_matrices(left), lower=True, adjoint=True))
    return ((whole + transpose_matrices(whole)) * 0.5,)


_factor(
    "cholesky",
    _square_type,
    _cholesky,
    vjp=_cholesky_vjp,
    work=_cubic_work(1 / 3),
    gradient_name="LinalgCholeskyEx",
)


def _system_type(a: Type, b: Type, **attrs: Any) -> Type:
    _square_type(a)
    if a.dtype is not b.dtype or a.shape[:-2] != b.shape[:-2] or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"Incompatible shapes of A and B for the equation AX = B: {a} and {b}",
            hint="Pass a right-hand side with as many rows as the matrix.",
        )
    return b


def _triangular(a: np.ndarray, b: np.ndarray, *, lower: bool, adjoint: bool) -> np.ndarray:
    """Return X with A X = B, or A^T X = B if `adjoint`, by substitution in float64, in the dtype of B.

    Only the lower triangle of A is read if `lower`, and else the upper one. A zero on the diagonal gives infinity or
    NaN.
    """
    dtype = b.dtype
    if adjoint:
        a, lower = np.swapaxes(a, -1, -2), not lower
    a, b, x = _to_float64(a), _to_float64(b), np.zeros(b.shape)
    n = a.shape[-1]
    for i in range(n) if lower else reversed(range(n)):
        done = slice(0, i) if lower else slice(i + 1, n)
        rest = b[..., i, :] - np.einsum("...k,...kj->...j", a[..., i, done], x[..., done, :])
        x[..., i, :] = rest / a[..., i, i, None]
    return x.astype(dtype)


def triangular(a: Node, b: Node, lower: bool, adjoint: bool = False) -> Node:
    """Return X with A X = B, or with A^T X = B if `adjoint`. Only the lower (or upper) triangle of A is read."""
    return call("triangular_solve", a, b, lower=lower, adjoint=adjoint)


def _triangular_vjp(g: Node, y: Node, a: Node, b: Node, *, lower: bool, adjoint: bool) -> tuple[Node, Node]:
    db = triangular(a, g, lower, not adjoint)
    da = matmul(y, db, False, True) if adjoint else matmul(db, y, False, True)
    # The other triangle is not read, so its gradient is zero.
    return -(band_part(da, None, 0) if lower else band_part(da, 0, None)), db


_factor(
    "triangular_solve",
    _system_type,
    _triangular,
    vjp=_triangular_vjp,
    work=_cubic_work(1),
    gradient_name="LinalgSolveTriangular",
)


def _solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.solve(_to_float64(a), _to_float64(b)).astype(b.dtype)
    except np.linalg.LinAlgError as e:
        raise FactorizationFailed(
            "linalg.solve: The solver failed because the input matrix is singular.",
            hint="Use torch.linalg.pinv for a least-squares solution.",
        ) from e


def solve(a: Node, b: Node) -> Node:
    """Return X with A X = B."""
    return call("solve", a, b)


def _solve_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    db = solve(transpose_matrices(a), g)
    return -matmul(db, y, False, True), db


_factor("solve", _system_type, _solve, vjp=_solve_vjp, work=_cubic_work(2 / 3), keeps="result")


def _inverse(a: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(_to_float64(a)).astype(a.dtype)
    except np.linalg.LinAlgError as e:
        raise FactorizationFailed(
            "linalg.inv: The inversion could not be completed because the input matrix is singular.",
            hint="Use torch.linalg.pinv for the pseudoinverse.",
        ) from e


def _inverse_vjp(g: Node, y: Node, a: Node) -> tuple[Node]:
    return (-matmul(matmul(y, g, True, False), y, False, True),)


def inverse(a: Node) -> Node:
    """Return the inverse of each matrix."""
    return call("inverse", a)


_factor("inverse", _square_type, _inverse, vjp=_inverse_vjp, work=_cubic_work(2), gradient_name="LinalgInvEx")


def _pinv_type(x: Type, *, rcond: float, atol: float = 0.0) -> Type:
    return Type((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


def _pinv(x: np.ndarray, *, rcond: float, atol: float = 0.0) -> np.ndarray:
    """Return the pseudoinverse. Singular values up to `rcond` times the largest one, or up to `atol`, count as 0."""
    if not x.size:
        return np.swapaxes(x, -1, -2)
    wide = _to_float64(x)
    if atol:
        with np.errstate(divide="ignore"):  # all singular values of a zero matrix count as 0 with an infinite rcond
            return np.linalg.pinv(wide, rcond=np.maximum(rcond, atol / np.linalg.norm(wide, 2, (-2, -1)))).astype(
                x.dtype
            )
    return np.linalg.pinv(wide, rcond=rcond).astype(x.dtype)


def _pinv_vjp(g: Node, y: Node, x: Node, *, rcond: float, atol: float = 0.0) -> tuple[Node]:
    """Gradient rule of the pseudoinverse, for a constant rank (Golub and Pereyra 1973)."""
    gt, yt = transpose_matrices(g), transpose_matrices(y)
    direct = matmul(matmul(yt, g), yt)
    left = gt - matmul(x, matmul(y, gt))
    first = matmul(matmul(left, y), yt)
    right = gt - matmul(matmul(gt, y), x)
    second = matmul(yt, matmul(y, right))
    return (first + second - direct,)


_factor("pinv", _pinv_type, _pinv, vjp=_pinv_vjp, work=_cubic_work(20), gradient_name="LinalgPinv")


def _broadcast_scalars(g: Node, like: Node) -> Node:
    """Return one number per matrix, of shape [...], broadcast to the shape [..., m, n] of `like`."""
    shape = like.type.shape
    return broadcast_to(reshape(g, (*g.type.shape, 1, 1)), shape)


MAX_INVERTED_CONDITION = 1e6
"""The maximum condition number of a matrix whose cofactors come from its inverse: they then have 10 exact digits."""


def _cofactors(a: np.ndarray) -> np.ndarray:
    """Return the cofactor matrix of a square matrix, the derivative of its determinant, also if it is singular."""
    determinant = np.linalg.det(a)
    if determinant != 0 and np.isfinite(determinant):
        inverted = np.linalg.inv(a)
        if np.linalg.norm(a) * np.linalg.norm(inverted) < MAX_INVERTED_CONDITION:
            return np.asarray(determinant * inverted.T)
    u, s, vh = np.linalg.svd(a)
    # det' = det U det V U diag(products of the other singular values) V^T, finite where one of them is 0.
    others = np.array([np.prod(np.delete(s, i)) for i in range(len(s))])
    return np.asarray(np.linalg.det(u) * np.linalg.det(vh) * (u * others) @ vh)


def _cofactor_vjp(g: Node, y: Node, x: Node) -> tuple[Node]:
    """Gradient rule of the cofactor matrix `y` of `x`, for invertible matrices only, because it uses the inverse."""
    xt = transpose_matrices(inverse(x))
    last = (len(g.type.shape) - 2, len(g.type.shape) - 1)
    along = _broadcast_scalars(reduce(g * y, "add", last), x) * xt
    return (along - matmul(matmul(y, g, False, True), xt),)


_factor(
    "det",
    _scalars_type,
    lambda x: np.asarray(np.linalg.det(_to_float64(x))).astype(x.dtype),
    # det * inverse^T would be 0 times infinity for a singular matrix, but the determinant has a derivative there.
    vjp=lambda g, y, x: (_broadcast_scalars(g, x) * call("cofactor", x),),
    work=_cubic_work(2 / 3),
    gradient_name="LinalgDet",
)
_factor(
    "cofactor",
    _square_type,
    _for_each_matrix(_cofactors, lambda s: s),
    vjp=_cofactor_vjp,
    work=_cubic_work(20),
)
_factor(
    "logabsdet",
    _scalars_type,
    lambda x: np.asarray(np.linalg.slogdet(_to_float64(x))[1]).astype(x.dtype),
    # For a singular matrix log|det| is not differentiable, and the inverse raises ShapeError.
    vjp=lambda g, y, x: (_broadcast_scalars(g, x) * transpose_matrices(inverse(x)),),
    work=_cubic_work(2 / 3),
    gradient_name="LinalgSlogdet",
)
_factor(
    "det_sign",
    _scalars_type,
    lambda x: np.asarray(np.linalg.slogdet(_to_float64(x))[0]).astype(x.dtype),
    work=_cubic_work(2 / 3),
)


def _qr_type(x: Type) -> Type:
    """Infer rule of a packed QR: Q [m, k] above the transpose [n, k] of R, with k = min(m, n).

    Raise ShapeError for fewer than two dimensions and for dtypes that are not floating point.
    """
    if len(x.shape) < 2 or x.dtype.kind != "f":
        raise ShapeError(
            f"qr expects floating-point matrices, but got {x}",
            hint="Convert the matrix first, for example with .float().",
        )
    m, n = x.shape[-2:]
    return Type((*x.shape[:-2], m + n, min(m, n)), x.dtype)


def _qr(x: np.ndarray) -> np.ndarray:
    q, r = np.linalg.qr(_to_float64(x))
    return np.concatenate([q, np.swapaxes(r, -1, -2)], -2).astype(x.dtype)


def _qr_vjp(g: Node, y: Node, x: Node) -> tuple[Node]:
    """Gradient rule of QR: a tuple of the gradient of A. `y` and `g` have Q above the transpose of R.

    A wide matrix is split into its square part and the rest, which is Q times the remaining columns of R.
    """
    m, n = x.type.shape[-2:]
    k = min(m, n)
    gq, gr = slice_rows(g, 0, m), transpose_matrices(slice_rows(g, m, m + n))
    q, r = slice_rows(y, 0, m), transpose_matrices(slice_rows(y, m, m + n))
    if m < n:
        rest = transpose_matrices(slice_rows(transpose_matrices(x), k, n))
        # The remaining columns of R are Q^T times those of A, so their gradient flows through Q too.
        gq = gq + matmul(rest, transpose_matrices(slice_rows(transpose_matrices(gr), k, n)), False, True)
        inner = _qr_square(
            gq,
            transpose_matrices(slice_rows(transpose_matrices(gr), 0, k)),
            q,
            transpose_matrices(slice_rows(transpose_matrices(r), 0, k)),
        )
        outer = matmul(q, transpose_matrices(slice_rows(transpose_matrices(gr), k, n)))
        return (transpose_matrices(_concat_rows(transpose_matrices(inner), transpose_matrices(outer))),)
    return (_qr_square(gq, gr, q, r),)


def _qr_square(gq: Node, gr: Node, q: Node, r: Node) -> Node:
    """Return the gradient of A for A = Q R with at least as many rows as columns."""
    # (gQ + Q C) R^-T, where C is the lower triangle of R gR^T - gQ^T Q mirrored up: Q stays orthogonal and R
    # triangular, so only that half of the change is free.
    inner = matmul(r, gr, False, True) - matmul(gq, q, True, False)
    low = band_part(inner, None, 0)
    mirrored = low + transpose_matrices(low - band_part(low, 0, 0))
    # X R^T = B is solved as R X^T = B^T, because the solver takes its matrix on the left.
    return transpose_matrices(triangular(r, transpose_matrices(gq + matmul(q, mirrored)), lower=False))


_factor("qr", _qr_type, _qr, vjp=_qr_vjp, work=_cubic_work(4), keeps="result")


def _reflectors(x: np.ndarray) -> np.ndarray:
    """Return an array [m + 1, n] with R and the Householder vectors below it, and in the last row their factors.

    The last row ends with zeros if n > m.
    """
    m, n = x.shape
    # NumPy returns LAPACK's column-major array transposed.
    h, tau = np.linalg.qr(x, mode="raw")
    out = np.zeros((m + 1, n))
    out[:m] = h.T
    out[m, : len(tau)] = tau
    return out


_factor(
    "geqrf",
    lambda x: Type((*x.shape[:-2], x.shape[-2] + 1, x.shape[-1]), x.dtype),
    _for_each_matrix(_reflectors, lambda s: (s[0] + 1, s[1])),
    work=_cubic_work(2),
)


def _svd_type(x: Type) -> Type:
    """Infer rule of a packed SVD: U [m, k] above the singular values [1, k] above V [n, k], with k = min(m, n).

    Raise ShapeError for fewer than two dimensions and for dtypes that are not floating point.
    """
    if len(x.shape) < 2 or x.dtype.kind != "f":
        raise ShapeError(
            f"svd expects floating-point matrices, but got {x}",
            hint="Convert the matrix first, for example with .float().",
        )
    m, n = x.shape[-2:]
    return Type((*x.shape[:-2], m + 1 + n, min(m, n)), x.dtype)


def _svd(x: np.ndarray) -> np.ndarray:
    u, s, vh = np.linalg.svd(_to_float64(x), full_matrices=False)
    return np.concatenate([u, s[..., None, :], np.swapaxes(vh, -1, -2)], -2).astype(x.dtype)


def _inverse_gaps(squares: Node, like: Node) -> Node:
    """Return 1 / (s[j] - s[i]) at [i, j], and 0 where the values are equal, since their vectors are undetermined.

    `squares` has the values s, [..., 1, k]: squared singular values, or eigenvalues. The result has the shape of
    `like`.
    """
    across = broadcast_to(squares, like.type.shape)
    gap = across - transpose_matrices(across)
    # A division by 0 would make all of the gradient NaN, even if the choice of vectors does not matter.
    equal = eq(gap, 0)
    return where(equal, 0, 1 / where(equal, 1, gap))


def _svd_vjp(g: Node, y: Node, x: Node) -> tuple[Node]:
    """Gradient rule of the packed singular value decomposition.

    `y` and `g` have U, the singular values and V below each other. Equal singular values contribute 0 for their
    vectors.
    """
    m, n = x.type.shape[-2:]
    u, s, v = slice_rows(y, 0, m), slice_rows(y, m, m + 1), slice_rows(y, m + 1, m + 1 + n)
    gu, gs, gv = slice_rows(g, 0, m), slice_rows(g, m, m + 1), slice_rows(g, m + 1, m + 1 + n)
    ug, vg = matmul(u, gu, True, False), matmul(v, gv, True, False)
    gaps = _inverse_gaps(s * s, ug)
    wide = broadcast_to(s, ug.type.shape)
    middle = gaps * (ug - transpose_matrices(ug)) * wide
    # S (F o W) is the transpose of (F o W) S: F and W are both antisymmetric, so the signs cancel.
    middle = middle + transpose_matrices(gaps * (vg - transpose_matrices(vg)) * wide)
    middle = middle + identity_matrices(x.type, min(m, n)) * broadcast_to(gs, ug.type.shape)
    out = matmul(matmul(u, middle), v, False, True)
    # The part of the gradient that moves U out of the span of its columns; a square matrix has none.
    if m > n:
        beyond = (gu - matmul(u, ug)) / broadcast_to(s, gu.type.shape)
        out = out + matmul(beyond, v, False, True)
    if n > m:
        beyond = (gv - matmul(v, vg)) / broadcast_to(s, gv.type.shape)
        out = out + matmul(u, beyond, False, True)
    return (out,)


_factor("svd", _svd_type, _svd, vjp=_svd_vjp, work=_cubic_work(20))


def _svd_complement_type(x: Type) -> Type:
    m, n = _svd_type(x).shape[-2] - x.shape[-1] - 1, x.shape[-1]
    return Type((*x.shape[:-2], max(m, n), max(m, n) - min(m, n)), x.dtype)


def _svd_complement(x: np.ndarray) -> np.ndarray:
    m, n = x.shape[-2:]
    u, _, vh = np.linalg.svd(_to_float64(x))
    vectors = u if m > n else np.swapaxes(vh, -1, -2)
    return np.asarray(vectors[..., min(m, n) :]).astype(x.dtype)


# The columns of the full U (or V, if n > m) beyond the singular vectors. They have no gradient, as in PyTorch.
_factor("svd_complement", _svd_complement_type, _svd_complement, work=_cubic_work(20))
_factor(
    "singular_values",
    lambda x: Type((*x.shape[:-2], min(x.shape[-2:])), x.dtype),
    lambda x: np.asarray(np.linalg.svd(_to_float64(x), compute_uv=False)).astype(x.dtype),
    vjp=lambda g, y, x: (_singular_values_vjp(g, x),),
    work=_cubic_work(10),
    gradient_name="LinalgSvd",
)


def _singular_values_vjp(g: Node, x: Node) -> Node:
    m, n = x.type.shape[-2:]
    # The vectors are computed only for the gradient: the forward pass needs the values only, at half the cost.
    packed = call("svd", x)
    u, v = slice_rows(packed, 0, m), slice_rows(packed, m + 1, m + 1 + n)
    scales = broadcast_to(reshape(g, (*g.type.shape[:-1], 1, g.type.shape[-1])), u.type.shape)
    return matmul(u * scales, v, False, True)


def _eigh_type(x: Type) -> Type:
    """Infer rule of packed eigenvalues and eigenvectors: the eigenvalues [1, n] above the eigenvectors [n, n].

    Raise ShapeError unless the operand has square matrices of floating point.
    """
    n = _square_type(x).shape[-1]
    return Type((*x.shape[:-2], n + 1, n), x.dtype)


def _eigh(x: np.ndarray) -> np.ndarray:
    w, v = np.linalg.eigh(_symmetrize(x))
    return np.concatenate([w[..., None, :], v], -2).astype(x.dtype)


def _eigh_vjp(g: Node, y: Node, x: Node) -> tuple[Node]:
    n = x.type.shape[-1]
    w, v, gw, gv = slice_rows(y, 0, 1), slice_rows(y, 1, n + 1), slice_rows(g, 0, 1), slice_rows(g, 1, n + 1)
    vg = matmul(v, gv, True, False)
    middle = _inverse_gaps(w, vg) * vg + identity_matrices(x.type, n) * broadcast_to(gw, vg.type.shape)
    out = matmul(matmul(v, middle), v, False, True)
    return ((out + transpose_matrices(out)) * 0.5,)


_factor("eigh", _eigh_type, _eigh, vjp=_eigh_vjp, work=_cubic_work(9))


def _matrix_exp(a: np.ndarray) -> np.ndarray:
    """Return the exponential of a matrix: scale it to a norm below 0.5, sum a Taylor series, and square it back.

    The result is all NaN if an element is infinite or NaN.
    """
    size = np.abs(a).sum(-1).max(initial=0)
    if not np.isfinite(size):
        return np.full(a.shape, np.nan)
    # exp(A) = exp(A / 2^k)^(2^k): k brings the norm below a half, where the series converges fast.
    doublings = max(0, math.ceil(math.log2(size)) + 1) if size > 0 else 0
    a = a / 2.0**doublings
    term = total = np.eye(len(a))
    for k in range(1, TAYLOR_TERMS):
        term = term @ a / k
        total = total + term
    for _ in range(doublings):
        total = total @ total
    return total


def _matrix_exp_vjp(g: Node, y: Node, x: Node) -> tuple[Node]:
    """Gradient rule of the matrix exponential: the upper right block of the exponential of [[X^T, G], [0, X^T]].

    It is computed by one exponential of twice the size.
    """
    n, xt = x.type.shape[-1], transpose_matrices(x)
    # `_concat_rows` joins only rows: stack the columns of blocks, then join their transposes.
    whole = transpose_matrices(
        _concat_rows(transpose_matrices(_concat_rows(xt, full_like(0, xt))), transpose_matrices(_concat_rows(g, xt)))
    )
    return (transpose_matrices(slice_rows(transpose_matrices(slice_rows(call("matrix_exp", whole), 0, n)), n, 2 * n)),)


_factor(
    "matrix_exp",
    _square_type,
    _for_each_matrix(_matrix_exp, lambda s: s),
    vjp=_matrix_exp_vjp,
    work=_cubic_work(2 * TAYLOR_TERMS),
    gradient_name="LinalgMatrixExp",
)


def _lu(a: np.ndarray) -> np.ndarray:
    """Return the LU factorization of a matrix [m, n] with partial pivoting, as an array [m + 1, n].

    The first m rows have L, without its diagonal of ones, below U. The last row has the pivots, counted from 1, and
    then zeros if n > m. A singular matrix gives a 0 on the diagonal of U.
    """
    m, n = a.shape
    out, pivots = a.copy(), np.zeros(n)
    for k in range(min(m, n)):
        # Use the largest pivot, as LAPACK does, so that the factors are PyTorch's. Pivots count from 1, as in
        # torch.linalg.lu_factor.
        best = k + int(np.argmax(np.abs(out[k:, k])))
        pivots[k] = best + 1
        out[[k, best]] = out[[best, k]]
        # A column of zeros is left unchanged: the matrix is singular, and U has a 0 on its diagonal.
        if out[k, k] != 0:
            out[k + 1 :, k] /= out[k, k]
            out[k + 1 :, k + 1 :] -= np.outer(out[k + 1 :, k], out[k, k + 1 :])
    return np.concatenate([out, pivots[None]])


def set_unit_diagonal(x: Node) -> Node:
    """Return square matrices with ones on the diagonal."""
    return x - band_part(x, 0, 0) + identity_matrices(x.type, x.type.shape[-1])


def _lu_vjp(g: Node, y: Node, x: Node) -> tuple[Node]:
    """Gradient rule of LU: P L^-T (lower(L^T gL) + upper(gU U^T)) U^-T for a square matrix, with a strict lower part.

    The additional columns of a wide matrix are L times those of U, and the additional rows of a tall one are those of L
    times U. Their gradients also flow to the square part. `y` and `g` are packed as in `_lu`.
    """
    m, n = x.type.shape[-2:]
    k = min(m, n)
    square, gradient = (slice_columns(slice_rows(v, 0, k), 0, k) for v in (y, g))
    low, up = set_unit_diagonal(band_part(square, None, 0)), band_part(square, 0, None)
    g_low, g_up = gradient - band_part(gradient, 0, None), band_part(gradient, 0, None)
    outside: Node | None = None
    if n > k:
        beyond, g_beyond = (slice_columns(slice_rows(v, 0, k), k, n) for v in (y, g))
        outside = triangular(low, g_beyond, lower=True, adjoint=True)
        g_low = g_low - matmul(outside, beyond, False, True)
    elif m > k:
        beyond, g_beyond = (slice_rows(v, k, m) for v in (y, g))
        outside = _divide_by_transpose(g_beyond, up)
        g_up = g_up - matmul(beyond, outside, True, False)
    lower_part = matmul(low, g_low, True, False)
    middle = lower_part - band_part(lower_part, 0, None) + band_part(matmul(g_up, up, False, True), 0, None)
    inner = triangular(low, _divide_by_transpose(middle, up), lower=True, adjoint=True)
    if outside is not None:
        inner = _concat_columns(inner, outside) if n > k else _concat_rows(inner, outside)
    pivots = slice_columns(slice_rows(y, m, m + 1), 0, k)
    exchanges = call("permutation", reshape(pivots, (*x.type.shape[:-2], k)), n=m, dtype=x.type.dtype)
    return (matmul(exchanges, inner),)


def _divide_by_transpose(x: Node, upper: Node) -> Node:
    """Return X U^-T for upper triangular matrices U."""
    return transpose_matrices(triangular(upper, transpose_matrices(x), lower=False))


def _concat_columns(*parts: Node) -> Node:
    return call("concat", *parts, dim=len(parts[0].type.shape) - 1)


_factor(
    "lu",
    lambda x: Type((*x.shape[:-2], x.shape[-2] + 1, x.shape[-1]), x.dtype),
    _for_each_matrix(_lu, lambda s: (s[0] + 1, s[1])),
    vjp=_lu_vjp,
    work=_cubic_work(2 / 3),
    gradient_name="LinalgLuFactorEx",
)


def _permutation(pivots: np.ndarray, *, n: int, dtype: Any) -> np.ndarray:
    """Return the permutation matrix P [n, n] with A = P L U, in `dtype`, for each row of pivots of LU.

    Pivot k, counted from 1, is the row that step k exchanges with row k.
    """
    lead = pivots.shape[:-1]
    out = np.zeros((math.prod(lead), n, n), dtype.host)
    for i, exchanges in enumerate(pivots.reshape(len(out), pivots.shape[-1])):
        order = np.arange(n)
        for k, p in enumerate(exchanges.astype(int)):
            order[[k, p - 1]] = order[[p - 1, k]]
        out[i, order, np.arange(n)] = 1
    return out.reshape(*lead, n, n)


_factor(
    "permutation",
    lambda pivots, *, n, dtype: Type((*pivots.shape[:-1], n, n), dtype),
    _permutation,
    work=lambda out, pivots, **attrs: Work(pivots.size, pivots.nbytes, out.nbytes),
)
