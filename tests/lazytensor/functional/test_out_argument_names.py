"""`out=` is refused by the functions that have none in PyTorch 2.13, and accepted by the others."""

import pytest

import lazytensor as lt
from lazytensor.nn import functional as F

X = lt.tensor([[1.0, 2.0], [3.0, 4.0]])
# Calls that PyTorch 2.13 refuses with a TypeError.
REFUSED = {
    "split": lambda out: lt.split(X, 1, out=out),
    "meshgrid": lambda out: lt.meshgrid(X[0], X[1], out=out),
    "std_mean": lambda out: lt.std_mean(X, out=out),
    "var_mean": lambda out: lt.var_mean(X, 0, out=out),
    "relu": lambda out: lt.relu(X, out=out),
    "det": lambda out: lt.det(X, out=out),
    "clone": lambda out: lt.clone(X, out=out),
    "einsum": lambda out: lt.einsum("ij->ji", X, out=out),
    "transpose": lambda out: lt.transpose(X, 0, 1, out=out),
    "zeros_like": lambda out: lt.zeros_like(X, out=out),
    "isnan": lambda out: lt.isnan(X, out=out),
    "sum": lambda out: lt.sum(X, out=out),
    "median": lambda out: lt.median(X, out=out),
    "argsort": lambda out: lt.argsort(X, 0, out=out),
    "linalg.matrix_exp": lambda out: lt.linalg.matrix_exp(X, out=out),
    "special.softmax": lambda out: lt.special.softmax(X, 0, out=out),
    "F.tanh": lambda out: F.tanh(X, out=out),
}
# Calls that PyTorch 2.13 accepts, of functions next to those above.
ACCEPTED = {
    "abs": (lambda out: lt.abs(X, out=out), (2, 2)),
    "cat": (lambda out: lt.cat([X, X], out=out), (4, 2)),
    "softmax": (lambda out: lt.softmax(X, 0, out=out), (2, 2)),
    "linalg.det": (lambda out: lt.linalg.det(X, out=out), ()),
    "sum over dim": (lambda out: lt.sum(X, dim=0, out=out), (2,)),
    "prod over dim": (lambda out: lt.prod(X, 0, out=out), (2,)),
    "mean": (lambda out: lt.mean(X, out=out), ()),
    "where": (lambda out: lt.where(X > 1, X, X, out=out), (2, 2)),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("out", [lt.zeros(2, 2), None])
def test_function_without_out_in_pytorch_refuses_it(name, out):
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'out'"):
        REFUSED[name](out)


@pytest.mark.parametrize("name", ACCEPTED)
def test_function_with_out_in_pytorch_returns_the_same_tensor(name):
    call, shape = ACCEPTED[name]
    out = lt.zeros(shape)
    assert call(out) is out
    assert out.tolist() != lt.zeros(shape).tolist()
