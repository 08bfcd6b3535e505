"""Chains of steps in machine code: the products in them, bits for any number of threads, other arrays, turns."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from lazytensor import config
from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.core.dtype import bfloat16, float32, round_to
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.ops.products import matmul
from lazytensor.runtime import schedule
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from lazytensor.testing import batch
from tests.conftest import ROOT

RNG = np.random.default_rng(0)
X, W = RNG.standard_normal((520, 256), "f4"), RNG.standard_normal((256, 320), "f4") / 16
LAYOUTS = {
    "straight": lambda s: RNG.standard_normal(s, "f4"),
    "flipped": lambda s: RNG.standard_normal((*s[:-2], s[-1], s[-2]), "f4").swapaxes(-1, -2),
    "within a wider one": lambda s: RNG.standard_normal((*s[:-1], s[-1] + 3), "f4")[..., : s[-1]],
}

pytestmark = pytest.mark.skipif(not config.current().jit, reason="nothing is machine code here")


def steps():
    """A program whose batch is bound and not copied: products in parts, loops in parts, and a single loop."""
    x, w = batch(0, Type(X.shape, float32)), batch(1, Type(W.shape, float32))
    y = call("tanh", matmul(x, w))
    z = matmul(y, w, transpose_b=True)
    graph = Graph((x, w), {}, (y, call("exp", call("tanh", z)), matmul(y, y, transpose_a=True)), {})
    return HostBackend().compile(compile_graph(graph, HOST), Store())


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_products_are_numpys(left, right):
    if schedule.product(X, W, np.empty((520, 320), "f4")) is None:
        pytest.skip("this BLAS cannot be called, or not be held to one thread")
    for lead in ((), (3,), (2, 4)):
        for m, k, n in ((5, 7, 6), (1, 4, 3), (6, 1, 5), (4, 3, 1)):
            a, b = LAYOUTS[left]((*lead, m, k)), LAYOUTS[right]((*lead, k, n))
            out = np.zeros((*lead, m, n), "f4")
            product = schedule.product(a, b, out)
            assert product is not None
            schedule.Chain([schedule.Parts([product], (0, 1, 2))])()
            np.testing.assert_allclose(out, a @ b, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_products_in_tiles_are_numpys(left, right, is_small, monkeypatch):
    if schedule.product(X, W, np.empty((520, 320), "f4")) is None:
        pytest.skip("this BLAS cannot be called, or not be held to one thread")
    monkeypatch.setattr(schedule.blas, "has_small_kernels", lambda: is_small)
    for lead in ((), (2,)):
        for m, k, n in ((100, 90, 200), (33, 500, 47), (40, 3000, 90), (20, 600, 300), (5, 70, 900), (129, 64, 10)):
            a, b = LAYOUTS[left]((*lead, m, k)), LAYOUTS[right]((*lead, k, n))
            out = np.full((*lead, m, n), 7, "f4")
            product = schedule.product(a, b, out)
            assert product is not None
            schedule.Chain([schedule.Parts([product], (0, 1, 2))])()
            np.testing.assert_allclose(out, a.astype("f8") @ b.astype("f8"), atol=5e-7 * k)


@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        (X[None], np.broadcast_to(W, (2, *W.shape)), np.zeros((2, 520, 320), "f4")),
        (X.astype("f8"), W, np.zeros((520, 320), "f4")),
        (X[:, ::2], W[::2], np.zeros((520, 320), "f4")),
        (X[:0], W, np.zeros((0, 320), "f4")),
        (X, W, np.zeros((320, 520), "f4").T),
    ],
)
def test_a_product_that_blas_cannot_read_in_place_is_numpys(a, b, out):
    assert schedule.product(a, b, out) is None


def test_bits_do_not_depend_on_the_number_of_threads():
    results = []
    for threads in (1, 2, 3):
        with config.override(threads=threads):
            executable = steps()
            for _ in range(5):
                fetched = [f.copy() for f in executable.step([X, W])]
            results.append(fetched)
    np.testing.assert_allclose(results[0][0], np.tanh(X @ W), atol=1e-5)
    for other in results[1:]:
        for ours, first in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(ours, first)


def test_a_chain_reads_the_arrays_of_its_step():
    executable = steps()
    for factor in (1, 2, -1):
        np.testing.assert_allclose(executable.step([X * factor, W])[0], np.tanh(factor * X @ W), atol=1e-5)


def test_arrays_of_a_batch_may_lie_in_each_other_and_move():
    executable, memory = steps(), RNG.standard_normal(X.size + W.size, "f4") / 16
    for at_x, at_w in ((0, 7), (11, 0), (11, W.size), (0, 7)):
        x, w = memory[at_x : at_x + X.size].reshape(X.shape), memory[at_w : at_w + W.size].reshape(W.shape)
        np.testing.assert_allclose(executable.step([x, w])[0], np.tanh(x @ w), atol=1e-5)


def test_a_product_of_a_half_type_is_rounded_where_it_lies():
    x = batch(0, Type((1024, 16), bfloat16))
    graph = Graph((x,), {}, (matmul(x, x, transpose_b=True),), {})
    executable, held = HostBackend().compile(compile_graph(graph, HOST), Store()), []
    assert executable.owned
    for factor in (1, 2, 3):
        given = round_to(RNG.standard_normal((1024, 16), "f4") * factor, bfloat16)
        held.append((executable.step([given])[0], round_to(given @ given.T, bfloat16)))
    for result, expected in held:
        np.testing.assert_allclose(result, expected, rtol=1 / 128, atol=1e-5)
        np.testing.assert_array_equal(result, round_to(result, bfloat16))


def test_steps_of_two_threads_take_turns():
    results, alone = [], [f.copy() for f in steps().step([X, W])]
    executables = [steps(), steps()]

    def work(executable) -> None:
        for _ in range(4):
            fetched = executable.step([X, W])
        results.append([f.copy() for f in fetched])

    threads = [threading.Thread(target=work, args=(e,)) for e in executables]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(results) == 2
    for fetched in results:
        for ours, first in zip(fetched, alone, strict=True):
            np.testing.assert_array_equal(ours, first)


AT_REST = """
import os, sys, time
if "one core" in sys.argv:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the threads that start below are on that core too
from lazytensor import config
from tests.lazytensor.runtime.test_schedule import X, W, steps
with config.override(threads=3):
    program = steps()
    for _ in range(3):
        program.step([X, W])
ends = time.monotonic() + 30
while True:
    spent = time.process_time()
    time.sleep(0.2)
    if time.process_time() - spent < 0.02:
        break
    assert time.monotonic() < ends, "a thread still looks for work"
"""


@pytest.mark.process
@pytest.mark.parametrize("cores", ["one core", "all cores"])
def test_threads_of_a_step_use_no_core_after_it(cores):
    if not config.current().jit:
        pytest.skip("nothing is machine code here")
    done = subprocess.run([sys.executable, "-c", AT_REST, cores], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
