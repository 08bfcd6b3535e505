"""Concatenation and writes into a part, in machine code: NumPy's numbers for every kind of element, part and stride."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.core.dtype import bool_, float32, float64, int8, int32, int64
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from lazytensor.testing import batch

KINDS = [float32, float64, int32, int64, int8, bool_]


def run(make, *arrays, dtype):
    leaves = tuple(batch(k, Type(a.shape, dtype)) for k, a in enumerate(arrays))
    program = compile_graph(Graph(leaves, {}, (make(*leaves),), {}), HOST)
    return HostBackend().compile(program, Store()).step(list(arrays))[0]


def numbers(shape, dtype, first=0):
    return (first + np.arange(int(np.prod(shape)))).reshape(shape).astype(dtype.host)


def check_concat(shapes, dim, dtype):
    arrays = [numbers(shape, dtype, 7 * k) for k, shape in enumerate(shapes)]
    result = run(lambda *xs: call("concat", *xs, dim=dim), *arrays, dtype=dtype)
    np.testing.assert_array_equal(result, np.concatenate(arrays, dim))


def check_update(shape, windows, dtype):
    base, expected = numbers(shape, dtype), numbers(shape, dtype)
    index = tuple(slice(*w) for w in windows)
    value = numbers(expected[index].shape, dtype, 5)
    starts, limits, strides = zip(*windows, strict=True)
    attrs = {"starts": starts, "limits": limits, "strides": strides}
    result = run(lambda b, v: call("slice_update", b, v, **attrs), base, value, dtype=dtype)
    expected[index] = value
    np.testing.assert_array_equal(result, expected)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.data(), st.sampled_from(KINDS), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_arrays_are_joined_along_any_dimension(data, dtype, shape):
    dim = data.draw(st.integers(0, len(shape) - 1))
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=2, max_size=3))
    check_concat([(*shape[:dim], n, *shape[dim + 1 :]) for n in lengths], dim, dtype)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.data(), st.sampled_from(KINDS), st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_any_part_is_written_over(data, dtype, shape):
    window = st.integers(0, 4).flatmap(lambda a: st.tuples(st.just(a), st.integers(a + 1, 5), st.integers(1, 3)))
    windows = [data.draw(window.map(lambda w, n=n: (min(w[0], n - 1), min(w[1], n), w[2]))) for n in shape]
    check_update(tuple(shape), [(a, max(b, a + 1), t) for a, b, t in windows], dtype)


@pytest.mark.parametrize("dtype", KINDS)
def test_large_ones_are_cut_for_threads(dtype):
    check_concat([(40, 60, 50), (40, 10, 50)], 1, dtype)
    check_update((40, 70, 50), [(3, 40, 2), (0, 70, 1), (10, 41, 3)], dtype)
