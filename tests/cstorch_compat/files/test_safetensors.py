"""Safetensors files: what the reader accepts, and that nothing else gets past it as anything but our error."""

import json
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from cstorch_compat.files import safetensors
from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.errors import CheckpointError

cstorch = get_mirror("cerebras.pytorch")


DATA = np.array([1.5, -2.0], "<f4").tobytes() + b"\x80\x3f\x01\x00"
HEADER = {
    "__metadata__": {"format": "pt"},
    "b": {"dtype": "BF16", "shape": [], "data_offsets": [8, 10]},
    "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
    "t": {"dtype": "BOOL", "shape": [2], "data_offsets": [10, 12]},
    "e": {"dtype": "I64", "shape": [0, 3], "data_offsets": [12, 12]},
}


def packed(header, data=DATA, length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def put(directory, content):
    path = Path(directory) / "x.safetensors"
    path.write_bytes(content)
    return str(path)


def test_arrays_come_in_the_order_of_the_header_with_their_types(tmp_path):
    found = safetensors.read(put(tmp_path, packed(HEADER)))
    assert [(key, a.dtype, a.shape) for key, a in found.items()] == [
        ("b", lt.bfloat16, ()),
        ("a", lt.float32, (2, 1)),
        ("t", lt.bool_, (2,)),
        ("e", lt.int64, (0, 3)),
    ]
    assert [a.read().tolist() for a in found.values()] == [1.0, [[1.5], [-2.0]], [True, False], []]


def test_loaded_tensors_are_read_late_and_where_the_caller_says(tmp_path):
    path = put(tmp_path, packed(HEADER))
    loaded = cstorch.load(path)
    Path(path).unlink()
    assert {type(t).__name__ for t in loaded.values()} == {"DeferredSafeTensor"}
    loaded["a"] += 1
    assert loaded["a"].tolist() == [[2.5], [-1.0]] and loaded["b"].item() == 1
    path = put(tmp_path, packed(HEADER))
    assert cstorch.load(path)["a"].tolist() == [[1.5], [-2.0]]
    assert cstorch.load(path, map_location="meta")["a"].device == lt.Device("meta")
    for location in ("cuda", 3):
        with pytest.raises((RuntimeError, TypeError)):
            cstorch.load(path, map_location=location)


def test_damage_after_opening_names_the_tensor_and_the_file(tmp_path):
    path = put(tmp_path, packed(HEADER))
    lazy = safetensors.read(path)["a"]
    Path(path).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"x\.safetensors: 'a' cannot be read: .*shorter"):
        lazy.read()


def entry(**changes):
    return {**HEADER, "a": {**HEADER["a"], **changes}}


REFUSED = {
    "no header": (b"\x05\0\0", "too few"),
    "long header": (packed(HEADER, length=1 << 62), "extends beyond the end"),
    "no json": (packed(b"{nonsense"), "cannot be read"),
    "no text": (packed(b"{\xff\xfe}"), "cannot be read"),
    "no object": (packed(b"[1]     "), "not a JSON object"),
    "space first": (packed(b" " + json.dumps(HEADER).encode()), "not a JSON object"),
    "deep": (packed(b'{"a":' * 100000), "cannot be read"),
    "twice": (packed(b'{"a":1,"a":2}'), "contains a name twice"),
    "no entry": (packed({"a": 3}), "the entry of 'a' must have exactly"),
    "more": (packed(entry(more=1)), "the entry of 'a' must have exactly"),
    "type": (packed(entry(dtype="F8_E4M3")), "'a' has the unknown dtype 'F8_E4M3'"),
    "type list": (packed(entry(dtype=[])), r"'a' has the unknown dtype \[\]"),
    "negative": (packed(entry(shape=[-2, -1])), "'a' has the invalid shape"),
    "true": (packed(entry(shape=[2, True])), "'a' has the invalid shape"),
    "many axes": (packed(entry(shape=[1] * 99 + [2])), "'a' has the invalid shape"),
    "huge": (packed(entry(shape=[1 << 62, 1 << 62])), "'a' has 8 bytes, which does not match"),
    "other shape": (packed(entry(shape=[3])), "'a' has 8 bytes, which does not match"),
    "backward": (packed(entry(data_offsets=[8, 0])), "'a' has -8 bytes"),
    "overlap": (packed(entry(data_offsets=[1, 9])), "begins at byte"),
    "gap": (packed(HEADER | {"b": {**HEADER["b"], "data_offsets": [9, 11]}}), "begins at byte"),
    "cut": (packed(HEADER, DATA[:-1]), "need 12 bytes of data, but the file has 11"),
    "trailing": (packed(HEADER, DATA + b"x"), "need 12 bytes of data, but the file has 13"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_header_is_refused_with_the_file(name, tmp_path):
    content, words = REFUSED[name]
    with pytest.raises(CheckpointError, match=rf"x\.safetensors: .*{words}") as caught:
        safetensors.read(put(tmp_path, content))
    assert caught.value.hint


GOOD = packed(HEADER)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=4), st.integers(0, len(GOOD)))
def test_no_change_of_bytes_gives_anything_but_values_or_our_error(changes, size):
    raw = bytearray(GOOD)
    for at, byte in changes:
        raw[at] = byte
    with tempfile.TemporaryDirectory() as directory:
        path = put(directory, bytes(raw[: size if size % 3 else None]))
        try:
            for lazy in safetensors.read(path).values():
                assert lazy.read().shape == lazy.shape
        except CheckpointError:
            pass


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["F32", "BOOL"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.fixed_dictionaries({"dtype": inner, "shape": inner, "data_offsets": inner})
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=3), values, max_size=3) | values)
def test_no_json_gives_anything_but_values_or_our_error(header):
    with tempfile.TemporaryDirectory() as directory:
        path = put(directory, packed(header))
        try:
            for lazy in safetensors.read(path).values():
                lazy.read()
        except CheckpointError:
            pass
