"""Automatic casts by name: some functions take half types as float32 while they are on, all others as they are."""

import pytest

import lazytensor as lt
from cstorch_compat.torch import linalg
from lazytensor import precision
from lazytensor.functions.widening import RAISED
from lazytensor.nn import functional as F

ALONE = "sum prod expm1 norm var std log2 log10 acos asin cosh sinh erfinv".split()
ALONG = "cumsum cumprod logsumexp log_softmax".split()
PAIRS = "l1_loss mse_loss soft_margin_loss kl_div cosine_similarity".split()
KEPT = "exp abs sin neg sqrt relu".split()


def called(name, x):
    """What a public function gives for a tensor, whatever else it takes."""
    function = getattr(lt, name, None) or getattr(F, name)
    return function(x, -1) if name in ALONG else function(x, x) if name in PAIRS else function(x)


@pytest.fixture(params=[lt.float16, lt.bfloat16], ids=lambda d: d.name)
def half(request):
    return lt.tensor([[0.25, 0.5], [0.75, 0.125]]).to(request.param)


@pytest.mark.parametrize("name", ALONE + ALONG + PAIRS)
def test_functions_of_the_table_compute_in_float32_while_casts_are_on(name, half):
    assert name in RAISED
    with precision.autocast(half.dtype):
        wide = called(name, half)
    assert wide.dtype is lt.float32
    assert wide.tolist() == called(name, half.float()).tolist()
    assert called(name, half).dtype is half.dtype


@pytest.mark.parametrize("name", KEPT)
def test_other_functions_stay_in_the_half_type(name, half):
    with precision.autocast(half.dtype):
        assert called(name, half).dtype is half.dtype


def test_methods_and_operators_are_raised_as_functions_are(half):
    with precision.autocast(half.dtype):
        assert half.sum().dtype is (half**3).dtype is half.pow(3).dtype is lt.float32
        assert (half + half).dtype is half.dtype


@pytest.mark.parametrize("name", sorted(RAISED))
def test_every_name_of_the_table_is_public(name):
    assert any(hasattr(home, name) for home in (lt, F, lt.Tensor))


def test_norms_of_the_linear_algebra_stay_in_the_half_type_as_the_original_s_do(half):
    with precision.autocast(half.dtype):
        assert linalg.vector_norm(half, dim=1).dtype is linalg.norm(half, dim=1).dtype is half.dtype
