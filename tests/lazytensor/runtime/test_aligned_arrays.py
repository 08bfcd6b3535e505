"""Arrays of state and of steps begin at a cache line."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor.ir.types import StateId
from lazytensor.runtime.aligned_arrays import BlockAllocator, aligned, aligned_zeros
from lazytensor.runtime.state_store import Store

CACHE_LINE_BYTES = 64
SHAPES = st.lists(st.integers(0, 40), max_size=3).map(tuple)
TYPES = st.sampled_from(["u1", "<i2", ">f4", "f8"])


@given(shape=SHAPES, kind=TYPES)
def test_arrays_begin_at_a_cache_line(shape, kind):
    array = aligned(shape, kind)
    assert (array.shape, array.dtype) == (shape, np.dtype(kind))
    assert not array.size or array.ctypes.data % CACHE_LINE_BYTES == 0


@given(size=st.integers(1, 100_000))
def test_memory_of_steps_is_zero_and_begins_at_a_cache_line(size):
    block = aligned_zeros(size)
    assert block.nbytes == size and not block.any() and block.ctypes.data % CACHE_LINE_BYTES == 0


def _spans(arrays):
    return sorted((a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays if a.size)


@settings(deadline=None)
@given(shapes=st.lists(st.tuples(SHAPES, TYPES), max_size=30))
def test_arrays_of_an_allocator_begin_at_a_cache_line_and_share_no_byte(shapes):
    allocator = BlockAllocator()
    arrays = [allocator.empty(shape, kind) for shape, kind in shapes]
    assert [(a.shape, a.dtype) for a in arrays] == [(shape, np.dtype(kind)) for shape, kind in shapes]
    spans = _spans(arrays)
    assert all(start % CACHE_LINE_BYTES == 0 for start, _ in spans)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_threads_get_different_parts_of_many_blocks():
    allocator = BlockAllocator()
    with ThreadPoolExecutor(4) as threads:
        arrays = list(threads.map(lambda n: allocator.empty((16_384 + n % 7,), "f4"), range(400)))
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(_spans(arrays)))


def test_state_shares_no_byte():
    store, array = Store(), np.arange(5, dtype=np.float32)
    one, two = (store.add(StateId(name), array) for name in ("one", "two"))
    assert not np.shares_memory(one, two) and not np.shares_memory(one, array)
