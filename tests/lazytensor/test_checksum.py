"""Checksums by the processor's own product are those of zlib, and pieces written by one call lie where they belong."""

import os
import resource
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.native import checksum, machine
from lazytensor.native.scattered import write_pieces

pytestmark = pytest.mark.skipif(os.environ.get("LT_JIT") == "0", reason="no machine code")


@pytest.fixture(params=["widest", "narrow"])
def fold(request, monkeypatch):
    """The function for the widest vectors of this processor, and that for the narrow ones that most have."""
    known = machine.has_features
    if request.param == "narrow":
        monkeypatch.setattr(machine, "has_features", lambda *names: "avx512f" not in names and known(*names))
    monkeypatch.setattr(checksum, "_FEW_BYTES", 0)
    checksum._fold.cache_clear()
    yield
    checksum._fold.cache_clear()


@pytest.mark.parametrize("before", [0, 1, 0xDEADBEEF])
@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 4096 + 255, 100_001])
def test_any_size_has_the_checksum_of_zlib(fold, size, before):
    # One byte off any border of words.
    raw = np.random.default_rng(size).integers(0, 256, size + 1, np.uint8)[1:].data
    assert checksum.crc32(raw, before) == zlib.crc32(raw, before)


@given(st.binary(min_size=1, max_size=40), st.integers(4096, 9000), st.integers(0, 2**32 - 1))
def test_any_bytes_have_the_checksum_of_zlib(pattern, size, before):
    few, checksum._FEW_BYTES = checksum._FEW_BYTES, 0
    try:
        raw = memoryview((pattern * (size // len(pattern) + 1))[:size])
        assert checksum.crc32(raw, before) == zlib.crc32(raw, before)
    finally:
        checksum._FEW_BYTES = few


def rows(arrays, places):
    return [(a.ctypes.data, a.nbytes, p) for a, p in zip(arrays, places, strict=True)]


def test_pieces_lie_at_their_places_and_the_first_that_does_not_fit_ends_them(tmp_path):
    arrays = [np.full(1000 + i, i + 1, np.uint8) for i in range(3)]
    places = (5000, 0, 2000)
    with open(tmp_path / "a", "wb") as file:
        count = write_pieces(file.fileno(), rows(arrays, places))
        if count == 0:
            pytest.skip("this system has no such call")
        assert count == 3
    written = (tmp_path / "a").read_bytes()
    assert all(written[p : p + a.nbytes] == a.tobytes() for a, p in zip(arrays, places, strict=True))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2500, limits[1]))
    try:
        with open(tmp_path / "b", "wb") as file:
            assert write_pieces(file.fileno(), rows(arrays, (0, 2000, 1000))) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
