"""Loops over the same rows: equal bits for any number of threads, and the values of each loop alone."""

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import config
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store

ROWS, COLUMNS = 1030, 600  # no whole number of blocks, and too much for a cache
RNG = np.random.default_rng(0)
X = RNG.standard_normal((ROWS, COLUMNS), "f4")

pytestmark = pytest.mark.skipif(not config.current().jit, reason="nothing is machine code here")


def normed(x):
    s = x.softmax(-1)
    centred = s - s.mean(-1, keepdim=True)
    return (centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * x).sum(-1)


def neighbours(x):
    s = x.softmax(-1)
    return (s[1:] * s[:-1]).sum(-1), s.sum(0)


def kept(x):
    s = x.softmax(-1)
    return s, (s - s.mean(-1, keepdim=True)).square().sum(-1)


def halves(x):
    s = x.softmax(-1)
    half = s[:, : COLUMNS // 2] * s[:, COLUMNS // 2 :]
    return (half - half.mean(-1, keepdim=True)).abs().sum(-1)


FUNCTIONS = (normed, neighbours, kept, halves)


def executable(function):
    return HostBackend().compile(lt.trace(function, lt.tensor(X)), Store())


def results(function, *batches):
    compiled = executable(function)
    return [[f.copy() for f in compiled.step([b])] for b in batches]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_loops_over_rows_have_equal_bits_for_any_threads_and_the_values_of_each_loop_alone(function):
    batches = [X, X[::-1].copy(), X]
    with config.override(jit=False):
        expected = results(function, *batches)
    first = None
    for threads in (1, 2, 3):
        with config.override(threads=threads):
            ours = results(function, *batches)
        first = first or ours
        for fetched, same, plain in zip(ours, first, expected, strict=True):
            for a, b, c in zip(fetched, same, plain, strict=True):
                np.testing.assert_array_equal(a, b)
                np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-5)
