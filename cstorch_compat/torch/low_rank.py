"""Randomized decompositions of low rank: `torch.svd_lowrank` and `torch.pca_lowrank`."""

from lazytensor import randn
from lazytensor.core.tensor import Tensor
from lazytensor.linalg import qr, svd

MAX_PCA_RANK = 6
"""The default number of components of `pca_lowrank`, unless the matrix is smaller."""


def _find_range(A: Tensor, q: int, niter: int) -> Tensor:
    """Return `q` orthonormal columns that span most of the range of `A`, by `niter` power iterations.

    This is algorithm 4.4 of Halko, Martinsson and Tropp (2009), which begins with random columns.
    """
    X = qr(A @ randn(A.shape[-1], q, dtype=A.dtype)).Q
    for _ in range(niter):
        X = qr(A @ qr(A.mT @ X).Q).Q
    return X


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S and V with A ~ U diag(S) V^T, of rank `q`, by `niter` random power iterations.

    With `M`, decompose A - M. `A` has shape [..., m, n]. The shapes of the results are [..., m, q], [..., q] and
    [..., n, q].

    >>> U, S, V = svd_lowrank(randn(5, 1) @ randn(1, 4), q=2)
    >>> tuple(U.shape), tuple(S.shape), tuple(V.shape)
    ((5, 2), (2,), (4, 2))
    """
    A = A if M is None else A - M.broadcast_to(A.shape)
    is_wide = A.shape[-2] < A.shape[-1]
    A = A.mT if is_wide else A
    Q = _find_range(A, 6 if q is None else q, 2 if niter is None else niter)
    U, S, Vh = svd(Q.mT @ A, full_matrices=False)
    U, V = Q @ U, Vh.mT
    return (V, S, U) if is_wide else (U, S, V)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S and V of a principal component analysis of the rows of `A`, by `svd_lowrank`.

    The number of components `q` is at most min(m, n), and 6 by default if the matrix is not smaller. Columns have their
    mean subtracted if `center`. Raises ValueError for another `q`, or a negative `niter`.

    >>> U, S, V = pca_lowrank(randn(5, 4), q=2)
    >>> tuple(V.shape)
    (4, 2)
    """
    largest = min(A.shape[-2:])
    q = min(MAX_PCA_RANK, largest) if q is None else q
    if not 0 <= q <= largest:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={largest}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
