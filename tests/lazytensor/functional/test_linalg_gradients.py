"""Gradients of LU factorizations, and the full singular vectors. Expected values are PyTorch 2.13's."""

import pytest

import lazytensor as lt
from cstorch_compat.torch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from lazytensor.autograd.function import Function, grad

SQUARE = lt.tensor([[1.0, 2.0, 0.5], [4.0, 3.0, 1.0], [2.0, 0.5, 3.0]], dtype=lt.float64)
WIDE = lt.tensor([[1.0, 2.0, 0.5], [4.0, 3.0, 1.0]], dtype=lt.float64)
TALL = WIDE.t().contiguous()


def _solve_by_lu(a):
    return lt.linalg.lu_solve(*lt.linalg.lu_factor(a), lt.ones(3, 1, dtype=lt.float64))


ROWS = {
    "lu": (
        lambda a: lt.linalg.lu(a)[1] * 2 + lt.linalg.lu(a)[2],
        SQUARE,
        [[-11.65, 13.8, 13.2], [7.4125, -6.95, -4.8], [-7.0, 11.0, 9.0]],
    ),
    "lu_factor of a wide matrix": (
        lambda a: lt.linalg.lu_factor(a)[0],
        WIDE,
        [[-4.25, 5.0, 6.0], [2.0625, 0.75, 1.5]],
    ),
    "lu_factor of a tall matrix": (
        lambda a: lt.linalg.lu_factor(a)[0],
        TALL,
        [[-4.14, 3.76], [3.345, -0.48], [-1.1, 2.4]],
    ),
    "lu_solve": (
        _solve_by_lu,
        SQUARE,
        [
            [0.4190672154, -0.90260631, -0.7091906722],
            [-0.1560356653, 0.3360768176, 0.2640603567],
            [0.2229080933, -0.4801097394, -0.3772290809],
        ],
    ),
    "pinv with atol": (
        lambda a: lt.linalg.pinv(a, atol=2.0),
        WIDE,
        [[-0.0587134387, -0.0140563846, 0.0708659227], [-0.2267563906, -0.1084894594, 0.1460590054]],
    ),
    "full svd": (
        lambda a: lt.linalg.svd(a)[2].abs(),
        WIDE,
        [[-0.5165156049, -1.0835544468, 5.2673913051], [0.2234631133, 0.2983284709, -1.7389090201]],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_gradient_of_a_factorization_is_pytorchs(name):
    function, a, expected = ROWS[name]
    x = a.clone().requires_grad_()
    y = function(x)
    weights = lt.arange(1.0, y.numel() + 1, dtype=lt.float64).reshape(y.shape)
    (gradient,) = grad((y * weights).sum(), x)
    assert gradient.tolist() == [pytest.approx(row, rel=1e-8) for row in expected]


@pytest.mark.parametrize("a", [SQUARE, WIDE, TALL])
def test_second_derivatives_of_lu_agree_with_differences(a):
    assert gradgradcheck(lambda x: lt.linalg.lu_factor(x)[0], a.clone().requires_grad_())


@pytest.mark.parametrize("a", [SQUARE, WIDE, TALL])
def test_full_singular_vectors_are_orthogonal_and_give_the_matrix(a):
    u, s, vh = lt.linalg.svd(a)
    m, n = a.shape
    assert (u.shape, vh.shape) == ((m, m), (n, n))
    middle = lt.zeros(m, n, dtype=lt.float64)
    middle[: len(s), : len(s)] = lt.diag(s)
    for product, expected in ((u.t() @ u, lt.eye(m)), (vh @ vh.t(), lt.eye(n)), (u @ middle @ vh, a)):
        assert lt.allclose(product, expected.double(), atol=1e-12)


def test_gradcheck_finds_a_wrong_gradient():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0] * 3

    x = lt.tensor([1.0, -2.0], dtype=lt.float64, requires_grad=True)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, x)
    assert not gradcheck(Wrong.apply, x, raise_exception=False)
    assert gradcheck(lambda v: v * v, x) and gradgradcheck(lambda v: v**3, x)


def test_gradcheck_without_a_gradient_is_refused():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lt.sin, lt.ones(2, dtype=lt.float64))


def test_normal_distribution_functions_have_pytorchs_values():
    x = lt.tensor([-40.0, -6.0, -0.5, 1.0, 20.0], dtype=lt.float64)
    assert lt.special.ndtr(x).tolist() == pytest.approx(
        [0.0, 9.865876449133282e-10, 0.3085375387259869, 0.841344746068543, 1.0], rel=1e-12
    )
    assert lt.special.log_ndtr(x).tolist() == pytest.approx(
        [-804.6084420137539, -20.73676894997471, -1.1759117615936185, -0.17275377902344985, -2.7536241186061926e-89],
        rel=1e-12,
    )
    # Large arguments neither overflow nor underflow.
    assert lt.special.erfcx(lt.tensor([1e30, 9.9, 10.1, -1.0])).tolist() == pytest.approx(
        [5.6418961e-31, 0.05670246, 0.05559048, 5.0089803], rel=1e-6
    )


def test_gradient_of_log_ndtr_agrees_with_differences():
    x = lt.tensor([-30.0, -1.5, -0.9, 0.0, 3.0], dtype=lt.float64, requires_grad=True)
    assert gradcheck(lt.special.log_ndtr, x) and gradcheck(lt.special.ndtr, x) and gradcheck(lt.special.erfcx, x[1:])


TWO_TRIANGLES = lt.tensor([[4.0, 1.0, -0.5], [2.0, 5.0, 1.0], [0.3, 0.7, 3.0]], dtype=lt.float64)


@pytest.mark.parametrize("upper", [False, True])
def test_symmetric_factorizations_read_one_triangle(upper):
    half = lt.triu(TWO_TRIANGLES) if upper else lt.tril(TWO_TRIANGLES)
    symmetric = half + half.t() - lt.diag(lt.diag(TWO_TRIANGLES))
    uplo = "U" if upper else "L"
    assert lt.allclose(lt.linalg.eigvalsh(TWO_TRIANGLES, uplo), lt.linalg.eigvalsh(symmetric), rtol=1e-13)
    for function in (lt.linalg.cholesky, lambda a, upper: lt.linalg.cholesky_ex(a, upper=upper).L):
        assert lt.allclose(function(TWO_TRIANGLES, upper=upper), function(symmetric, upper=upper), rtol=1e-13)


def test_eigenvalues_of_another_triangle_are_refused():
    with pytest.raises(RuntimeError, match="Expected UPLO argument to be 'L' or 'U', but got X"):
        lt.linalg.eigh(TWO_TRIANGLES, "X")
