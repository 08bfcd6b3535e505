"""Automatic casts by name: which functions take half types as float32, which float32 as the half type."""

import numpy as np
import pytest

import lazytensor as lt
from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.core import autocast
from lazytensor.functional.autocast_rules import FLOAT32_FUNCTIONS, HALF_FUNCTIONS
from lazytensor.nn import functional as F

linalg = get_mirror("torch.linalg")


ALONE = """sum prod exp expm1 log rsqrt reciprocal tan softplus norm var std log2 log10 acos asin cosh sinh
    erfinv""".split()
BY_FORMULA = "expm1 tan log2 log10 acos asin cosh sinh".split()
"""What the original computes by formulas of other functions, within 1e-4."""
ALONG = "cumsum cumprod".split()
PAIRS = "l1_loss mse_loss soft_margin_loss kl_div".split()
KEPT = "abs sin neg sqrt relu".split()

PRODUCTS = {
    "matmul": lambda a, b: lt.matmul(a, b),
    "operator": lambda a, b: a @ b,
    "stack": lambda a, b: a[None, None] @ b[None, None],
    "mm": lambda a, b: a.mm(b),
    "addmm": lambda a, b: lt.addmm(a, a, b),
}
UNCAST = {
    "bmm": lambda a, b: lt.bmm(a[None], b[None]),
    "einsum": lambda a, b: lt.einsum("ij,jk->ik", a, b),
}


@pytest.fixture(params=[lt.float16, lt.bfloat16], ids=lambda d: d.name)
def half(request):
    return lt.tensor([[0.25, 0.5], [0.75, 0.125]]).to(request.param)


def test_logsumexp_takes_the_largest_in_the_half_type_and_adds_in_float32(half):
    with autocast.autocast(half.dtype):
        total = lt.logsumexp(half, -1)
    top = half.amax(-1, keepdim=True)
    want = (half - top).float().exp().sum(-1).log() + top.squeeze(-1).float()
    assert total.dtype is lt.float32 and total.tolist() == want.tolist()


def test_cosine_similarity_is_raised_in_functional_only(half):
    with autocast.autocast(half.dtype):
        assert lt.cosine_similarity(half, half).dtype is half.dtype
        assert F.cosine_similarity(half, half).dtype is lt.float32


def called(name, x):
    """What a public function gives for a tensor, whatever else it takes."""
    function = (None if name in PAIRS else getattr(lt, name, None)) or getattr(F, name)
    return function(x, -1) if name in ALONG else function(x, x) if name in PAIRS else function(x)


@pytest.mark.parametrize("name", ALONE + ALONG + PAIRS)
def test_functions_of_the_table_compute_in_float32_while_casts_are_on(name, half):
    assert name in FLOAT32_FUNCTIONS
    with autocast.autocast(half.dtype):
        wide = called(name, half)
    assert wide.dtype is lt.float32
    tolerance = 1e-4 if name in BY_FORMULA else 0
    np.testing.assert_allclose(wide.numpy(), called(name, half.float()).numpy(), rtol=0, atol=tolerance)
    assert called(name, half).dtype is half.dtype


def test_log1p_adds_in_the_half_type_and_takes_the_logarithm_in_float32(half):
    with autocast.autocast(half.dtype):
        wide = lt.log1p(half)
    assert wide.dtype is lt.float32
    np.testing.assert_allclose(wide.numpy(), np.log((half + 1).float().numpy()), rtol=1e-6)


@pytest.mark.parametrize("name", KEPT)
def test_other_functions_stay_in_the_half_type(name, half):
    with autocast.autocast(half.dtype):
        assert called(name, half).dtype is half.dtype


def test_methods_and_operators_are_raised_as_functions_are(half):
    with autocast.autocast(half.dtype):
        assert half.sum().dtype is (half**3).dtype is half.pow(3).dtype is lt.float32
        assert (half + half).dtype is half.dtype


@pytest.mark.parametrize("function", [F.glu, F.hardswish])
def test_gated_functions_compute_in_float32_and_answer_in_the_half_type(function, half):
    with autocast.autocast(half.dtype):
        got = function(half)
    assert got.dtype is half.dtype
    assert got.tolist() == function(half.float()).to(half.dtype).tolist()


def test_log_softmax_is_raised_in_the_functional_module_alone(half):
    with autocast.autocast(half.dtype):
        assert F.log_softmax(half, -1).dtype is lt.float32
        assert lt.log_softmax(half, -1).dtype is half.log_softmax(-1).dtype is half.dtype


