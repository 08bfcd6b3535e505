"""Linear algebra, contractions and statistics: laws of the factors, NumPy's answers, and recorded ones of PyTorch."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core import autocast
from lazytensor.core import dtype as dt
from lazytensor.functional import linalg

few = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 4)
X = [[3.0, -1.0, 2.0], [0.0, 4.0, -5.0]]


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def invertible(seed: int, *shape: int) -> np.ndarray:
    return drawn(seed, *shape) + 3 * np.eye(*shape[-2:])


def assert_close(got: lt.Tensor, want, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=tolerance, atol=tolerance)


# -- factors ---------------------------------------------------------------------------------------------------------


@few
@given(seeds, sizes, sizes)
def test_factors_multiply_to_the_matrix(seed, m, n):
    a = drawn(seed, 2, m, n)
    x = lt.from_numpy(a)
    q, r = linalg.qr(x)
    assert_close(q @ r, a)
    assert_close(q.mT @ q, np.broadcast_to(np.eye(min(m, n)), (2, min(m, n), min(m, n))))
    u, s, vh = linalg.svd(x, full_matrices=False)
    assert_close((u * s.unsqueeze(-2)) @ vh, a)
    p, low, up = linalg.lu(x)
    assert_close(p @ low @ up, a)
    packed, tau = lt.geqrf(x)
    assert_close(linalg.householder_product(packed, tau)[..., : min(m, n)], q.numpy())
    y = lt.from_numpy(drawn(seed + 1, 2, m, n))
    assert_close(lt.ormqr(packed, tau, lt.ormqr(packed, tau, y), transpose=True), y.numpy())


@few
@given(seeds, sizes, sizes)
def test_solutions_solve(seed, n, k):
    a, b = invertible(seed, 2, n, n), drawn(seed + 1, 2, n, k)
    x, y = lt.from_numpy(a), lt.from_numpy(b)
    assert_close(x @ linalg.solve(x, y), b)
    assert_close(linalg.solve(x, y.mT, left=False) @ x, np.swapaxes(b, 1, 2))
    assert_close(lt.lu_solve(y, *linalg.lu_factor(x)), np.linalg.solve(a, b))
    assert_close(x @ linalg.inv(x), np.broadcast_to(np.eye(n), (2, n, n)))
    for upper in (False, True):
        half = np.triu(a) if upper else np.tril(a)
        assert_close(lt.triangular_solve(y, x, upper=upper).solution, np.linalg.solve(half, b))
        square = np.swapaxes(half, 1, 2) @ half if upper else half @ np.swapaxes(half, 1, 2)
        assert_close(lt.cholesky_solve(y, x, upper=upper), np.linalg.solve(square, b), 1e-7)
        assert_close(lt.cholesky_inverse(x, upper=upper), np.linalg.inv(square), 1e-7)
    gram = a @ np.swapaxes(a, 1, 2)
    low = lt.cholesky(lt.from_numpy(gram))
    assert_close(low @ low.mT, gram)
    w, v = linalg.eigh(lt.from_numpy(gram))
    assert_close((v * w.unsqueeze(-2)) @ v.mT, gram)


@few
@given(seeds, sizes)
def test_determinants_multiply(seed, n):
    a, b = (lt.from_numpy(invertible(s, n, n)) for s in (seed, seed + 1))
    assert_close(linalg.det(a @ b), (linalg.det(a) * linalg.det(b)).numpy())
    sign, size = lt.slogdet(a)
    assert_close(sign * size.exp(), linalg.det(a).numpy())
    assert_close(lt.logdet(a @ a), 2 * size.numpy())


@few
@given(seeds, sizes, sizes)
def test_pseudoinverse_has_the_four_properties(seed, m, n):
    a = drawn(seed, m, 1) @ drawn(seed + 1, 1, n)  # of rank 1
    x = lt.from_numpy(a)
    p = linalg.pinv(x, 1e-9)
    for got, want in ((x @ p @ x, a), (p @ x @ p, p.numpy()), (x @ p, (x @ p).mT.numpy()), (p @ x, (p @ x).mT.numpy())):
        assert_close(got, want)
    assert linalg.matrix_rank(x).item() == 1


@few
@given(seeds, sizes)
def test_exponential_of_a_sum_of_commuting_matrices(seed, n):
    x = lt.from_numpy(2 * drawn(seed, n, n))
    assert_close(lt.matrix_exp(x) @ lt.matrix_exp(x), lt.matrix_exp(x * 2).numpy(), 1e-8)
    assert_close(linalg.matrix_power(x, 5), np.linalg.matrix_power(x.numpy(), 5))


# Recorded from PyTorch 2.13.
def test_gradients_of_factors_are_pytorchs():
    low = lt.tensor([[2.0, 0.0], [1.0, 3.0]], requires_grad=True)
    lt.cholesky_solve(lt.tensor([[1.0], [2.0]]), low).sum().backward()
    assert_close(low.grad, [[-0.194444, -0.138889], [-0.111111, -0.055556]], 1e-5)
    a = lt.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
    (lt.cholesky(a) * lt.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert_close(a.grad, [[0.139451, 0.428205], [0.428205, 1.264911]], 1e-5)


def test_packed_factors_are_pytorchs():
    x = lt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    packed, tau = lt.geqrf(x)
    assert_close(packed, [[-5.91608, -7.437359], [0.433772, 0.82808], [0.722953, 0.892623]], 1e-5)
    assert_close(tau, [1.169031, 1.113105], 1e-5)
    lu, pivots = linalg.lu_factor(lt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert_close(lu, [[3, 4], [0.333333, 0.666667]], 1e-5)
    assert pivots.tolist() == [2, 2] and pivots.dtype is lt.int32


# -- contractions ----------------------------------------------------------------------------------------------------

EQUATIONS = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "bhqd,bhkd->bhqk": ((2, 3, 4, 5), (2, 3, 2, 5)),
    "ii": ((3, 3),),
    "ii->i": ((3, 3),),
    "iij,jk->ik": ((2, 2, 3), (3, 2)),
    "ij->ji": ((2, 3),),
    "i,j->ij": ((2,), (3,)),
    "i,j": ((2,), (3,)),
    "ij,jk,kl->il": ((2, 3), (3, 4), (4, 2)),
    "...ij,...jk->...ik": ((2, 3, 4), (4, 5)),
    "...i,i->...": ((2, 3, 4), (4,)),
    "b...,b->...": ((2, 3, 4), (2,)),
    "ba,ca": ((2, 3), (4, 3)),
    "ij,ik->k": ((2, 3), (2, 4)),
}


@pytest.mark.parametrize("equation", sorted(EQUATIONS))
def test_einsum_is_numpys_and_its_gradient_too(equation):
    arrays = [drawn(k, *shape) for k, shape in enumerate(EQUATIONS[equation])]
    tensors = [lt.from_numpy(a).requires_grad_() for a in arrays]
    out = lt.einsum(equation, *tensors)
    assert_close(out, np.einsum(equation, *arrays))
    weight = drawn(9, *out.shape)
    (out * lt.from_numpy(weight)).sum().backward()
    for k, (array, t) in enumerate(zip(arrays, tensors, strict=True)):
        moved = [a + 1e-6 * drawn(17, *a.shape) if i == k else a for i, a in enumerate(arrays)]
        change = ((np.einsum(equation, *moved) - np.einsum(equation, *arrays)) * weight).sum() / 1e-6
        assert (t.grad.numpy() * drawn(17, *array.shape)).sum() == pytest.approx(change, rel=1e-6, abs=1e-8)


@few
@given(seeds, st.lists(sizes, min_size=3, max_size=5))
def test_chains_do_not_depend_on_the_order(seed, extents):
    arrays = [drawn(seed + k, *pair) for k, pair in enumerate(itertools.pairwise(extents))]
    want = np.linalg.multi_dot([arrays[0][0], *arrays[1:]])
    tensors = [lt.from_numpy(a) for a in arrays]
    assert_close(linalg.multi_dot([tensors[0][0], *tensors[1:]]), want)
    assert_close(lt.chain_matmul(*tensors)[0], want)


@few
@given(seeds, sizes, sizes)
def test_products_are_numpys(seed, m, n):
    a, b, c, d = (drawn(seed + k, *s) for k, s in enumerate(((m, n), (n, m), (3, 4, 5), (4, 3, 2))))
    x, y, z, w = (lt.from_numpy(t) for t in (a, b, c, d))
    assert_close(lt.kron(x, y), np.kron(a, b))
    assert_close(lt.kron(x[0], y), np.kron(a[0], b))
    assert_close(lt.inner(x, y.t()), np.inner(a, b.T))
    assert_close(lt.tensordot(z, w, ([1, 0], [0, 1])), np.tensordot(c, d, ([1, 0], [0, 1])))
    assert_close(lt.cross(z[:, 0], z[:, 1], dim=0), np.cross(c[:, 0], c[:, 1], axis=0))
    assert_close(linalg.vecdot(x, y.t()), (a * b.T).sum(-1))
    assert_close(lt.addmv(y[:, 0], y, x[:, 0], beta=2.0, alpha=0.5), 2 * b[:, 0] + 0.5 * b @ a[:, 0])


def test_beta_zero_ignores_what_it_would_scale():
    nan = lt.full((2, 2), math.nan)
    assert lt.addr(nan, lt.ones(2), lt.ones(2), beta=0).tolist() == [[1, 1], [1, 1]]
    assert lt.addmm(nan, lt.ones(2, 2), lt.ones(2, 2), beta=0).tolist() == [[2, 2], [2, 2]]


# -- statistics: recorded from PyTorch 2.13 --------------------------------------------------------------------------

NORMS = {
    0: [3.0, 2.0],
    0.5: [17.191509, 17.944271],
    1: [6.0, 9.0],
    2: [3.741657, 6.403124],
    3: [3.301927, 5.738794],
    -1: [0.545455, 0.0],
    math.inf: [3.0, 5.0],
    -math.inf: [1.0, 0.0],
}
MATRIX_NORMS = {"fro": 7.416198, "nuc": 9.689398, 1: 7, -1: 3, 2: 6.851908, -2: 2.83749, math.inf: 9, -math.inf: 6}
GRADIENTS = {0.5: [0, 2.414214, -1.707107], 1.5: [0, 0.639234, -0.904013], 1: [0, 1, -1], math.inf: [0, 0, -1]}
VARIANCES = {
    0: [2.888889, 13.555555],
    1: [4.333333, 20.333334],
    2: [8.666667, 40.666668],
    3: [math.inf, math.inf],
    5: [math.inf, math.inf],
    -1: [2.166667, 10.166667],
    1.3: [5.098039, 23.921568],
}
QUANTILES = {
    "linear": [[0.2, -3], [2, 0]],
    "lower": [[-1, -5], [2, 0]],
    "higher": [[2, 0], [2, 0]],
    "midpoint": [[0.5, -2.5], [2, 0]],
    "nearest": [[-1, -5], [2, 0]],
}


@pytest.mark.parametrize("order", NORMS)
def test_vector_norms(order):
    assert_close(linalg.vector_norm(lt.tensor(X), order, 1), NORMS[order], 1e-6)
    assert_close(lt.norm(lt.tensor(X), order, 1), NORMS[order], 1e-6)


@pytest.mark.parametrize("order", MATRIX_NORMS)
def test_matrix_norms(order):
    assert_close(linalg.norm(lt.tensor(X), order), MATRIX_NORMS[order], 1e-6)
    assert linalg.matrix_norm(lt.ones(3, 2, 3), order, (0, 2), keepdim=True).shape == (1, 2, 1)


@pytest.mark.parametrize("order", GRADIENTS)
def test_norms_have_a_gradient_at_zero(order):
    x = lt.tensor([0.0, 1.0, -2.0], requires_grad=True)
    linalg.vector_norm(x, order).backward()
    assert_close(x.grad, GRADIENTS[order], 1e-5)


def test_deviation_of_equal_numbers_has_the_gradient_zero():
    x = lt.ones(3, requires_grad=True)
    lt.std(x).backward()
    assert x.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("correction", VARIANCES)
def test_variances(correction):
    x = lt.tensor(X)
    assert_close(lt.var(x, 1, correction=correction), VARIANCES[correction], 1e-6)
    std, mean = lt.std_mean(x, 1, correction=correction, keepdim=True)
    assert_close(std * std, np.array(VARIANCES[correction])[:, None], 1e-5)
    assert_close(mean, [[4 / 3], [-1 / 3]], 1e-6)


def test_variance_takes_unbiased_in_place_of_dimensions():
    x = lt.tensor(X)
    assert lt.var(x, False).item() == pytest.approx(np.var(X))
    assert lt.var_mean(x, True)[0].item() == pytest.approx(np.var(X, ddof=1))


@pytest.mark.parametrize("interpolation", QUANTILES)
def test_quantiles(interpolation):
    q = lt.tensor([0.2, 0.5])
    assert_close(lt.quantile(lt.tensor(X), q, 1, interpolation=interpolation), QUANTILES[interpolation], 1e-6)


def test_quantiles_and_missing_numbers():
    x = lt.tensor([[3.0, math.nan, 2.0], [0.0, 4.0, -5.0]])
    assert_close(lt.nanquantile(x, lt.tensor([0.25, 0.5]), 1), [[2.25, -2.5], [2.5, 0.0]])
    assert_close(lt.quantile(x, 0.5, 1, True), [[math.nan], [0.0]])
    assert lt.nanquantile(x, 0.5, 0, True).shape == (1, 3) and lt.quantile(x, 0.5).shape == ()
    assert_close(lt.nanmean(x, 1), [2.5, -1 / 3], 1e-6)
    assert lt.nansum(x).item() == 4


def test_covariances():
    x = lt.tensor(X)
    weighted = lt.cov(x, fweights=lt.tensor([1, 2, 1]), aweights=lt.tensor([0.5, 0.2, 0.3]))
    assert_close(weighted, [[4.343137, -5.578431], [-5.578431, 16.34314]], 1e-5)
    assert_close(lt.corrcoef(x), [[1, -0.67471], [-0.67471, 1]], 1e-5)
    assert_close(lt.renorm(x, 2, 0, 4.0), [[3, -1, 2], [0, 2.49878, -3.123475]], 1e-5)


@few
@given(seeds, st.sampled_from((0.5, 1.0, 2.0, 3.0, math.inf)))
def test_distances_are_norms_of_differences(seed, p):
    a, b = drawn(seed, 2, 3, 4), drawn(seed + 1, 2, 5, 4)
    want = np.linalg.norm(a[:, :, None] - b[:, None], p, -1)
    assert_close(lt.cdist(lt.from_numpy(a), lt.from_numpy(b), p), want)
    assert_close(lt.dist(lt.from_numpy(a[0, 0]), lt.from_numpy(b[0, 0]), p), want[0, 0, 0])


@few
@given(seeds, st.sampled_from((1, 2)), st.integers(3, 5))
def test_differences_are_numpys(seed, edge_order, n):
    a, places = drawn(seed, n, 4), np.cumsum(0.2 + np.abs(drawn(seed + 1, n)))
    x = lt.from_numpy(a)
    rows = lt.gradient(x, spacing=[lt.from_numpy(places)], dim=0, edge_order=edge_order)[0]
    columns = lt.gradient(x, spacing=0.5, dim=1, edge_order=edge_order)[0]
    assert_close(rows, np.gradient(a, places, axis=0, edge_order=edge_order))
    assert_close(columns, np.gradient(a, 0.5, axis=1, edge_order=edge_order))


def test_short_time_transform_is_the_transform_of_each_window():
    signal, window = drawn(3, 2, 40), np.hanning(8)
    got = lt.stft(lt.from_numpy(signal), 8, 3, window=lt.from_numpy(window), return_complex=False)
    padded = np.pad(signal, ((0, 0), (4, 4)), mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 8, 1)[:, ::3] * window
    want = np.fft.rfft(frames).swapaxes(1, 2)
    assert_close(got, np.stack([want.real, want.imag], -1))


ERRORS = {
    "cholesky of an indefinite matrix": lambda: lt.cholesky(lt.tensor([[1.0, 2.0], [2.0, 1.0]])).numpy(),
    "inverse of a singular matrix": lambda: linalg.inv(lt.ones(2, 2)).numpy(),
    "determinant of a rectangle": lambda: linalg.det(lt.ones(2, 3)),
    "determinant of a vector": lambda: linalg.det(lt.ones(2)),
    "integers": lambda: linalg.inv(lt.ones(2, 2, dtype=lt.int64)),
    "cross of two dimensions": lambda: lt.cross(lt.ones(2), lt.ones(2)),
    "tensordot that does not match": lambda: lt.tensordot(lt.ones(2, 3), lt.ones(2, 3), 1),
    "einsum with too few labels": lambda: lt.einsum("i,j", lt.ones(2, 2), lt.ones(2)),
    "einsum with an unknown label": lambda: lt.einsum("i->j", lt.ones(2)),
    "multi_dot of one": lambda: linalg.multi_dot([lt.ones(2, 2)]),
    "variance of integers": lambda: lt.var(lt.arange(3)),
    "quantile beyond one": lambda: lt.quantile(lt.ones(3), 1.5),
    "complex spectra": lambda: lt.stft(lt.ones(16), 8),
    "norm of an unknown order": lambda: linalg.matrix_norm(lt.ones(2, 2), 3),
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_wrong_use_is_refused(name):
    with pytest.raises(RuntimeError):
        ERRORS[name]()


@pytest.mark.parametrize("equation", "bhqd,bhkd->bhqk ij,jk->ik ij,jk->ki ij,ij->ij i,j->ij ij,kj-> bi,i->b".split())
def test_a_sum_of_products_is_the_same_by_the_steps_of_the_front_end(equation):
    extents = {c: 2 + i for i, c in enumerate(sorted({*equation} - {*",->"}))}
    terms = equation.partition("->")[0].split(",")
    a, b = (drawn(k, *(extents[c] for c in term)) for k, term in enumerate(terms))
    with autocast.autocast(dt.float16):
        got = lt.einsum(equation, lt.from_numpy(a), lt.from_numpy(b))
    assert_close(got, np.einsum(equation, a, b))


def test_einsum_promotes_where_nothing_is_added_up():
    whole, real = lt.arange(3), lt.tensor([0.5, 1.0])
    assert lt.einsum("m,d->md", whole, real).tolist() == [[0.0, 0.0], [0.5, 1.0], [1.0, 2.0]]
    assert lt.einsum("m,d->m", whole, real.half()).dtype is lt.float16
    # As in PyTorch, which makes a matrix product of it.
    with pytest.raises(RuntimeError):
        lt.einsum("m,m->", whole[:2], real)


@pytest.mark.parametrize("function", [linalg.lu, linalg.lu_factor])
def test_factorization_without_pivoting_is_refused_as_in_pytorch(function):
    with pytest.raises(RuntimeError, match="LU without pivoting is not implemented on the CPU"):
        function(lt.eye(2), pivot=False)
