"""Bits of matrix products: the same for any number of threads, of ours and of BLAS, eager and in a compiled step."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import config
from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.dtype import float32
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops.products import matmul
from lazytensor.runtime import blas
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.store import Store
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