def test_operands_beside_a_float32_scalar_are_raised_and_what_is_written_is_not(half):
    scalar = half.float().sum()
    # The original leaves bfloat16 as it is.
    wide = lt.float32 if half.dtype is lt.float16 else half.dtype
    with autocast.autocast(half.dtype):
        assert (half * scalar).dtype is (scalar / half).dtype is lt.add(half, scalar).dtype is wide
        assert half.clone().add_(scalar).dtype is lt.where(half > 0, half, scalar).dtype is half.dtype
    assert (half * scalar).dtype is half.dtype


def test_gradients_of_automatic_casts_are_added_in_the_type_of_the_value():
    # 2048 + 1 is no float16: of two uses each has a cast of its own, of one explicit cast there is one gradient.
    w = lt.tensor([[1.0]], requires_grad=True)
    x = lt.tensor([[2048.0]]), lt.tensor([[1.0]])
    with autocast.autocast(lt.float16):
        (x[0] @ w + x[1] @ w).sum().backward()
    assert w.grad.item() == 2049
    w.grad = None
    with autocast.autocast(lt.float16):
        half = w.half()
        (x[0] @ half + x[1] @ half).sum().backward()
    assert w.grad.item() == 2048


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_computed_in_the_half_type(name, half):
    wide, product = half.float(), PRODUCTS[name]
    with autocast.autocast(half.dtype):
        assert product(half, half).dtype is product(wide, wide).dtype is product(half, wide).dtype is half.dtype
    assert product(wide, wide).dtype is lt.float32


@pytest.mark.parametrize("name", UNCAST)
def test_other_products_take_their_operands_as_they_are(name, half):
    wide, product = half.float(), UNCAST[name]
    with autocast.autocast(half.dtype):
        assert product(half, half).dtype is half.dtype
        assert product(half, wide).dtype is product(wide, wide).dtype is lt.float32


@pytest.mark.parametrize("name", sorted(FLOAT32_FUNCTIONS | HALF_FUNCTIONS))
def test_every_name_of_the_table_is_public(name):
    assert any(hasattr(home, name) for home in (lt, F, lt.Tensor))


def test_norms_of_the_linear_algebra_stay_in_the_half_type_as_the_original_s_do(half):
    with autocast.autocast(half.dtype):
        assert linalg.vector_norm(half, dim=1).dtype is linalg.norm(half, dim=1).dtype is half.dtype


def test_log_softmax_of_half_types_is_pytorch_s_to_the_last_bit():
    # Recorded from PyTorch 2.13.0: along the last dimension it keeps the sum and its logarithm in the half type.
    x = lt.tensor([[0.5, -1.25, 2.0, 0.125], [3.0, 2.5, -0.75, 1.5]], dtype=lt.bfloat16, requires_grad=True)
    y = F.log_softmax(x, -1)
    y.backward(lt.tensor([[0.0, -0.25, 0.0, 0.0], [-0.25, 0.0, 0.0, 0.5]], dtype=lt.bfloat16))
    assert y.tolist() == [[-1.84375, -3.59375, -0.345703125, -2.21875], [-0.6171875, -1.1171875, -4.375, -2.125]]
    assert x.grad.tolist() == [
        [0.03955078125, -0.2431640625, 0.1767578125, 0.0272216796875],
        [-0.384765625, -0.08203125, -0.003143310546875, 0.470703125],
    ]
    assert F.log_softmax(x, 0).tolist() == [
        [-2.578125, -3.765625, -0.06201171875, -1.6015625],
        [-0.0791015625, -0.023193359375, -2.8125, -0.2255859375],
    ]


def test_casts_on_a_cpu_lower_sums_with_products_and_leave_vectors_alone(half):
    # As PyTorch 2.13.0 does it.
    x = half.float()
    with autocast.host_autocast(half.dtype):
        assert lt.addmm(x, x, x).dtype is lt.baddbmm(x[None], x[None], x[None]).dtype is half.dtype
        assert lt.addbmm(x, x[None], x[None]).dtype is (x @ x[0]).dtype is half.dtype
        assert lt.mv(x, x[0]).dtype is lt.dot(x[0], x[0]).dtype is lt.addmv(x[0], x, x[0]).dtype is lt.float32
        assert F.gaussian_nll_loss(half, half, half).dtype is half.dtype
