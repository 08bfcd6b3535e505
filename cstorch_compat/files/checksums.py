"""Checksums after the end of an HDF5 file, where HDF5 and the original's reader do not look.

The trailer contains offset and CRC-32 of each array, and one CRC-32 of all other bytes. The tables of a file are thus
verified before HDF5 reads them, and an array is verified when it is read. A program that changes the file through HDF5
cuts the trailer off; the file then has no checksums.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cstorch_compat.files.rawfile import RawFile
from lazytensor.errors import CheckpointError
from lazytensor.system.positioned_files import read_at

MAGIC = b"LWCHECK1"
"""The last bytes of a file with checksums."""
_FOOTER = struct.Struct("<QI8s")  # length and CRC-32 of the text, then the magic bytes
_SUPERBLOCK = struct.Struct("<8s4B3Q")
_TEXT_PREFIX = b'{"size":'
_MAX_READ_BYTES = 1 << 22
_MAX_TEXT_BYTES = 1 << 28
RESTORE_HINT = "Restore the file from a copy, or save the checkpoint again."
"""The hint for a damaged file."""


@dataclass(frozen=True)
class Trailer:
    """The checksums of a file.

    size: bytes of the file without the trailer
    arrays: the CRC-32 of each array, by offset and size in bytes
    rest: the CRC-32 of all bytes that belong to no array
    """

    size: int
    arrays: dict[tuple[int, int], int]
    rest: int


def encode_trailer(trailer: Trailer) -> bytes:
    """Return the bytes of the trailer."""
    arrays = [[*place, crc] for place, crc in trailer.arrays.items()]
    said = {"size": trailer.size, "arrays": arrays, "rest": trailer.rest}
    text = json.dumps(said, separators=(",", ":")).encode()
    return text + _FOOTER.pack(len(text), zlib.crc32(text), MAGIC)


def compute_rest_checksum(descriptor: int, places: Iterable[tuple[int, int]], size: int) -> int:
    """Return the CRC-32 of the first `size` bytes of an open file without the arrays.

    `places` are offset and size of each array. Raises CheckpointError if the file is shorter.
    """
    crc = 0
    for begin, end in _iter_gaps(places, size):
        at = begin
        while at < end:
            piece = read_at(descriptor, min(end - at, _MAX_READ_BYTES), at)
            if not piece:
                raise CheckpointError("damaged: the file is shorter than its checksums require", hint=RESTORE_HINT)
            crc, at = zlib.crc32(memoryview(piece), crc), at + len(piece)
    return crc


def _iter_gaps(places: Iterable[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each part of the first `size` bytes that is outside of the arrays, in order.

    `places` has (offset, length) of each array, in any order. Parts may be empty.
    """
    at = 0
    for offset, length in sorted(places):
        yield at, offset
        at = offset + length
    yield at, size


def read_trailer(file: RawFile) -> Trailer | None:
    """Return the trailer of a file, or None if it has none.

    All bytes outside of arrays are read and compared with their checksum. Raises CheckpointError if they or the trailer
    are damaged; arrays are not checked.
    """
    trailer = _parse_trailer(file)
    if trailer is not None and compute_rest_checksum(file.descriptor, trailer.arrays, trailer.size) != trailer.rest:
        raise CheckpointError("damaged: the checksum of its tables does not match", hint=RESTORE_HINT)
    return trailer


def _parse_trailer(file: RawFile) -> Trailer | None:
    """Return the trailer of a file, or None if it has none.

    Raises CheckpointError if the trailer is damaged, cut off, or does not belong to a file of this size.
    """
    end = file.size - _FOOTER.size
    if end < 0:
        return None
    length, crc, magic = _FOOTER.unpack(read_at(file.descriptor, _FOOTER.size, end))
    if magic != MAGIC:
        # The file was cut inside its trailer: HDF5 could still read it, but it would be unverified.
        left = read_at(file.descriptor, len(_TEXT_PREFIX), _find_hdf5_end(file)).rstrip(b"\0")
        if left and _TEXT_PREFIX.startswith(left):
            raise CheckpointError("damaged: the file ends within its checksums", hint=RESTORE_HINT)
        return None
    begin = end - length
    text = read_at(file.descriptor, length, begin) if begin >= 0 and length <= _MAX_TEXT_BYTES else b""
    if len(text) != length or zlib.crc32(text) != crc:
        raise CheckpointError("damaged: its list of checksums is corrupt", hint=RESTORE_HINT)
    said: Any = json.loads(text)
    arrays = {(offset, size): crc for offset, size, crc in said["arrays"]}
    if said["size"] != begin:
        raise CheckpointError("damaged: its checksums belong to another file", hint=RESTORE_HINT)
    return Trailer(begin, arrays, said["rest"])


def _find_hdf5_end(file: RawFile) -> int:
    """Return the end of the file according to HDF5's superblock, version 2 or 3; the file's size for other versions."""
    head = file.head(_SUPERBLOCK.size)
    return int(_SUPERBLOCK.unpack(head)[-1]) if len(head) == _SUPERBLOCK.size and head[8] in (2, 3) else file.size


def verify_checksum(trailer: Trailer | None, offset: int, data: np.ndarray) -> None:
    """Raise CheckpointError if the CRC-32 of `data`, read from `offset`, differs from the one in `trailer`.

    Do nothing if `trailer` is None, or if the data overlap no array of `trailer`: `read_trailer` has verified these
    bytes. Raises CheckpointError also if an array of `trailer` has only a part of these bytes, or further ones.
    """
    if trailer is None:
        return
    crc = trailer.arrays.get((offset, data.nbytes))
    if crc is None:
        if any(at < offset + data.nbytes and offset < at + size for at, size in trailer.arrays):
            raise CheckpointError("damaged: its checksum is for another number of bytes", hint=RESTORE_HINT)
    elif zlib.crc32(data.reshape(-1).data) != crc:
        raise CheckpointError("damaged: the checksum of its bytes does not match", hint=RESTORE_HINT)
