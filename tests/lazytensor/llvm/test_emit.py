"""The compiler of the kernel language: what kernels compute, what is an error, and that a step needs no Numba."""

import ast
import re
import subprocess
import sys

import numpy as np
import pytest

from lazytensor.core.dtype import bfloat16, cbfloat16, float16, round_to
from lazytensor.errors import CompileError
from lazytensor.llvm import emit
from lazytensor.llvm.bound_code import Kernel
from lazytensor.llvm.number_types import Unknown
from lazytensor.runtime import jit

TEXT = """\
import numpy as np
from lazytensor.runtime.intrinsics import max_f4, sum_f4
from lazytensor.runtime.language import typed
from lazytensor.runtime.rounding import round_bfloat16, round_cbfloat16, round_float16
from lazytensor.runtime.vecmath import exp_f4, exp_f8, sin_f4


@typed("void({signature})")
def kernel({arguments}):
{body}
"""


def text(signature, body):
    arguments = ", ".join(f"a{k}" for k in range(len(signature.split(","))))
    return TEXT.format(signature=signature, arguments=arguments, body="\n".join(f"    {x}" for x in body.splitlines()))


def compiled(expression, *values):
    """An expression over the elements t0, t1, ... of arrays, and what NumPy and Python say of it."""
    out = "float64[::1]" if "f8" in expression else "float32[::1]"
    types = [out, *(f"{'boolean' if v.dtype == bool else v.dtype.name}[::1]" for v in values)]
    body = [f"for i in range({len(values[0])}):", *(f"    t{k} = a{k + 1}[i]" for k in range(len(values)))]
    kernel = jit.machine_code(text(", ".join(types), "\n".join([*body, f"    a0[i] = {expression}"])))
    assert isinstance(kernel, Kernel), "it is plain Python"
    result = np.zeros(len(values[0]), out.partition("[")[0])
    kernel(result, *values)
    return result


FLOATS = np.array([-2.5, -0.0, 0.0, 1.0, 3.75, np.inf, np.nan, 1e30], np.float32)
WHOLE = np.array([-7, -1, 0, 1, 2, 100, 127, -128], np.int8)
CASES = {
    "(t0 * t0) - t0 / np.float32(3)": lambda x: x * x - x / np.float32(3),
    "-t0": np.negative,
    "t0 if t0 > np.float32(1) else np.float32(0)": lambda x: np.where(x > 1, x, np.float32(0)),
    "np.float32(t0 != t0)": lambda x: np.isnan(x).astype("f4"),
    "(t0 < np.float32(0)) | (t0 == np.float32(1))": lambda x: ((x < 0) | (x == 1)).astype("f4"),
    "not (t0 >= np.float32(0) and t0 < np.float32(np.inf))": lambda x: (~((x >= 0) & (x < np.inf))).astype("f4"),
    "np.float32(0) < t0 < np.float32(2)": lambda x: ((x > 0) & (x < 2)).astype("f4"),
    "max_f4(t0, np.float32(1))": lambda x: np.maximum(x, np.float32(1)),
    "round_float16(t0)": lambda x: round_to(x.copy(), float16),
    "round_cbfloat16(t0)": lambda x: round_to(x.copy(), cbfloat16),
    "round_bfloat16(t0)": lambda x: round_to(x.copy(), bfloat16),
}
WHOLE_CASES = {
    "np.float32(np.int8((t0 * t0)))": lambda x: (x * x).astype("f4"),
    "np.float32(np.int8((-t0)))": lambda x: (-x).astype("f4"),
    "np.float32(np.uint8(t0))": lambda x: x.astype("u1").astype("f4"),
    "np.float32(abs(t0))": lambda x: abs(x.astype("i8")).astype("f4"),
    "np.float32(min(max(t0, 0), 9))": lambda x: np.clip(x, 0, 9).astype("f4"),
    "np.float32((t0 >> 1) ^ (~t0 & 3))": lambda x: ((x.astype("i8") >> 1) ^ (~x & 3)).astype("f4"),
}


@pytest.mark.slow
@pytest.mark.parametrize("expression", CASES)
def test_expressions_over_float32_are_numpys(expression):
    with np.errstate(all="ignore"):
        expected = CASES[expression](FLOATS)
    np.testing.assert_array_equal(compiled(expression, FLOATS), expected)


@pytest.mark.slow
@pytest.mark.parametrize("expression", WHOLE_CASES)
def test_whole_numbers_wrap_as_their_type_says(expression):
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compiled(expression, WHOLE), WHOLE_CASES[expression](WHOLE))


