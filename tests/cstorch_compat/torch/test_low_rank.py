"""Randomized decompositions agree with the exact ones of matrices of low rank."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.torch.low_rank import pca_lowrank, svd_lowrank
from lazytensor import manual_seed, randn, tensor


@given(st.integers(3, 8), st.integers(3, 8), st.integers(1, 3))
def test_a_matrix_of_low_rank_is_decomposed_exactly(m, n, rank):
    manual_seed(m * 100 + n * 10 + rank)
    a = randn(m, rank) @ randn(rank, n)
    u, s, v = svd_lowrank(a, q=rank)
    assert (u.shape, s.shape, v.shape) == ((m, rank), (rank,), (n, rank))
    np.testing.assert_allclose((u * s) @ v.T, a.numpy(), atol=1e-4)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(a.numpy())[1][:rank], rtol=1e-3, atol=1e-4)


def test_principal_components_are_those_of_the_centred_matrix():
    manual_seed(0)
    a = randn(2, 9, 4)
    _, s, v = pca_lowrank(a, niter=6)
    centred = a.numpy() - a.numpy().mean(1, keepdims=True)
    assert v.shape == (2, 4, 4)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(centred)[1], rtol=1e-3)


def test_values_are_those_of_pytorch_for_its_seed():
    manual_seed(0)
    a = tensor(np.arange(12.0, dtype=np.float32).reshape(4, 3) % 5)
    assert [round(x, 4) for x in svd_lowrank(a, q=2)[1].tolist()] == [6.4373, 3.0098]


@pytest.mark.parametrize("options", [{"q": 5}, {"niter": -1}])
def test_invalid_settings_are_errors(options):
    with pytest.raises(ValueError, match="non-negative"):
        pca_lowrank(randn(4, 3), **options)
