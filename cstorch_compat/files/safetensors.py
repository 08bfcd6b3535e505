"""Safetensors files: a JSON header with the location of each array, then the arrays.

Layout: the length of the header as 8 bytes little-endian; the header, a JSON object; the data without gaps. The header
maps each name to `{"dtype", "shape", "data_offsets"}`, with offsets from the end of the header, and `__metadata__` to a
dict of strings. The reader checks everything in the header against the size of the file.
"""

import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cstorch_compat.files.atomic_write import new_file
from cstorch_compat.files.rawfile import RawFile
from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType
from lazytensor.core.element_bytes import FILE_DTYPES
from lazytensor.core.file_array import LazyArray, report_file_errors
from lazytensor.errors import CheckpointError

MAX_HEADER_BYTES = 100_000_000  # the limit of the reference implementation
_METADATA_KEY = "__metadata__"
_CHECKSUM_PREFIX = "crc32 of "
_HEADER_LENGTH = struct.Struct("<Q")
_MAX_AXES = 64  # the limit of NumPy arrays
_DTYPES: dict[str, DType] = {
    "BOOL": dt.bool_,
    "U8": dt.uint8,
    "I8": dt.int8,
    "U16": dt.uint16,
    "I16": dt.int16,
    "I32": dt.int32,
    "I64": dt.int64,
    "F16": dt.float16,
    "BF16": dt.bfloat16,
    "F32": dt.float32,
    "F64": dt.float64,
}
# Dtypes without a tensor dtype here. They are read as NumPy arrays.
_NUMPY_ONLY_DTYPES: dict[str, np.dtype] = {"U32": np.dtype("<u4"), "U64": np.dtype("<u8"), "C64": np.dtype("<c8")}
_DTYPE_NAMES: dict[Any, str] = {d: name for name, d in _DTYPES.items()} | {
    kind: name for name, kind in _NUMPY_ONLY_DTYPES.items()
}


@dataclass(frozen=True)
class _ArrayEntry:
    """The header entry of an array: `begin` and `end` are its data offsets, `checksum` is None if the file has none."""

    key: str
    dtype: DType | None
    kind: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int
    checksum: str | None


def is_safetensors(head: bytes) -> bool:
    """Return whether a file that begins with the 9 bytes `head` may be a safetensors file."""
    # The format has no magic bytes. The shortest header is `{}`. The bound excludes text and zip files, whose first
    # eight bytes are a huge length.
    return len(head) >= 9 and head[8:9] == b"{" and 2 <= _HEADER_LENGTH.unpack_from(head)[0] <= MAX_HEADER_BYTES


def read(path: str) -> dict[str, LazyArray]:
    """Return the arrays of a file by name, in the order of its header. Values are read when they are used.

    Raises CheckpointError for a damaged file.
    """
    file = RawFile(path)
    with report_file_errors("the safetensors file cannot be read", path):
        header, start = _read_header(file)
        # Strings, such as the framework that wrote the file, and the checksums if this package wrote it.
        texts = header.pop(_METADATA_KEY, None)
        texts = texts if isinstance(texts, dict) else {}
        entries = [_parse_entry(key, said, texts.get(_CHECKSUM_PREFIX + key)) for key, said in header.items()]
        _check_data_offsets(entries, file.size - start)
    return {e.key: _make_lazy_array(file, start, e) for e in entries}


def _read_header(file: RawFile) -> tuple[dict[str, Any], int]:
    """Return the header and the offset of the data. Raises CheckpointError if the header is invalid."""
    head = file.head(_HEADER_LENGTH.size)
    if len(head) < _HEADER_LENGTH.size:
        raise CheckpointError(f"{file.size} bytes are too few for a header")
    (length,) = _HEADER_LENGTH.unpack(head)
    # Check the length before reading the header.
    if length > min(MAX_HEADER_BYTES, file.size - _HEADER_LENGTH.size):
        raise CheckpointError(
            f"its header of {length} bytes extends beyond the end of the file, or exceeds {MAX_HEADER_BYTES:,} bytes"
        )
    text = file.head(_HEADER_LENGTH.size + length)[_HEADER_LENGTH.size :].decode()
    # Python's json keeps the last of two equal names. The format forbids them, because readers differ.
    header = json.loads(text, object_pairs_hook=_require_unique_names)
    # JSON allows whitespace before the object, the format does not.
    if not text.startswith("{") or not isinstance(header, dict):
        raise CheckpointError("its header is not a JSON object")
    return header, _HEADER_LENGTH.size + length


def _require_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object as a dict. Raises CheckpointError if a name occurs twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise CheckpointError("its header contains a name twice")
    return members


def _parse_entry(key: str, said: Any, checksum: Any) -> _ArrayEntry:
    """Return the entry `said` of a header, for the array `key` with this `checksum`, as an _ArrayEntry.

    Raises CheckpointError unless it has exactly dtype, shape and data offsets that are valid and agree in size.
    """
    # Require exactly these fields: an unknown one could change the meaning of the bytes.
    if not isinstance(said, dict) or said.keys() != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"the entry of {key!r} must have exactly dtype, shape and data_offsets")
    name, shape, offsets = said["dtype"], said["shape"], said["data_offsets"]
    if not _are_sizes(shape) or len(shape) > _MAX_AXES or not _are_sizes(offsets) or len(offsets) != 2:
        raise CheckpointError(f"{key!r} has the invalid shape {shape!r:.100} or offsets {offsets!r:.100}")
    if not isinstance(name, str) or (name not in _DTYPES and name not in _NUMPY_ONLY_DTYPES):
        raise CheckpointError(
            f"{key!r} has the unknown dtype {name!r:.100}", hint=f"Use one of {', '.join(_DTYPE_NAMES.values())}."
        )
    dtype = _DTYPES.get(name)
    kind = _NUMPY_ONLY_DTYPES[name] if dtype is None else FILE_DTYPES[dtype]
    begin, end = offsets
    if end - begin != math.prod(shape) * kind.itemsize:
        raise CheckpointError(f"{key!r} has {end - begin} bytes, which does not match {name}{shape}")
    return _ArrayEntry(key=key, dtype=dtype, kind=kind, shape=tuple(shape), begin=begin, end=end, checksum=checksum)


