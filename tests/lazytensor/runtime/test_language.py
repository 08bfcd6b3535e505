"""The kernel language: every operation compiles, and every kernel is a function of Python with the same results."""

import inspect
import subprocess
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest

from lazytensor import config
from lazytensor.compiler.codegen import generate
from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.core import dtype as dt
from lazytensor.ir.graph import Graph
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from lazytensor.kernels import BY_NAME, convolution, pooling, recurrent
from lazytensor.kernels.routines import ROUTINES, routine_of
from lazytensor.llvm.emit import kernel_text
from lazytensor.ops import OPS, call
from lazytensor.runtime import jit
from lazytensor.testing import batch
from tests.lazytensor.ops.op_rows import ROWS, Draw

DTYPES = {"f": [dt.float32, dt.bfloat16, dt.float16, dt.cbfloat16, dt.float64], "i": [dt.int32, dt.int64, dt.int8]}


def texts(name, dtype):
    """The text of each kernel that the host compiles for an operation."""
    arrays, attrs = ROWS[name].make(Draw((3, 4, 5), dtype, 0))
    types = [Type(a.shape, dtype if a.dtype == dtype.host else dt.dtype_of_array(a)) for a in arrays]
    operands = [batch(k, t) for k, t in enumerate(types)]
    n = call(name, *operands, **attrs)
    outputs = [call("result", n, index=k) for k in range(len(n.type))] if isinstance(n.type, tuple) else [n]
    program = compile_graph(Graph(tuple(operands), {}, tuple(outputs), {}), HOST)
    for instr in program.instrs:
        outs, ins = (tuple(program.buffers[b].type for b in side) for side in (instr.writes, instr.reads))
        kernel = BY_NAME.get(instr.kernel)
        if instr.nest is not None:
            yield generate(instr.nest)
        elif kernel is not None and kernel.source is not None:
            yield kernel.source(instr.attrs, outs, ins)


# A constant is data of the program, and no kernel writes it.
@pytest.mark.parametrize("name", sorted(ROWS.keys() - {"const"}))
def test_every_operation_compiles(name):
    for dtype in (d for kind in ROWS[name].kinds for d in DTYPES.get(kind, [dt.bool_])):
        for text in texts(name, dtype):
            if text:
                llvm.parse_assembly(kernel_text(text, "kernel")[0]).verify()


def ran(kernel, routine, *arrays):
    shared, own = (np.zeros(max(n, 1) + 64, np.float32) for n in (routine.shared, routine.own))
    flat = [a.reshape(-1) for a in arrays]
    for phase, parts in enumerate(routine.parts):
        for part in range(parts):
            kernel(phase, part, routine.geometry, shared, own, *flat)


def compare(op, attrs, *ins):
    """Run a routine compiled and as plain Python; return False if the host has none for these operands."""
    expected = OPS[op].eval(*ins, **attrs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    outs = [np.zeros_like(v, order="C") for v in expected]
    types = [tuple(Type(a.shape, dt.dtype_of_array(a)) for a in side) for side in (outs, ins)]
    instr = Instr("call", (), (), {"op": op, "attrs": attrs})
    routine = routine_of(instr if op != "matmul" else Instr(op, (), (), attrs), *types)
    if routine is None:
        return False
    with config.override(jit=True):
        ran(jit.load_routine(routine), routine, *ins, *outs)
    others = [np.zeros_like(v) for v in outs]
    with config.override(jit=False), np.errstate(all="ignore"):
        ran(jit.load_routine(routine), routine, *ins, *others)
    for value, a, b in zip(expected, outs, others, strict=True):
        np.testing.assert_allclose(a, value, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)
    return True


@pytest.fixture
def small_is_enough(monkeypatch):
    monkeypatch.setattr(convolution, "LEAST_FLOPS", 0)
    monkeypatch.setattr(pooling, "LEAST_ELEMENTS", 0)
    monkeypatch.setattr(recurrent, "LEAST_FLOPS", 0)


@pytest.mark.parametrize("op", sorted(ROUTINES.keys() & ROWS.keys() - {"matmul"}))
def test_a_routine_runs_as_plain_python(op, small_is_enough):
    found = 0
    for seed in range(60):
        ins, attrs = ROWS[op].make(Draw((3, 4, 5), dt.float32, seed))
        found += compare(op, attrs, *(np.asarray(a, order="C") for a in ins))
        if found == 3:
            break
    assert found


def test_products_run_as_plain_python():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((2, 64, 33), dtype="f4") for _ in range(2))
    assert compare("matmul", {"transpose_a": False, "transpose_b": True}, a, b)


CONVOLUTIONS = {
    "Winograd": (((2, 16, 6, 7), (16, 16, 3, 3)), {"stride": (1, 1), "padding": ((1, 1), (1, 1))}),
    "strided": (((1, 3, 9, 8), (5, 3, 3, 2)), {"stride": (2, 1), "padding": ((1, 0), (0, 1))}),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_a_convolution_runs_as_plain_python(case, small_is_enough):
    shapes, attrs = CONVOLUTIONS[case]
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s, dtype="f4") for s in shapes)
    attrs = {**attrs, "dilation": (1, 1), "groups": 1}
    g = rng.standard_normal(OPS["conv"].eval(x, w, **attrs).shape, dtype="f4")
    assert compare("conv", attrs, x, w)
    assert compare("conv_input", {**attrs, "extents": x.shape[2:]}, g, w)
    assert compare("conv_weight", {**attrs, "kernel": w.shape[2:]}, x, g)


@pytest.mark.parametrize("name", ["gelu", "sin", "pow", "softmax", "reduce", "layer_norm"])
def test_a_nest_runs_as_plain_python(name):
    for text in texts(name, dt.float32):
        compiled, plain = jit.machine_code(text), jit.plain(text)
        kinds = kernel_text(text, "k")[1][1:]
        rng = np.random.default_rng(0)
        arrays = [rng.uniform(0.5, 2, 256).astype(k[:-1]) for k in kinds if k.endswith("*")]
        numbers = [0, 3][: sum(not k.endswith("*") for k in kinds)]
        others = [a.copy() for a in arrays]
        compiled(*numbers, *arrays)
        with np.errstate(all="ignore"):
            plain(*numbers, *others)
        for a, b in zip(arrays, others, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_debugger_shows_the_lines_of_a_plain_kernel():
    with config.override(jit=False):
        kernel = jit.load(jit.read_kernel("panel_product"))
    assert "def kernel" in inspect.getsource(kernel)


STEP = """
import sys
import torch
m = torch.nn.Linear(4, 3)
o = torch.optim.SGD(m.parameters(), lr=0.1)
loss = m(torch.rand(5, 4)).sin().sum()
loss.backward()
o.step()
print(float(loss), "numba" in sys.modules)
"""


@pytest.mark.process
def test_a_first_step_does_not_import_numba(tmp_path):
    (tmp_path / "script.py").write_text(STEP)
    done = subprocess.run(
        [sys.executable, "-m", "cstorch_compat", "run", str(tmp_path / "script.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == "False"
