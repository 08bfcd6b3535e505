"""Bits of matrix products: the same for any number of threads, of ours and of BLAS, eager and in a compiled step."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import config
from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.core.dtype import float32
from lazytensor.ir.graph import Graph
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from lazytensor.kernels.routines import routine_of
from lazytensor.ops.products import matmul
from lazytensor.runtime import blas, jit, schedule
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from lazytensor.testing import batch

EXTENTS = st.integers(1, 520)


def drawn(*shape):
    return np.random.default_rng(shape).standard_normal(shape, "f4")


def eager(m, k, n):
    a, b, bias = lt.tensor(drawn(m, k)), lt.tensor(drawn(k, n)), lt.tensor(drawn(n))
    return [(a @ b).numpy(), lt.nn.functional.linear(a, b.t().contiguous(), bias).numpy()]


def compiled(m, k, n):
    a, b = batch(0, Type((m, k), float32)), batch(1, Type((k, n), float32))
    program = compile_graph(Graph((a, b), {}, (matmul(a, b),), {}), HOST)
    return [np.array(HostBackend().compile(program, Store()).step([drawn(m, k), drawn(k, n)])[0])]


def with_threads(threads, action):
    """What an action gives with that many threads of ours and of BLAS."""
    control = blas._control()
    if control is None:
        pytest.skip("the threads of this BLAS cannot be told")
    before = control[0]()
    try:
        control[1](threads)
        with config.override(threads=threads):
            return action()
    finally:
        control[1](before)


@settings(max_examples=8)
@given(EXTENTS, EXTENTS, EXTENTS)
@example(700, 900, 800)
@example(37, 300, 700)
def test_products_have_the_same_bits_for_any_number_of_threads(m, k, n):
    for way in (eager, compiled):
        first, *others = (with_threads(threads, lambda way=way: way(m, k, n)) for threads in (1, 2, 3))
        for other in others:
            for value, same in zip(first, other, strict=True):
                np.testing.assert_array_equal(value, same)


@settings(max_examples=5)
@given(EXTENTS, EXTENTS, EXTENTS)
def test_shared_products_are_numpys(m, k, n):
    for value, bias in zip(eager(m, k, n), (0, drawn(n)), strict=True):
        np.testing.assert_allclose(value, drawn(m, k) @ drawn(k, n) + bias, rtol=1e-4, atol=1e-3)


def of_panels(flip_a, flip_b, stack, m, n, k):
    """A product by panels with any number of threads, and what is exact; None where BLAS has it."""
    a, b = drawn(*stack, *((k, m) if flip_a else (m, k))), drawn(*stack, *((n, k) if flip_b else (k, n)))
    out = np.full((*stack, m, n), np.nan, "f4")
    flips = {"transpose_a": flip_a, "transpose_b": flip_b}
    routine = routine_of(
        Instr("matmul", (), (), flips), *(tuple(Type(x.shape, float32) for x in s) for s in ((out,), (a, b)))
    )
    if routine is None:
        return None
    arguments = jit.load_routine(routine), routine, tuple(x.reshape(-1) for x in (a, b, out))

    def value():
        for step in schedule.chains(schedule.routine(*arguments))[0]:
            step()
        return out.copy()

    wide = [np.swapaxes(x, -1, -2) if flip else x for x, flip in ((a.astype("f8"), flip_a), (b, flip_b))]
    return [with_threads(threads, value) for threads in (1, 2, 3)], wide[0] @ wide[1]


@pytest.mark.slow
@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("extents", [(768, 256, 256), (775, 301, 400), (1030, 317, 1000)])
def test_panels_give_products_whatever_is_left_over_at_their_edges(flip_a, flip_b, extents):
    results, exact = of_panels(flip_a, flip_b, (), *extents)
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    np.testing.assert_allclose(results[0], exact, atol=2e-6 * np.abs(exact).max(), rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("extents", [(256, 512, 256), (288, 1056, 700)])
def test_panels_are_laid_out_of_the_smaller_factor(extents):
    results, exact = of_panels(True, False, (), *extents)
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    np.testing.assert_allclose(results[0], exact, atol=2e-6 * np.abs(exact).max(), rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("extents", [(1024, 128, 128), (2048, 160, 1000), (1024, 416, 385)])
def test_strips_of_the_first_factor_are_laid_out_where_its_lines_share_a_set_of_the_cache(flip_a, extents):
    results, exact = of_panels(flip_a, False, (), *extents)
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    np.testing.assert_allclose(results[0], exact, atol=2e-6 * np.abs(exact).max(), rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("extents", [(64, 64, 32), (75, 63 + 32, 40)])
def test_panels_give_stacks_of_products(extents):
    results, exact = of_panels(False, True, (5, 7), *extents)
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    np.testing.assert_allclose(results[0], exact, atol=2e-6 * np.abs(exact).max(), rtol=0)


@pytest.mark.parametrize(
    ("flip_a", "flip_b", "stack", "extents"),
    [
        (False, True, (), (767, 256, 256)),  # too few rows to lay panels out for
        (False, False, (), (383, 256, 256)),
        (False, True, (), (800, 100, 256)),  # the last panel would be mostly empty
        (False, False, (), (1023, 128, 128)),
        (True, False, (), (1024, 300, 256)),  # terms of a row would share few sets of the cache
        (False, False, (4,), (128, 128, 64)),
    ],
)
def test_blas_makes_products_that_panels_would_not_make_faster(flip_a, flip_b, stack, extents):
    assert of_panels(flip_a, flip_b, stack, *extents) is None
