"""Causal products: which are known to be, values as without that, the same bits for any threads."""

import math

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import config
from lazytensor.compiler.pipeline import HOST, UNLOWERED, Compilation, compile_graph
from lazytensor.kernels.kernel import KNOWN
from lazytensor.kernels.panel_products import LEFT, RESULT
from lazytensor.runtime import blas
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store

attention = lt.nn.functional.scaled_dot_product_attention


def trained(q, k, v):
    for t in (q, k, v):
        t.requires_grad_(True)
    y = attention(q, k, v, is_causal=True)
    (y * y).sum().backward()
    return y, q.grad, k.grad, v.grad


def drawn(count, *shape):
    return np.random.default_rng(count).standard_normal((count, *shape), "f4")


def run(program, arrays, threads=2):
    with config.override(threads=threads):
        return [np.array(r) for r in HostBackend().compile(program, Store()).step(list(arrays))]


def known(program):
    return sorted(i.attrs.get(KNOWN, 0) for i in program.instrs if i.kernel == "matmul")


@pytest.mark.parametrize("heads", [(2, 3), (1, 1)])
@pytest.mark.parametrize("length", [64, 75, 300, 420])  # of more than 256 the mask is compared, and no constant
def test_attention_that_looks_back_computes_half_and_gives_the_same(length, heads):
    arrays = drawn(3, *heads, length, 40)
    compilation = Compilation(lt.trace_graph(trained, *arrays), HOST)
    program, whole = compilation.program, compile_graph(compilation["simplify"], UNLOWERED)
    # Scores and the gradient of weights; output, and gradients of query, key and value.
    assert known(program) == [*[LEFT] * 4, *[RESULT] * 2]
    assert known(whole) == [0] * 6
    results = run(program, arrays)
    for value, other in zip(results, run(whole, arrays), strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-5)
    for threads in (1, 3):
        for value, same in zip(results, run(program, arrays, threads), strict=True):
            np.testing.assert_array_equal(value, same)


def test_nothing_is_computed_with_of_the_future():
    if not config.current().jit or not blas.has_small_kernels():
        pytest.skip("products are made by BLAS here, all of them")
    q, k, v = drawn(3, 1, 2, 96, 64)
    v[:, :, 50:] = np.nan
    (y,) = run(compile_graph(lt.trace_graph(lambda *t: attention(*t, is_causal=True), q, k, v), HOST), (q, k, v))
    assert np.isfinite(y[:, :, :48]).all()
    assert np.isnan(y[:, :, 50:]).all()


def masked(mask, other=-math.inf, dim=-1):
    def step(q, k, v):
        scores = q @ k.transpose(-1, -2)
        return lt.where(lt.tensor(mask), scores, other).softmax(dim) @ v

    return step


def capped(q, k, v):
    scores = 5 * lt.tanh(q @ k.transpose(-1, -2) / 5)
    return lt.where(lt.tensor(np.tri(64, dtype=bool)), scores, -math.inf).softmax(-1) @ v


def looked_at(q, k, v):
    scores = q @ k.transpose(-1, -2)
    return lt.where(lt.tensor(np.tri(64, dtype=bool)), scores, -math.inf).softmax(-1) @ v, scores.sum()


TRI = np.tri(64, dtype=bool)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (masked(TRI), [LEFT, RESULT]),
        (masked(np.tri(64, k=-1, dtype=bool)), [LEFT, RESULT]),
        (masked(np.tri(64, k=1, dtype=bool)), [0, 0]),  # looks at the next place too
        (masked(~TRI), [0, 0]),
        (masked(TRI, -1e9), [0, RESULT]),  # weights that are nearly zero
        (masked(TRI, dim=-2), [0, RESULT]),
        (capped, [LEFT, RESULT]),
        (looked_at, [0, LEFT]),
        (lambda q, k, v: attention(q, k, v), [0, 0]),
    ],
)
def test_only_what_a_mask_hides_is_left_out(step, expected):
    arrays = drawn(3, 5, 64, 32)
    compilation = Compilation(lt.trace_graph(step, *arrays), HOST)
    assert known(compilation.program) == expected
    whole = run(compile_graph(compilation["simplify"], UNLOWERED), arrays)
    for value, other in zip(run(compilation.program, arrays), whole, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-4)
