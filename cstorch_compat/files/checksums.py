"""Checksums behind the end of an HDF5 file, where HDF5 and the original's reader do not look.

The trailer has the place and the CRC-32 of each array, and one CRC-32 of all other bytes: the tables of a file can be
known whole before HDF5 reads them, and an array is checked with the bytes that are read for it anyway. A program that
changes the file through HDF5 cuts the trailer off, and the file is then one without checksums.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cstorch_compat.files.rawfile import RawFile
from lazytensor.errors import CheckpointError

MAGIC = b"LWCHECK1"
_FOOTER = struct.Struct("<QI8s")  # length of the text, its checksum, the magic
_SUPERBLOCK = struct.Struct("<8s4B3Q")
_TEXT_PREFIX = b'{"size":'
_MAX_READ_BYTES = 1 << 22
_MAX_TEXT_BYTES = 1 << 28
RESTORE_HINT = "Restore the file from a copy, or save the checkpoint again."


@dataclass(frozen=True)
class Trailer:
    """What a file said of itself when it was written."""

    size: int  # of the file without the trailer
    arrays: dict[tuple[int, int], int]  # the checksum of each by its place and size
    rest: int  # the checksum of all that is no array


def encode_trailer(trailer: Trailer) -> bytes:
    """The trailer as it stands in the file."""
    arrays = [[*place, crc] for place, crc in trailer.arrays.items()]
    said = {"size": trailer.size, "arrays": arrays, "rest": trailer.rest}
    text = json.dumps(said, separators=(",", ":")).encode()
    return text + _FOOTER.pack(len(text), zlib.crc32(text), MAGIC)


def compute_rest_checksum(descriptor: int, places: Iterable[tuple[int, int]], size: int) -> int:
    """The checksum of the first `size` bytes of a file without those at the places of arrays."""
    crc = 0
    for begin, end in _iter_gaps(places, size):
        at = begin
        while at < end:
            piece = os.pread(descriptor, min(end - at, _MAX_READ_BYTES), at)
            if not piece:
                raise CheckpointError("damaged: the file is shorter than its checksums say", hint=RESTORE_HINT)
            crc, at = zlib.crc32(memoryview(piece), crc), at + len(piece)
    return crc


def _iter_gaps(places: Iterable[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    at = 0
    for offset, length in sorted(places):
        yield at, offset
        at = offset + length
    yield at, size


def read_trailer(file: RawFile) -> Trailer | None:
    """The trailer of a file, None without one. Raises CheckpointError if the tables of the file are damaged."""
    trailer = _parse_trailer(file)
    if trailer is not None and compute_rest_checksum(file.descriptor, trailer.arrays, trailer.size) != trailer.rest:
        raise CheckpointError(
            "damaged: its tables have another checksum than when they were written", hint=RESTORE_HINT
        )
    return trailer


def _parse_trailer(file: RawFile) -> Trailer | None:
    end = file.size - _FOOTER.size
    if end < 0:
        return None
    length, crc, magic = _FOOTER.unpack(os.pread(file.descriptor, _FOOTER.size, end))
    if magic != MAGIC:
        # Cut within the checksums: HDF5 would find the rest whole, and nobody knew whether it is.
        left = os.pread(file.descriptor, len(_TEXT_PREFIX), _find_hdf5_end(file)).rstrip(b"\0")
        if left and _TEXT_PREFIX.startswith(left):
            raise CheckpointError("damaged: it is cut short within its checksums", hint=RESTORE_HINT)
        return None
    begin = end - length
    text = os.pread(file.descriptor, length, begin) if begin >= 0 and length <= _MAX_TEXT_BYTES else b""
    if len(text) != length or zlib.crc32(text) != crc:
        raise CheckpointError("damaged: its checksums are", hint=RESTORE_HINT)
    said: Any = json.loads(text)
    arrays = {(offset, size): crc for offset, size, crc in said["arrays"]}
    if said["size"] != begin:
        raise CheckpointError("damaged: its checksums are of another file", hint=RESTORE_HINT)
    return Trailer(begin, arrays, said["rest"])


def _find_hdf5_end(file: RawFile) -> int:
    """Where HDF5 says that the file ends: in the third address of the superblock that is written here."""
    head = file.head(_SUPERBLOCK.size)
    return int(_SUPERBLOCK.unpack(head)[-1]) if len(head) == _SUPERBLOCK.size and head[8] in (2, 3) else file.size


def verify_checksum(trailer: Trailer | None, offset: int, data: np.ndarray) -> None:
    """Raises CheckpointError if bytes that were read at a place are not those that were written there."""
    crc = None if trailer is None else trailer.arrays.get((offset, data.nbytes))
    if crc is not None and zlib.crc32(data.reshape(-1).data) != crc:
        raise CheckpointError("damaged: its bytes have another checksum than when they were written", hint=RESTORE_HINT)