def _are_sizes(values: Any) -> bool:
    """Return whether `values` is a list of ints from 0 to 2**63 - 1."""
    # Compare exact types, because True is an int. The bound keeps products of sizes small.
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in values)


def _check_data_offsets(entries: list[_ArrayEntry], size: int) -> None:
    """Raise CheckpointError unless the arrays cover `size` bytes of data without overlap and gap."""
    at = 0
    # Sort by both ends, so that an empty array precedes one that begins at the same byte.
    for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
        if entry.begin != at:
            raise CheckpointError(f"{entry.key!r} begins at byte {entry.begin} of the data instead of {at}")
        at = entry.end
    if at != size:
        raise CheckpointError(f"its arrays need {at} bytes of data, but the file has {size}")


def _make_lazy_array(file: RawFile, start: int, e: _ArrayEntry) -> LazyArray:
    """Return the LazyArray of a header entry. `start` is the offset of the data."""
    load = partial(_load, file, start + e.begin, e)
    return LazyArray(
        key=e.key,
        shape=e.shape,
        dtype=e.dtype,
        kind=e.kind,
        is_tensor=e.dtype is not None,
        where=file.path,
        load=load,
        is_checked=e.checksum is not None,
    )


def _load(file: RawFile, offset: int, entry: _ArrayEntry) -> np.ndarray:
    """Read an array and verify its checksum, if there is one. Raises CheckpointError if it does not match."""
    array = np.empty(entry.shape, entry.kind)
    raw = array.reshape(-1).view(np.uint8)
    file.fetch(offset, raw)
    if entry.checksum is not None and entry.checksum != _compute_checksum(
        _DTYPE_NAMES[entry.dtype or entry.kind], entry.shape, raw
    ):
        raise CheckpointError(
            "damaged: the checksum of its bytes, dtype and shape does not match",
            hint="Restore the file from a copy, or save the checkpoint again.",
        )
    return array


def _compute_checksum(name: str, shape: tuple[int, ...], raw: np.ndarray) -> str:
    """Return the CRC-32 of dtype name, shape and bytes of an array, as text."""
    # Include dtype and shape, because a flipped bit in the header can turn floats into integers.
    return f"{zlib.crc32(raw.data, zlib.crc32(f'{name}{list(shape)}'.encode())):08x}"


def write(path: str, arrays: Mapping[str, LazyArray], *, replace: bool = False) -> None:
    """Write a new file, one array after another, with checksums. The arrays are sorted by decreasing element size.

    An existing file is replaced only if `replace`. Raises CheckpointError for a dtype that the format does not have,
    for the name "__metadata__", and if writing fails. Raises CheckpointExists if `path` exists and `replace` is False,
    and CheckpointMissing if its directory does not exist.
    """
    # Hugging Face's loader requires the entry "format". The checksums are known only after the arrays are written, so
    # the header is written again at the end, with the same length.
    texts = {"format": "pt", **{_CHECKSUM_PREFIX + key: "0" * 8 for key in arrays}}
    header: dict[str, Any] = {_METADATA_KEY: texts}
    header |= {key: {"dtype": _find_dtype_name(key, a), "shape": list(a.shape)} for key, a in arrays.items()}
    # The sort is stable: arrays with the same element size stay in the order of the dict.
    order = sorted(arrays, key=lambda key: -arrays[key].kind.itemsize)  # aligns every array
    at = 0
    for key in order:
        header[key]["data_offsets"] = [at, at + arrays[key].nbytes]
        at += arrays[key].nbytes
    with new_file(path, replace) as temporary, open(temporary, "xb") as stream:
        stream.write(_encode_header(header))
        for key in order:
            raw = arrays[key].stored().reshape(-1).view(np.uint8)
            texts[_CHECKSUM_PREFIX + key] = _compute_checksum(header[key]["dtype"], arrays[key].shape, raw)
            stream.write(raw.data)
        stream.seek(0)
        stream.write(_encode_header(header))


def _encode_header(header: Mapping[str, Any]) -> bytes:
    """Return the bytes before the data: length and header, padded to a multiple of 8 bytes."""
    text = json.dumps(header, separators=(",", ":")).encode()
    # The format allows spaces after the object. They align the data to eight bytes.
    text += b" " * (-len(text) % 8)
    return _HEADER_LENGTH.pack(len(text)) + text


def _find_dtype_name(key: str, a: LazyArray) -> str:
    """Return the safetensors name of an array's dtype.

    Raises CheckpointError if there is none, or for the name of the metadata.
    """
    # The entry of the array would be read as the metadata.
    if key == _METADATA_KEY:
        raise CheckpointError(
            f"an array cannot have the name {_METADATA_KEY!r} in a safetensors file", hint="Rename it."
        )
    name = _DTYPE_NAMES.get(a.dtype or a.kind.newbyteorder("<"))
    if name is None:
        raise CheckpointError(
            f"{key!r} has the dtype {a.dtype or a.kind}, which safetensors does not support",
            hint=f"Convert the values to one of {', '.join(_DTYPE_NAMES.values())}, or leave the array out.",
        )
    return name
