"""Safetensors files: a JSON header that says where each array is, then the arrays.

Layout: 8 bytes little-endian length of the header; the header, one JSON object of `{"dtype", "shape", "data_offsets"}`
by name, offsets counted from its end, and `__metadata__` of texts; the data without gaps. Nothing that the header says
is believed before it was compared with the size of the file.
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

MAX_HEADER_BYTES = 100_000_000  # what the reference implementation reads
_METADATA_KEY = "__metadata__"
_CHECKSUM_PREFIX = "crc32 of "
_HEADER_LENGTH = struct.Struct("<Q")
_MAX_AXES = 64  # of a NumPy array
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
# Numbers for which there is no tensor type here: NumPy arrays.
_NUMPY_ONLY_DTYPES: dict[str, np.dtype] = {"U32": np.dtype("<u4"), "U64": np.dtype("<u8"), "C64": np.dtype("<c8")}
_DTYPE_NAMES: dict[Any, str] = {d: name for name, d in _DTYPES.items()} | {
    kind: name for name, kind in _NUMPY_ONLY_DTYPES.items()
}


@dataclass(frozen=True)
class _ArrayEntry:
    """One array of a header that was checked by itself."""

    key: str
    dtype: DType | None
    kind: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int
    checksum: str | None


def is_safetensors(head: bytes) -> bool:
    """Whether a file that begins with these 9 bytes may be one."""
    # There is no magic. Two bytes, `{}`, are the shortest header; the bound keeps text and zip files out, whose
    # first eight bytes read as an enormous length.
    return len(head) >= 9 and head[8:9] == b"{" and 2 <= _HEADER_LENGTH.unpack_from(head)[0] <= MAX_HEADER_BYTES


def read(path: str) -> dict[str, LazyArray]:
    """The arrays of a file by name, in the order of its header. Raises CheckpointError for a damaged file."""
    file = RawFile(path)
    with report_file_errors("the safetensors file cannot be read", path):
        header, start = _read_header(file)
        # Texts, such as which framework wrote the file, and checksums where they were written here.
        texts = header.pop(_METADATA_KEY, None)
        texts = texts if isinstance(texts, dict) else {}
        entries = [_parse_entry(key, said, texts.get(_CHECKSUM_PREFIX + key)) for key, said in header.items()]
        _check_data_offsets(entries, file.size - start)
    return {e.key: _make_lazy_array(file, start, e) for e in entries}


def _read_header(file: RawFile) -> tuple[dict[str, Any], int]:
    head = file.head(_HEADER_LENGTH.size)
    if len(head) < _HEADER_LENGTH.size:
        raise CheckpointError(f"{file.size} bytes are too few for a header")
    (length,) = _HEADER_LENGTH.unpack(head)
    # Compared before reading: the length is whatever eight bytes say.
    if length > min(MAX_HEADER_BYTES, file.size - _HEADER_LENGTH.size):
        raise CheckpointError(
            f"its header of {length} bytes passes the end of the file, or is longer than any real one"
        )
    text = file.head(_HEADER_LENGTH.size + length)[_HEADER_LENGTH.size :].decode()
    # Python keeps the last of two equal names; the format forbids them, because readers then disagree on which one
    # counts.
    header = json.loads(text, object_pairs_hook=_require_unique_names)
    # JSON allows blanks before the object, the format does not.
    if not text.startswith("{") or not isinstance(header, dict):
        raise CheckpointError("its header is not a JSON object")
    return header, _HEADER_LENGTH.size + length


def _require_unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise CheckpointError("a name stands twice in its header")
    return members


def _parse_entry(key: str, said: Any, checksum: Any) -> _ArrayEntry:
    # Exactly these three: a field that is not known could change what the bytes mean.
    if not isinstance(said, dict) or said.keys() != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"{key!r} is not described by dtype, shape and data_offsets")
    name, shape, offsets = said["dtype"], said["shape"], said["data_offsets"]
    if not _are_sizes(shape) or len(shape) > _MAX_AXES or not _are_sizes(offsets) or len(offsets) != 2:
        raise CheckpointError(f"{key!r} has the shape {shape!r:.100} and the offsets {offsets!r:.100}")
    if not isinstance(name, str) or (name not in _DTYPES and name not in _NUMPY_ONLY_DTYPES):
        raise CheckpointError(
            f"{key!r} is of the type {name!r:.100}", hint=f"Known are {', '.join(_DTYPE_NAMES.values())}."
        )
    dtype = _DTYPES.get(name)
    kind = _NUMPY_ONLY_DTYPES[name] if dtype is None else FILE_DTYPES[dtype]
    begin, end = offsets
    if end - begin != math.prod(shape) * kind.itemsize:
        raise CheckpointError(f"{key!r} has {end - begin} bytes for {name}{shape}")
    return _ArrayEntry(key=key, dtype=dtype, kind=kind, shape=tuple(shape), begin=begin, end=end, checksum=checksum)


def _are_sizes(values: Any) -> bool:
    # By exact type, as True is an int; bounded, so that products of sizes stay cheap numbers.
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in values)


def _check_data_offsets(entries: list[_ArrayEntry], size: int) -> None:
    """The arrays have to follow each other from the first byte to the last: no overlap, no gap."""
    at = 0
    # Ordered by both ends, so that an empty array goes before the one that begins at the same byte.
    for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
        if entry.begin != at:
            raise CheckpointError(f"{entry.key!r} begins at byte {entry.begin} of the data instead of {at}")
        at = entry.end
    if at != size:
        raise CheckpointError(f"its arrays take {at} bytes, and the file has {size}")


def _make_lazy_array(file: RawFile, start: int, e: _ArrayEntry) -> LazyArray:
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
    array = np.empty(entry.shape, entry.kind)
    raw = array.reshape(-1).view(np.uint8)
    file.fetch(offset, raw)
    if entry.checksum is not None and entry.checksum != _compute_checksum(
        _DTYPE_NAMES[entry.dtype or entry.kind], entry.shape, raw
    ):
        raise CheckpointError("damaged: its bytes or its type have another checksum than when they were written")
    return array


def _compute_checksum(name: str, shape: tuple[int, ...], raw: np.ndarray) -> str:
    # With type and shape: a flipped bit in the header can make integers of floats.
    return f"{zlib.crc32(raw.data, zlib.crc32(f'{name}{list(shape)}'.encode())):08x}"


def write(path: str, arrays: Mapping[str, LazyArray], *, replace: bool = False) -> None:
    """Write a new file, one array after another. Raises CheckpointError for names and types that it cannot hold."""
    # Hugging Face's loader asks for this entry and refuses files that lack it.
    # Checksums are known when the arrays are, behind the header: it is written again then, as long as before.
    texts = {"format": "pt", **{_CHECKSUM_PREFIX + key: "0" * 8 for key in arrays}}
    header: dict[str, Any] = {_METADATA_KEY: texts}
    header |= {key: {"dtype": _find_dtype_name(key, a), "shape": list(a.shape)} for key, a in arrays.items()}
    # The sort is stable: within a width the arrays stay in the order of the dict.
    order = sorted(arrays, key=lambda key: -arrays[key].kind.itemsize)  # so that every array is aligned
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
    """The head of a file."""
    text = json.dumps(header, separators=(",", ":")).encode()
    # Blanks are allowed after the object, and eight bytes align the data that follows.
    text += b" " * (-len(text) % 8)
    return _HEADER_LENGTH.pack(len(text)) + text


def _find_dtype_name(key: str, a: LazyArray) -> str:
    # Its entry in the header would be read as the texts.
    if key == _METADATA_KEY:
        raise CheckpointError(f"an array cannot be called {_METADATA_KEY!r} in a safetensors file", hint="Rename it.")
    name = _DTYPE_NAMES.get(a.dtype or a.kind.newbyteorder("<"))
    if name is None:
        raise CheckpointError(
            f"{key!r} is of the type {a.dtype or a.kind}, for which safetensors has no name",
            hint=f"It has {', '.join(_DTYPE_NAMES.values())}: convert the values first, or leave the array out.",
        )
    return name
