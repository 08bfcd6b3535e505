"""Rows of the factorizations: sums over permutations, loops, and reflections, matrix by matrix."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.lazytensor.ops.op_rows import Case, Draw, Row


def _each_matrix(formula: Callable[..., np.ndarray | float]) -> Callable[..., np.ndarray]:
    def over(*stacks: np.ndarray, **attrs: Any) -> np.ndarray:
        lead = stacks[0].shape[:-2]
        # One more matrix, so that the shape of an empty stack's result is known.
        extra = [np.concatenate([s.reshape(-1, *s.shape[-2:]), _unit(s)[None]]) for s in stacks]
        found = np.stack([np.asarray(formula(*ms, **attrs)) for ms in zip(*extra, strict=True)])[:-1]
        return found.reshape((*lead, *found.shape[1:]))

    return over


def _unit(stack: np.ndarray) -> np.ndarray:
    return np.eye(*stack.shape[-2:]) * np.arange(1, stack.shape[-1] + 1)


def _apart(d: Draw, rows: int, columns: int) -> np.ndarray:
    """Matrices near diag(2, 4, 6, ...): far from singular, and their singular values far from each other."""
    noise = d.rng.uniform(-0.2, 0.2, (*d.shape[:1], rows, columns))
    return d.cast(noise + 2 * np.eye(rows, columns) * np.arange(1, columns + 1))


def _sizes(d: Draw) -> tuple[int, int]:
    m, n = d.rng.integers(1, 4, 2)
    return int(m), int(n)


def _square(d: Draw) -> Case:
    n = _sizes(d)[0]
    return [_apart(d, n, n)], {}


def _any_shape(d: Draw) -> Case:
    return [_apart(d, *_sizes(d))], {}


def _symmetric(d: Draw) -> Case:
    a = _square(d)[0][0]
    return [d.cast((a + np.swapaxes(a, -1, -2)) / 2)], {}


def _system(d: Draw) -> Case:
    n, k = _sizes(d)
    return [_apart(d, n, n), d.values((*d.shape[:1], n, k))], {}


def _triangle(d: Draw) -> Case:
    return _system(d)[0], {"lower": d.flag(), "adjoint": d.flag()}


def _cholesky(a: np.ndarray) -> np.ndarray:
    low = np.zeros_like(a)
    for j in range(len(a)):
        low[j, j] = math.sqrt(a[j, j] - sum(v * v for v in low[j, :j]))
        for i in range(j + 1, len(a)):
            low[i, j] = ((a[i, j] + a[j, i]) / 2 - sum(low[i, :j] * low[j, :j])) / low[j, j]
    return low


def _by_triangle(a: np.ndarray, b: np.ndarray, *, lower: bool, adjoint: bool) -> np.ndarray:
    half = np.where(np.tri(len(a)) > 0, a, 0) if lower else np.where(np.tri(len(a)).T > 0, a, 0)
    return np.linalg.inv(half.T if adjoint else half) @ b


def _least_squares(a: np.ndarray, *, rcond: float) -> np.ndarray:
    m, n = a.shape
    return np.linalg.inv(a.T @ a) @ a.T if m >= n else a.T @ np.linalg.inv(a @ a.T)


def _sign(order: tuple[int, ...]) -> int:
    return (-1) ** sum(a > b for a, b in itertools.combinations(order, 2))


def _det(a: np.ndarray) -> float:
    n = len(a)
    return math.fsum(_sign(p) * math.prod(a[i, p[i]] for i in range(n)) for p in itertools.permutations(range(n)))


def _cofactors(a: np.ndarray) -> np.ndarray:
    out = np.empty_like(a)
    for i, j in np.ndindex(a.shape):
        out[i, j] = (-1) ** (i + j) * _det(np.delete(np.delete(a, i, 0), j, 1))
    return out


def _reflectors(a: np.ndarray) -> np.ndarray:
    m, n = a.shape
    out, tau = a.copy(), np.zeros(n)
    for k in range(min(m, n)):
        below = np.linalg.norm(out[k + 1 :, k])
        if below == 0:
            continue
        beta = -math.copysign(math.hypot(out[k, k], below), out[k, k])
        tau[k] = (beta - out[k, k]) / beta
        v = np.concatenate([[1.0], out[k + 1 :, k] / (out[k, k] - beta)])
        out[k:, k + 1 :] -= tau[k] * np.outer(v, v @ out[k:, k + 1 :])
        out[k, k], out[k + 1 :, k] = beta, v[1:]
    return np.concatenate([out, tau[None]])


def _qr(a: np.ndarray) -> np.ndarray:
    m, n = a.shape
    packed, q = _reflectors(a), np.eye(m)
    for k in reversed(range(min(m, n))):
        v = np.concatenate([np.zeros(k), [1.0], packed[k + 1 : m, k]])
        q -= packed[m, k] * np.outer(v, v @ q)
    return np.concatenate([q[:, : min(m, n)], np.triu(packed[:m])[: min(m, n)].T])


def _svd_complement(a):
    # The vectors are not unique, so they are LAPACK's.
    m, n = a.shape
    u, _, vh = np.linalg.svd(a, full_matrices=True)
    return u[:, n:] if m > n else vh[m:].T


def _singular_values(a: np.ndarray) -> np.ndarray:
    gram = a @ a.T if len(a) < a.shape[1] else a.T @ a
    return np.sqrt(np.sort(np.linalg.eigvals(gram).real)[::-1])


def _svd(a: np.ndarray) -> np.ndarray:
    """Vectors from the powers of the Gram matrix; only their signs are taken from the library."""
    s = _singular_values(a)
    left, _, right = np.linalg.svd(a, full_matrices=False)
    u = np.stack([_aligned(a @ a.T, v, c) for v, c in zip(s**2, left.T, strict=True)], 1)
    v = np.stack([_aligned(a.T @ a, w, c) for w, c in zip(s**2, right, strict=True)], 1)
    return np.concatenate([u, s[None], v])


def _aligned(a: np.ndarray, value: float, near: np.ndarray) -> np.ndarray:
    """The eigenvector of a for a known eigenvalue: inverse iteration from far away, in the direction of `near`."""
    v = np.ones(len(a)) + 0.1 * np.arange(len(a))
    for _ in range(4):
        v = np.linalg.inv(a - (value + 1e-4) * np.eye(len(a))) @ v
        v /= np.linalg.norm(v)
    return v * np.sign(v @ near)


def _eigh(a: np.ndarray) -> np.ndarray:
    w = np.sort(np.linalg.eigvals(a).real)
    near = np.linalg.eigh(a)[1]
    return np.concatenate([w[None], np.stack([_aligned(a, v, c) for v, c in zip(w, near.T, strict=True)], 1)])


def _exponential(a: np.ndarray) -> np.ndarray:
    term = total = np.eye(len(a))
    for k in range(1, 80):
        term = a @ term / k
        total = term + total
    return total


def _lu(a: np.ndarray) -> np.ndarray:
    m, n = a.shape
    rows, pivots = a.tolist(), [0.0] * n
    for k in range(min(m, n)):
        best = max(range(k, m), key=lambda i: abs(rows[i][k]))
        pivots[k] = best + 1.0
        rows[k], rows[best] = rows[best], rows[k]
        for row in rows[k + 1 :]:
            row[k] /= rows[k][k]
            row[k + 1 :] = [v - row[k] * w for v, w in zip(row[k + 1 :], rows[k][k + 1 :], strict=True)]
    return np.array([*rows, pivots])


def _exchanges(d: Draw) -> Case:
    n = _sizes(d)[0]
    pivots = np.array([[int(d.rng.integers(k, n)) + 1 for k in range(n)] for _ in range(3)])
    return [pivots], {"n": n, "dtype": d.dtype}


def _permutation(pivots: np.ndarray, *, n: int, dtype: Any) -> np.ndarray:
    out = []
    for exchanges in pivots:
        whole = np.eye(n)
        for k, p in enumerate(exchanges):
            step = np.eye(n)
            step[[k, p - 1]] = step[[p - 1, k]]
            whole = whole @ step
        out.append(whole)
    return np.stack(out)


ROWS = {
    "cholesky": Row(_symmetric, _each_matrix(_cholesky)),
    "triangular_solve": Row(_triangle, _each_matrix(_by_triangle)),
    "solve": Row(_system, _each_matrix(lambda a, b: np.linalg.inv(a) @ b)),
    "inverse": Row(_square, _each_matrix(lambda a: np.linalg.solve(a, np.eye(len(a))))),
    "pinv": Row(lambda d: (_any_shape(d)[0], {"rcond": 1e-9}), _each_matrix(_least_squares)),
    "det": Row(_square, _each_matrix(_det)),
    "cofactor": Row(_square, _each_matrix(_cofactors)),
    "logabsdet": Row(_square, _each_matrix(lambda a: math.log(abs(_det(a))))),
    "det_sign": Row(_square, _each_matrix(lambda a: np.sign(_det(a)))),
    "qr": Row(_any_shape, _each_matrix(_qr)),
    "geqrf": Row(_any_shape, _each_matrix(_reflectors)),
    "svd": Row(_any_shape, _each_matrix(_svd)),
    "svd_complement": Row(_any_shape, _each_matrix(_svd_complement)),
    "singular_values": Row(_any_shape, _each_matrix(_singular_values)),
    "eigh": Row(_symmetric, _each_matrix(_eigh)),
    "matrix_exp": Row(_square, _each_matrix(_exponential)),
    "lu": Row(_any_shape, _each_matrix(_lu)),
    "permutation": Row(_exchanges, _permutation),
}
NOT_DIFFERENTIABLE = {"det_sign", "geqrf", "permutation", "svd_complement"}