@pytest.mark.slow
def test_truth_takes_a_byte_and_double_precision_asks_the_c_library():
    truth = np.array([True, False, True])
    np.testing.assert_array_equal(compiled("np.float32(t0) + np.float32(1)", truth), [2, 1, 2])
    x = np.linspace(-2, 2, 9)
    np.testing.assert_array_max_ulp(compiled("exp_f8(t0)", x), np.exp(x), 2)


@pytest.mark.parametrize("choice", ["first(a0, i) if i < 1 else i", "i < 1 and first(a0, i) > 1"])
def test_an_array_is_handed_on_only_where_the_condition_holds(choice):
    defined = TEXT.replace("@typed", "def first(x, i):\n    return x[i]\n\n\n@typed")
    body = f"    for i in range(3):\n        a0[0] = np.float32({choice})"
    code, _ = emit.kernel_text(defined.format(signature="float32[::1]", arguments="a0", body=body), "k")
    # The last branch before the element is read is the one that asks for the condition, and not that of the loop.
    branch = code[: code.index("load float")].rsplit("br i1", 1)[1].splitlines()[0]
    assert re.search("label %(yes|more)", branch)


@pytest.mark.slow
def test_long_sums_in_loops_with_steps_and_conditions():
    body = """\
s = np.float32(0)
for block in range(0, 10000, 4096):
    part = np.float32(0)
    for i in range(block, min(block + 4096, 10000)):
        part = sum_f4(part, a1[i])
    s = s + part
if s > np.float32(9999):
    a0[0] = s
else:
    a0[0] += np.float32(7)"""
    kernel = jit.machine_code(text("float32[::1], float32[::1]", body))
    for value, expected in ((1, 10000), (0.5, 7)):
        out = np.zeros(1, np.float32)
        kernel(out, np.full(10000, value, np.float32))
        assert out[0] == expected


CHAIN = "a0[i] = exp_f4(-exp_f4(exp_f4({}) * a1[i]))"


@pytest.mark.parametrize(
    ("steps", "element", "abreast"),
    [("5000", "a1[i]", 8), ("n", "a1[i]", 8), ("500", "a1[i]", 4), ("n", "a2[i] * a2[i + 1]", 4)],
)
def test_more_vectors_are_abreast_in_a_long_chain_over_few_elements(steps, element, abreast):
    body = f"n = np.int64(a3)\nfor i in range({steps}):\n    {CHAIN.format(element)}"
    written, _ = emit.kernel_text(text("float32[::1], float32[::1], float32[::1], int64", body), "kernel")
    assert re.findall(r"interleave.count\", i32 (\d+)", written) == [str(abreast)]


@pytest.mark.slow
def test_a_long_chain_has_the_bits_of_its_pieces():
    body = f"for i in range(np.int64(a2), np.int64(a3)):\n    {CHAIN.format('a1[i]')}"
    kernel = jit.machine_code(text("float32[::1], float32[::1], uint32, uint32", body))
    x = np.random.default_rng(0).standard_normal(5000, np.float32)
    whole, pieces = np.zeros_like(x), np.zeros_like(x)
    kernel(whole, x, 0, len(x))
    for first in range(0, len(x), 77):
        kernel(pieces, x, first, min(first + 77, len(x)))
    assert whole.tobytes() == pieces.tobytes()


