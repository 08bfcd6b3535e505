"""Memory for arrays that are made together: each has its own part of a block, whoever asks for it."""

import errno
import itertools
import mmap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor.runtime import aligned
from lazytensor.runtime.aligned import ALIGNMENT, LARGE_PAGE, Rooms, zeros_in_large_pages

SHAPES = st.lists(
    st.tuples(
        st.one_of(st.just(()), st.tuples(st.integers(0, 600)), st.tuples(st.integers(1, 40), st.integers(1, 40))),
        st.sampled_from(["u1", "<i2", ">f4", "f8"]),
    ),
    max_size=30,
)


def span(array):
    start = array.ctypes.data
    return start, start + array.nbytes


@settings(deadline=None)
@given(shapes=SHAPES, block=st.sampled_from([1 << 11, 1 << 13, 1 << 23]), small=st.sampled_from([0, 256, 1 << 11]))
def test_arrays_share_blocks_and_no_byte(shapes, block, small):
    rooms = Rooms()
    rooms.BLOCK_BYTES, rooms.SMALL_BYTES = block, min(block, small)
    arrays = [rooms.empty(shape, kind) for shape, kind in shapes]
    assert [(array.shape, array.dtype) for array in arrays] == [(s, np.dtype(k)) for s, k in shapes]
    spans = sorted(span(array) for array in arrays if array.size)
    assert all(start % ALIGNMENT == 0 for start, _ in spans)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    for n, array in enumerate(arrays):
        array[...] = n
    assert all((array == n).all() for n, array in enumerate(arrays))


def test_small_arrays_of_a_block_lie_side_by_side_and_a_large_one_alone():
    rooms = Rooms()
    one, large, two = (rooms.empty((size,), "u1") for size in (100, Rooms.SMALL_BYTES + 1, 100))
    assert span(two)[0] - span(one)[0] == 2 * ALIGNMENT
    assert not np.shares_memory(large, one.base)


@pytest.mark.parametrize("missing", ["", "large pages", "room"])
@pytest.mark.parametrize("size", [1, LARGE_PAGE // 2 - 1, LARGE_PAGE // 2, LARGE_PAGE, 3 * LARGE_PAGE + 1])
def test_memory_is_zero_and_aligned_on_systems_with_large_pages_and_without(size, missing, monkeypatch):
    class Refusing(mmap.mmap):
        def madvise(self, *arguments):
            raise OSError(errno.EINVAL, "no large pages")

    def full(*arguments, **options):
        raise OSError(errno.ENOMEM, "no room")

    if missing:
        monkeypatch.setattr(aligned.mmap, "mmap", Refusing if missing == "large pages" else full)
    block = zeros_in_large_pages(size)
    assert size <= block.nbytes < size + LARGE_PAGE
    assert block.ctypes.data % ALIGNMENT == 0
    assert not block.any()
    block[:] = 1
    assert block.all()


def test_threads_are_given_different_parts():
    rooms = Rooms()
    with ThreadPoolExecutor(4) as threads:
        arrays = list(threads.map(lambda n: rooms.empty((64 + n % 7,), "f4"), range(4000)))
    spans = sorted(map(span, arrays))
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
