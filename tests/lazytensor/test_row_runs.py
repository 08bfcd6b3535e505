"""Runs of loops over the same rows: the bits of each loop alone, for any threads, and only where rows stay apart."""

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import config
from lazytensor.runtime import row_runs
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.store import Store

ROWS, COLUMNS = 1030, 600  # more than LEAST_BYTES, and no whole number of blocks
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
def test_a_run_has_the_bits_of_its_loops_for_any_threads(function, monkeypatch):
    batches = [X, X[::-1].copy(), X]
    with monkeypatch.context() as alone:
        alone.setattr(row_runs, "LEAST_BYTES", 1 << 40)
        expected = results(function, *batches)
    for threads in (1, 2, 3):
        with config.override(threads=threads):
            for ours, others in zip(results(function, *batches), expected, strict=True):
                for a, b in zip(ours, others, strict=True):
                    np.testing.assert_array_equal(a, b)


def test_what_is_handed_on_within_rows_is_one_run():
    (run,) = row_runs.runs_of(lt.trace(normed, lt.tensor(X)))
    assert len(run.loops) >= 5
    assert len(run.scratch) >= 3
    assert len(executable(normed)._steps) == 1


def test_neighbouring_rows_and_results_are_in_no_scratch():
    for function in (neighbours, kept):
        program = lt.trace(function, lt.tensor(X))
        for run in row_runs.runs_of(program):
            assert all(program.buffers[b].type.shape != (ROWS, COLUMNS) for b in run.scratch)


def test_small_rows_are_no_run():
    assert row_runs.runs_of(lt.trace(normed, lt.ones(64, 64))) == []


def test_what_comes_from_memory_is_asked_for_once_for_the_next_block_wherever_the_batch_lies():
    compiled = executable(normed)
    (step,) = compiled._steps
    for batch in (X, X.copy()):
        compiled.step([batch])
        ends = []
        for call in step.calls:
            *_, first, row_bytes = call.held[0]
            rows, _, _, _, streams = call.held[0][1:6]
            assert (streams, row_bytes) == (1, X.strides[0])
            ends += [first, first + rows * row_bytes]
        # Part behind part, from the first row of the batch to the last.
        assert ends[0] == batch.ctypes.data
        assert ends[1:-1:2] == ends[2::2]
        assert ends[-1] == batch.ctypes.data + batch.nbytes