@pytest.mark.slow
def test_quotients_and_rests_are_pythons_and_zero_of_a_divisor_of_zero():
    body = "for i in range(5):\n    a1[i] = a2[i] // a3[i]\n    a0[i] = a2[i] % a3[i]"
    kernel = jit.machine_code(text("int64[::1], int64[::1], int64[::1], int64[::1]", body))
    a = np.array([-7, 7, -6, 5, -(2**63)], np.int64)
    for divisor in (3, -3, 2, 0, -1):
        b, quotients, rests = np.full(5, divisor), np.zeros(5, np.int64), np.zeros(5, np.int64)
        kernel(rests, quotients, a, b)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(quotients, a // b)
            np.testing.assert_array_equal(rests, a % b)


@pytest.mark.slow
def test_loops_end_early_choose_and_count_down():
    body = """\
total = 0
for i in range(6, -1, -2):
    if i == 4 or a0[i] < 0:
        continue
    total += i
while total < 100:
    total += a0[total] if total < 3 else 50
scratch = np.empty(4, np.int64)
for k in range(4):
    scratch[k] = total
part = scratch[1:]
a0[0] = part[2]"""
    kernel = jit.machine_code(text("int64[::1]", body))
    assert isinstance(kernel, Kernel)
    values = np.array([5, 5, 5, 5, 5, 5, -1], np.int64)
    kernel(values)
    assert values[0] == 107  # 2 and 0 of the loop, 5 from the array, twice 50


@pytest.mark.parametrize(
    "body",
    [
        "a0[0] = a0[1] // a0[0]",
        "for i in range(2):\n    x = 1\n    x = a0[0]",
        "print(1)",
        "a0[0] = undefined",
        "with a0:\n    pass",
        "a0[0] = max_f4(a0[0])",
    ],
)
def test_an_error_names_the_statement_that_the_language_does_not_have(body):
    with pytest.raises(CompileError, match="does not compile") as raised:
        jit.machine_code(text("float32[::1]", body))
    statement = next(line.strip() for line in reversed(body.splitlines()) if line != "    pass")
    assert f"in line {statement_line(body, statement)}: {statement}" in str(raised.value)


def statement_line(body, statement):
    lines = text("float32[::1]", body).splitlines()
    return next(k for k, line in enumerate(lines, 1) if line.strip() == statement)


@pytest.mark.parametrize("path", sorted(jit.KERNELS_FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_every_routine_compiles(path):
    source = path.read_text(encoding="utf-8")
    names = [n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and "typed(" in decorators(n)]
    for name in names:
        kinds = emit.kernel_text(source, "k", name)[1]
        assert "phase" not in source or kinds[:3] in (("void", "int64", "int64"), ("bool", "int64", "int64"))


def decorators(function):
    return " ".join(map(ast.unparse, function.decorator_list))


@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("layer", ["rnn", "gru", "lstm"])
def test_recurrent_layers_compute_in_single_precision_while_memory_brings_what_is_next(layer, way):
    written, _ = emit.kernel_text((jit.KERNELS_FOLDER / f"{layer}_{way}.py").read_text(encoding="utf-8"), "k")
    assert "double" not in written
    # Of two arrays, in each step of a tile.
    assert written.count("call void @llvm.prefetch") + written.count('call void @"llvm.prefetch') == 2


@pytest.mark.slow
def test_a_name_may_stand_for_one_of_two_arrays():
    body = "b, c = a0[1:], a0[2:]\nd = b if a0[0] > 0 else c\nd[0] = 5"
    kernel = jit.machine_code(text("float32[::1]", body))
    for first, changed in ((1, 1), (-1, 2)):
        values = np.array([first, 0, 0], "f4")
        kernel(values)
        assert np.flatnonzero(values == 5).tolist() == [changed]


@pytest.mark.parametrize("other", ["a0[0]", "(a0[1:], a0[2:])", "np.empty(2, np.int64)"])
def test_a_choice_of_what_is_not_alike_is_not_known(other):
    with pytest.raises(Unknown):
        emit.kernel_text(text("float32[::1]", f"b = a0[1:] if a0[0] > 0 else {other}\nb[0] = 5"), "k")


@pytest.mark.slow
def test_a_kernel_takes_the_arrays_of_its_signature_only():
    kernel = jit.machine_code(text("float32[::1]", "a0[0] = np.float32(1)"))
    for wrong in ((np.zeros(1),), (np.zeros((4, 4), "f4").T,), (), (np.zeros(1, "f4"),) * 2):
        with pytest.raises(TypeError, match="a kernel"):
            kernel(*wrong)


@pytest.mark.slow
def test_parts_of_a_kernel_share_their_arrays_and_differ_in_their_numbers():
    body = "for i in range(a0, a1):\n    a3[i] = a2[i] + np.float32(1)"
    kernel = jit.machine_code(text("int64, int64, float32[::1], float32[::1]", body))
    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for part in kernel.bound_parts(((0, 3), (5, 8)), (a, b)):
        part()
    assert b.tolist() == [1, 2, 3, 0, 0, 6, 7, 8]
    with pytest.raises(TypeError, match="a kernel with 4 arguments got 3"):
        kernel.bound_parts(((0, 3), (5,)), (a, b))


@pytest.mark.slow
def test_a_training_step_needs_no_numba():
    script = """\
import sys, numpy as np
from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.core.dtype import float32, int64
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from lazytensor.testing import batch
x, w, labels = batch(0, Type((8, 16), float32)), batch(1, Type((16,), float32)), batch(2, Type((8,), int64))
hidden = call("gelu", call("layer_norm", x, w, w, eps=1e-5), approximate="tanh")
loss = call("result", call("softmax_cross_entropy", hidden, labels), index=0)
rng = np.random.default_rng(0)
values = rng.standard_normal((8, 16), "f4"), rng.standard_normal(16, "f4"), np.zeros(8, "i8")
compiled = compile_graph(Graph((x, w, labels), {}, (loss,), {}), HOST)
(result,) = HostBackend().compile(compiled, Store()).step(values)
assert np.isfinite(result).all() and "llvmlite" in sys.modules and "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
