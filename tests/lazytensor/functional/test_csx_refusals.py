"""What CIRH lacks is refused at the user's line with a way out of its own, and the ways out compute the same."""

import contextlib
import re

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.cirh.printer import cirh_text
from lazytensor.compiler.pipeline import CSX, Compilation
from lazytensor.core import autocast
from lazytensor.core.dtype import cbfloat16, float16, float32, float64, int8, uint8
from lazytensor.errors import CompileError
from lazytensor.functional.csx_refused_names import REFUSALS
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.nn import functional as F
from lazytensor.ops import OPS, call
from lazytensor.testing import batch

PLACE = re.compile(r"test_csx_refusals\.py:\d+")


@pytest.mark.parametrize("name", ["asinh", "atanh", "erfinv", "lgamma", "signbit", "bessel_i0"])
def test_refusal_of_an_operation_names_line_operation_and_way_out(name):
    x = batch(0, Type((2, 2), float32))
    with pytest.raises(CompileError, match=f"failed to legalize operation 'torch.aten.{name}'") as caught:
        cirh_text(Graph((x,), {}, (call(name, x),), {}))
    assert caught.value.hint == OPS[name].cirh.hint and PLACE.search(str(caught.value))


HOMES = (lt, F, lt.special, lt.linalg, lt.Tensor)
"""Where scripts find public functions."""
INNER = "normal gru_cell lstm_cell rnn lstm gru fold im2col special_round getitem setitem".split()
"""Refused inside of layers, in functions that only the shim has, and under another name."""
MISSING = "complex fractional_max_pool2d poisson polar".split()
"""Names that this package lacks: a check says of them what the front end says."""


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_refused_name_is_a_public_function_with_a_refusal_that_says_what_to_do(name):
    assert any(hasattr(home, name) for home in HOMES) == (name not in (*INNER, *MISSING))
    for row in (row for row in REFUSALS[name] if row.stage != "remember"):
        assert row.message and row.hint.endswith(".")


def test_operation_without_a_kernel_is_refused_where_it_is_called_and_only_on_the_wafer():
    F.celu(A)
    with autocast.autocast(float16), pytest.raises(CompileError, match="not yet support `aten::celu`") as caught:
        F.celu(A)
    assert PLACE.search(str(caught.value))


@pytest.mark.parametrize("name", ["i0e", "i1e"])
def test_scaled_bessel_function_is_refused_where_it_is_called_and_only_on_the_wafer(name):
    function = getattr(lt.special, name)
    function(A)
    with autocast.autocast(float16), pytest.raises(CompileError, match=f"not yet support `aten::special_{name}`") as e:
        function(A)
    assert PLACE.search(str(e.value))


def _lowered(step, *examples):
    """The CIRH text of a step on the wafer."""
    return Compilation(lt.trace_graph(step, *examples, half=float16), CSX)["print_cirh"]


def test_operation_without_a_lowering_is_refused_if_the_step_needs_it():
    _lowered(lambda a, b: (a + 1, lt.lerp(a, b, 0.5))[0], A, B)
    with pytest.raises(CompileError, match="failed to legalize operation") as caught:
        _lowered(lambda a, b: (a + 1, lt.lerp(a, b, 0.5)), A, B)
    assert PLACE.search(str(caught.value))


@pytest.mark.parametrize("needs_input", [False, True])
def test_gradient_without_a_lowering_is_refused_if_the_step_needs_it(needs_input):
    def step(x, w):
        F.conv1d(x.requires_grad_(needs_input), w.requires_grad_()).sum().backward()
        return w.grad

    with pytest.raises(CompileError, match="1D backward") if needs_input else contextlib.nullcontext():
        _lowered(step, lt.ones(2, 3, 5), lt.ones(4, 3, 2))


def test_gradient_without_a_kernel_is_refused_by_backward():
    def step(x):
        loss = F.hardsigmoid(x.requires_grad_()).sum()
        with pytest.raises(CompileError, match="aten::hardsigmoid_backward"):
            loss.backward()
        return loss

    _lowered(step, A)


@pytest.mark.parametrize(("dim", "is_refused"), [(1, False), (-1, True)])
def test_loss_of_log_softmax_over_a_dimension_counted_from_the_end_is_refused(dim, is_refused):
    def step(x, labels):
        return F.nll_loss(F.log_softmax(x, dim=dim), labels)

    with pytest.raises(CompileError, match="positive number") if is_refused else contextlib.nullcontext():
        _lowered(step, lt.ones(4, 3), lt.zeros(4, dtype=lt.int64))


def test_float16_stands_for_cbfloat16_in_products():
    program = lt.trace(lambda x, w: x @ w, lt.ones(2, 3).half(), lt.ones(3, 2), half=cbfloat16)
    assert program.instrs


def test_in_place_form_and_layer_are_refused_as_their_function():
    with autocast.autocast(float16):
        for use in (lambda: lt.nn.CELU()(A), lambda: A.clone().frac_(), lambda: A.clone().exp2_()):
            with pytest.raises(CompileError, match="does not yet support"):
                use()


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
    hints = [row.hint for row in REFUSALS.get(name, ())] or [OPS[name].cirh.hint]
    text = next(hint for hint in hints if hint.startswith(("Write", "Multiply")))
    expression = re.sub(r"^(Write|Multiply by a column:) | for alpha > 0|\.$", "", text)
    names = {"torch": lt, "F": F, **ALIKE[name][1]}
    expression, _, binding = expression.partition(" with ")
    if binding:
        variable, _, value = binding.partition(" = ")
        names[variable] = eval(value, names)
    np.testing.assert_allclose(eval(expression, names).numpy(), ALIKE[name][0]().numpy(), rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [float64, uint8, int8], ids=str)
def test_dtype_that_the_wafer_lacks_is_refused_in_arithmetic_and_in_conversions(dtype):
    x, y = batch(0, Type((3,), dtype)), batch(1, Type((3,), float32))
    for n in (call("add", x, x), call("cast", x, dtype=float32), call("cast", y, dtype=dtype)):
        with pytest.raises(CompileError, match=r"unsupported (input |output )?dtype: '(f64|i8)'") as caught:
            cirh_text(Graph((x, y), {}, (n,), {}))
        assert "data loader" in caught.value.hint


def test_grouped_convolution_is_refused():
    x, w = batch(0, Type((1, 4, 5, 5), float16)), batch(1, Type((4, 1, 3, 3), float16))
    window = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)}
    with pytest.raises(CompileError, match="groups != 1 are not supported"):
        cirh_text(Graph((x, w), {}, (call("conv", x, w, groups=4, **window),), {}))
