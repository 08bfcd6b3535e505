"""What CIRH lacks is refused at the user's line with a way out of its own, and the ways out compute the same."""

import re

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import precision
from lazytensor.cirh.text import cirh_text
from lazytensor.dtype import float16, float32, float64
from lazytensor.errors import CompileError
from lazytensor.functions.refusals import REFUSED, refuse_on_wafer
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.nn import functional as F
from lazytensor.ops import OPS, call
from lazytensor.testing import batch

PLACE = re.compile(r"test_refusals\.py:\d+")


@pytest.mark.parametrize("name", ["asinh", "atanh", "erfinv", "lgamma", "signbit", "bessel_i0"])
def test_refusal_of_an_operation_names_line_operation_and_way_out(name):
    x = batch(0, Type((2, 2), float32))
    with pytest.raises(CompileError, match=f"failed to legalize operation 'torch.aten.{name}'") as caught:
        cirh_text(Graph((x,), {}, (call(name, x),), {}))
    assert caught.value.hint == OPS[name].cirh.hint and PLACE.search(str(caught.value))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_named_function_is_refused_while_a_step_is_traced(name):
    refuse_on_wafer(name)  # nothing is traced
    with precision.autocast(float16), pytest.raises(CompileError) as caught:
        refuse_on_wafer(name)
    assert caught.value.hint == REFUSED[name][1] and PLACE.search(str(caught.value))


def _values(seed: int = 0, low: float = 0.1, high: float = 0.9) -> lt.Tensor:
    return lt.from_numpy(np.random.default_rng(seed).uniform(low, high, (4, 6)).astype(np.float32))


A, B, W = _values(), _values(1), _values(2)
ALIKE = {
    "lerp": (lambda: lt.lerp(A, B, W), {"a": A, "b": B, "w": W}),
    "mv": (lambda: lt.mv(A, B[0]), {"a": A, "v": B[0]}),
    "addmv": (lambda: lt.addmv(A[:, 0], A, B[0]), {"x": A[:, 0], "a": A, "v": B[0]}),
    "hardshrink": (lambda: F.hardshrink(A - 0.5, 0.2), {"x": A - 0.5, "lambd": 0.2}),
    "softshrink": (lambda: F.softshrink(A - 0.5, 0.2), {"x": A - 0.5, "lambd": 0.2}),
    "selu": (lambda: F.selu(A - 0.5), {"x": A - 0.5}),
    "celu": (lambda: F.celu(A - 0.5, 0.7), {"x": A - 0.5, "alpha": 0.7}),
    "prelu": (lambda: F.prelu(A - 0.5, lt.tensor([0.3])), {"x": A - 0.5, "weight": lt.tensor([0.3])}),
    "erfc": (lambda: lt.erfc(A), {"x": A}),
    "exp2": (lambda: lt.exp2(A), {"x": A}),
    "frac": (lambda: lt.frac(A * 5 - 2), {"x": A * 5 - 2}),
    "logit": (lambda: lt.logit(A), {"p": A}),
    "kthvalue": (lambda: lt.kthvalue(A, 2, 1)[0], {"x": A, "k": 2, "dim": 1}),
    "asinh": (lambda: lt.asinh(A), {"x": A}),
    "atanh": (lambda: lt.atanh(A), {"x": A}),
    "trunc": (lambda: lt.trunc(A * 5 - 2), {"x": A * 5 - 2}),
    "hypot": (lambda: lt.hypot(A, B), {"a": A, "b": B}),
    "copysign": (lambda: lt.copysign(A, B - 0.5), {"a": A, "b": B - 0.5}),
    "smooth_l1_loss": (lambda: F.smooth_l1_loss(A, 3 * B, beta=0.5), {"x": A, "y": 3 * B, "beta": 0.5}),
    "huber_loss": (lambda: F.huber_loss(A, 3 * B, delta=0.5), {"x": A, "y": 3 * B, "delta": 0.5}),
}


@pytest.mark.parametrize("name", sorted(ALIKE))
def test_way_out_computes_the_same(name):
    text = REFUSED[name][1] if name in REFUSED else OPS[name].cirh.hint
    expression = re.sub(r"^(Write|Multiply by a column:) | for alpha > 0|\.$", "", text)
    names = {"torch": lt, "F": F, **ALIKE[name][1]}
    expression, _, binding = expression.partition(" with ")
    if binding:
        variable, _, value = binding.partition(" = ")
        names[variable] = eval(value, names)
    np.testing.assert_allclose(eval(expression, names).numpy(), ALIKE[name][0]().numpy(), rtol=2e-4, atol=1e-6)


def test_double_precision_is_refused_but_for_its_conversion():
    x = batch(0, Type((3,), float64))
    with pytest.raises(CompileError, match="unsupported dtype: 'f64'") as caught:
        cirh_text(Graph((x,), {}, (call("add", x, x),), {}))
    assert ".float()" in caught.value.hint
    assert "cirh.Cast" in cirh_text(Graph((x,), {}, (call("cast", x, dtype=float32),), {}))


def test_grouped_convolution_is_refused():
    x, w = batch(0, Type((1, 4, 5, 5), float16)), batch(1, Type((4, 1, 3, 3), float16))
    window = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)}
    with pytest.raises(CompileError, match="groups != 1 are not supported"):
        cirh_text(Graph((x, w), {}, (call("conv", x, w, groups=4, **window),), {}))
