"""Automatic casts: the dtypes that calls of a script give, as the vendor's front end was seen to answer."""

import pytest

import lazytensor as lt
from lazytensor import precision
from lazytensor.nn import functional as F

X = lt.ones(4, 4)
HALF = X.half()

LOWERED = {
    "matmul": lambda x: lt.matmul(x, x),
    "operator": lambda x: x @ x,
    "stack": lambda x: x[None, None] @ x[None, None],
    "mm": lambda x: x.mm(x),
    "addmm": lambda x: lt.addmm(x, x, x),
    "linear": lambda x: F.linear(x, x),
}
KEPT = {
    "bmm": lambda x: lt.bmm(x[None], x[None]),
    "einsum": lambda x: lt.einsum("ij,jk->ik", x, x),
    "sigmoid": lambda x: x.sigmoid(),
    "softmax": lambda x: F.softmax(x, -1),
    "sqrt": lambda x: x.sqrt(),
    "mean": lambda x: x.mean(),
}
RAISED = {
    name: lambda x, name=name: getattr(x, name)()
    for name in ("exp", "log", "log1p", "expm1", "rsqrt", "reciprocal", "tan", "sum", "cosh")
} | {"softplus": F.softplus}
ROWS = [
    *((f, x, lt.float16) for f in LOWERED.values() for x in (X, HALF)),
    *((f, x, x.dtype) for f in KEPT.values() for x in (X, HALF)),
    *((f, x, lt.float32) for f in RAISED.values() for x in (X, HALF)),
]


@pytest.mark.parametrize(("function", "x", "dtype"), ROWS)
def test_casts_are_those_of_the_front_end(function, x, dtype):
    with precision.autocast(lt.float16):
        assert function(x).dtype is dtype
    assert function(x).dtype is x.dtype


def test_operands_of_two_precisions_meet_in_the_half_type_in_matmul_and_in_float32_in_bmm():
    with precision.autocast(lt.float16):
        assert (HALF @ X).dtype is lt.float16
        assert lt.bmm(HALF[None], X[None]).dtype is lt.float32
