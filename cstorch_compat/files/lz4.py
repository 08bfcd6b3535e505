"""Read the bytes of a dataset without HDF5: contiguous or chunked, uncompressed or compressed by LZ4 (filter 32004).

h5py has no LZ4 filter. It provides the offsets of the bytes, which are then read through a file descriptor. Arrays thus
stay readable after the HDF5 handle is closed, and no memory is allocated that the file cannot fill.

Sources: the LZ4 block format description (sequences of token, literals, offset, match) and the framing of the
    registered
HDF5 filter: total size, block size, then each block after its stored size, all big-endian. Plain Python is sufficient:
weights hardly compress, so a block is mostly one long run of literals, which takes a few slices.
"""

import functools
import math
import struct
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from cstorch_compat.files.checksums import Trailer, verify_checksum
from cstorch_compat.files.rawfile import RawFile
from lazytensor.errors import CheckpointError

FILTER_ID = 32004
"""The number of the registered LZ4 filter of HDF5."""
# Arrays are allocated before their data is read. Without this bound a few damaged bytes could declare terabytes.
MAX_LZ4_RATIO = 255  # a length byte adds at most 255 bytes of output, so no stored byte can produce more
_MIN_MATCH_BYTES = 4
_MIN_BLOCK_BYTES, _MAX_SMALL_BLOCKS = 512, 4096
# h5py stores bool as ENUM.
_h5py: Any = h5py  # its stubs do not describe the low-level interface completely
_READABLE_TYPE_CLASSES = (h5py.h5t.STRING, h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.ENUM)
_FRAME_HEADER = struct.Struct(">QI")
_BLOCK_HEADER = struct.Struct(">I")


def read_attributes(item: h5py.HLObject) -> dict[str, Any]:
    """Return the attributes of a file or dataset that are text or numbers.

    Other attributes are not read: the format needs none, and HDF5 crashes on some damaged ones.
    """
    values = item.attrs
    plain = {}
    for name in values:
        attribute = values.get_id(name)
        kind = attribute.get_type()
        if kind.get_class() in _READABLE_TYPE_CLASSES:
            # The root has a text per leaf. Read it by the low-level interface, which does not open the attribute again.
            is_text = isinstance(kind, _h5py.h5t.TypeStringID) and kind.is_variable_str() and attribute.shape == ()
            plain[name] = _read_text_attribute(attribute, kind.get_cset()) if is_text else values[name]
    return plain


def _read_text_attribute(attribute: Any, encoding: int) -> str:
    """Return the text of an attribute by h5py's low-level interface."""
    text: Any = np.empty((), object)
    attribute.read(text, mtype=_text_type(encoding))
    return str(text[()].decode("utf-8", "surrogateescape"))


@functools.cache
def _text_type(encoding: int) -> Any:
    """Return the HDF5 type of text with an encoding."""
    return _h5py.h5t.py_create(_h5py.string_dtype("ascii" if encoding == _h5py.h5t.CSET_ASCII else "utf-8"))


@dataclass(frozen=True)
class _Extent:
    """A range of `size` bytes of the file at `offset`. Its block begins at index `start` of the array."""

    start: tuple[int, ...]
    offset: int
    size: int
    is_packed: bool


class StoredArray:
    """The location of a dataset's bytes in a file.

    Raises CheckpointError if the file does not contain the bytes for its shape, if another filter was used, and if the
    data is in another file.
    """

    def __init__(self, file: RawFile, number: int, dataset: Any, checks: Trailer | None = None):
        """Locate the bytes of `dataset`, an h5py low-level dataset of `file`. No values are read.

        `number` is HDF5's number of the open file. `checks` are the checksums of the file, if it has any. Raises
        CheckpointError if the data is in another file, was stored by another filter than LZ4, is neither contiguous nor
        chunked, extends beyond the end of the file, or does not have the size of its shape.
        """
        self.checks = checks
        self.file, self.shape, self.stored = file, dataset.shape, dataset.dtype
        properties = dataset.get_create_plist()
        is_chunked = properties.get_layout() == h5py.h5d.CHUNKED
        # A contiguous dataset counts as one chunk of the whole shape.
        self.block = properties.get_chunk() if is_chunked else self.shape  # the shape of each extent
        # A link may refer to a dataset of another file, whose offsets do not apply to this one.
        if _h5py.h5o.get_info(dataset).fileno != number:
            raise _make_damage_error("its data is in another file")
        self.extents = self._extents(dataset, properties)
        for extent in self.extents:
            self._check(extent)

    def _extents(self, dataset: Any, properties: Any) -> list[_Extent]:
        """Return the extents of a contiguous or chunked dataset; none if it is empty.

        Raises CheckpointError for filters other than LZ4, and for data that is compact, external or not allocated.
        """
        filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
        # The original writes only LZ4. Other filters, such as shuffle and deflate, come from other programs.
        if filters not in ([], [FILTER_ID]):
            raise _make_damage_error(f"its HDF5 filters {filters} are not supported; only LZ4 ({FILTER_ID}) is")
        # The original stores empty tensors in chunked layout, without chunks.
        if math.prod(self.shape) == 0:
            return []
        if properties.get_layout() == h5py.h5d.CHUNKED:
            return self._chunk_extents(dataset, bool(filters))
        # The offset is None if HDF5 has not allocated the bytes. Compact datasets have their bytes in a header, and
        # external ones in another file.
        offset = dataset.get_offset()
        if properties.get_layout() != h5py.h5d.CONTIGUOUS or properties.get_external_count() or offset is None:
            raise _make_damage_error("its data in the file is neither contiguous nor chunked")
        return [_Extent((0,) * len(self.shape), offset, dataset.get_storage_size(), False)]

    def _chunk_extents(self, dataset: Any, is_filtered: bool) -> list[_Extent]:
        """Return the extents of a chunked dataset.

        Raises CheckpointError unless each chunk of the grid is stored once.
        """
        chunks: list[Any] = []
        # Iterate over the index of chunks once; looking them up individually searches it each time.
        dataset.chunk_iter(chunks.append)
        # A set bit of the mask means that this chunk skipped the filter.
        extents = [
            _Extent(c.chunk_offset, c.byte_offset, c.size, is_filtered and not c.filter_mask & 1) for c in chunks
        ]
        grid = [range(0, size, step) for size, step in zip(self.shape, self.block, strict=True)]
        # Require each chunk of the grid exactly once: a missing chunk would leave uninitialized memory.
        starts = {e.start for e in extents if all(s in g for s, g in zip(e.start, grid, strict=True))}
        if not len(starts) == len(extents) == math.prod(len(axis) for axis in grid):
            raise _make_damage_error(f"{len(starts)} chunks are stored, which does not match its shape {self.shape}")
        return extents

    def _check(self, extent: _Extent) -> None:
        """Raise CheckpointError if an extent is outside of the file or has the wrong size.

        A compressed extent has the wrong size only if MAX_LZ4_RATIO could not expand it to its block.
        """
        # Chunks at the border are stored in full size, so all extents have the same size.
        wanted = math.prod(self.block) * self.stored.itemsize
        if extent.offset + extent.size > self.file.size:
            raise _make_damage_error("its data extends beyond the end of the file")
        if wanted > extent.size * MAX_LZ4_RATIO if extent.is_packed else wanted != extent.size:
            raise _make_damage_error(f"{extent.size} bytes are stored, but its shape {self.shape} needs {wanted}")

    @property
    def is_checked(self) -> bool:
        """Whether the file has a checksum for each extent."""
        places = {} if self.checks is None else self.checks.arrays
        return all((extent.offset, extent.size) in places for extent in self.extents)

    def read(self) -> np.ndarray:
        """Return a new array of the values, in their stored dtype. Any nonzero byte of a bool array is read as True.

        Raises CheckpointError if a checksum does not match or the compressed bytes are malformed.
        """
        array = self.file.allocator.empty(self.shape, self.stored)
        for extent in self.extents:
            self._place(array, extent)
        # NumPy requires 0 and 1 for bool. Files of other programs may contain other bytes.
        return np.asarray(array.view(np.uint8) != 0) if self.stored.kind == "b" else array

    def _place(self, array: np.ndarray, extent: _Extent) -> None:
        """Read `extent`, verify and decompress it, and copy it into `array`.

        Padding of chunks at the border is left out. Raises CheckpointError if its checksum does not match, its
        compressed bytes are malformed, or the file has become shorter.
        """
        # Common case, files written by this package: read directly into the array.
        if self.block == self.shape and not extent.is_packed:
            raw = array.reshape(-1).view(np.uint8)
            self.file.fetch(extent.offset, raw)
            verify_checksum(self.checks, extent.offset, raw)
            return
        data = np.empty(extent.size, np.uint8)
        self.file.fetch(extent.offset, data)
        size = math.prod(self.block) * self.stored.itemsize
        plain = decode_chunk(data.tobytes(), size) if extent.is_packed else data.tobytes()
        target = tuple(slice(s, s + n) for s, n in zip(extent.start, self.block, strict=True))
        # The part of a chunk outside of the shape is padding.
        crop = tuple(slice(0, n - s) for s, n in zip(extent.start, self.shape, strict=True))
        array[target] = np.frombuffer(plain, self.stored).reshape(self.block)[crop]


def decode_chunk(data: bytes, size: int) -> bytes:
    """Return the `size` bytes in a chunk compressed by the HDF5 filter.

    Raises CheckpointError if the chunk is malformed: cut short, of another size, with very small blocks, or with bytes
    after its last block.
    """
    if len(data) < _FRAME_HEADER.size:
        raise _make_damage_error(f"{len(data)} bytes are too few for a header")
    total, block_size = _FRAME_HEADER.unpack_from(data)
    if total != size:
        raise _make_damage_error(f"its header declares {total} bytes, but the array needs {size}")
    # Each block takes several calls, so a chunk with a million blocks of one byte would take minutes.
    if block_size == 0 < total or (block_size < _MIN_BLOCK_BYTES and total > block_size * _MAX_SMALL_BLOCKS):
        raise _make_damage_error(f"its block size of {block_size} bytes is too small")
    out, position = bytearray(), _FRAME_HEADER.size
    # The format has no number of blocks. The loop ends at the declared size, and each block must add bytes.
    while len(out) < size:
        wanted = min(block_size, size - len(out))
        stored, position = _read_stored_block(data, position)
        # The writer stores a block uncompressed if compression would not make it smaller.
        block = stored if len(stored) == wanted else decode_block(stored, wanted)
        if len(block) != wanted:
            raise _make_damage_error(f"a block decompresses to {len(block)} bytes instead of {wanted}")
        out += block
    if position != len(data):
        raise _make_damage_error(f"{len(data) - position} bytes follow its last block")
    return bytes(out)


def _read_stored_block(data: bytes, position: int) -> tuple[bytes, int]:
    """Return the stored bytes of the block at `position`, and the position after it.

    Raises CheckpointError if `data` ends before.
    """
    begin = position + _BLOCK_HEADER.size
    if begin > len(data):
        raise _make_damage_error("it ends before its last block")
    end = begin + _BLOCK_HEADER.unpack_from(data, position)[0]
    if end > len(data):
        raise _make_damage_error(f"a block of {end - begin} bytes extends beyond its end")
    return data[begin:end], end


def decode_block(data: bytes, limit: int) -> bytes:
    """Return the bytes of a raw LZ4 block.

    Raises CheckpointError if the block is malformed or has more than `limit` bytes. Fewer are not an error.
    """
    out, position = bytearray(), 0
    while True:
        if position >= len(data):
            raise _make_damage_error("a block ends without its last literals")
        # High half of the token: the number of literals. Low half: the length of the match minus four, the minimum.
        token = data[position]
        count, position = _read_length(data, position + 1, token >> 4)
        if position + count > len(data):
            raise _make_damage_error("literals extend beyond the end of a block")
        # Check before each copy, because a few bytes can request gigabytes.
        _check_output_limit(out, count, limit)
        out += data[position : position + count]
        position += count
        # The last sequence has literals and no match. A block must end with it.
        if position == len(data):
            return bytes(out)
        if position + 2 > len(data):
            raise _make_damage_error("a block ends inside an offset")
        # LZ4's offset is little-endian, unlike the framing.
        offset = int.from_bytes(data[position : position + 2], "little")
        count, position = _read_length(data, position + 2, token & 15)
        _check_output_limit(out, count + _MIN_MATCH_BYTES, limit)
        _append_match(out, offset, count + _MIN_MATCH_BYTES)


def _read_length(data: bytes, position: int, nibble: int) -> tuple[int, int]:
    """Return a length and the position after it.

    If `nibble` is 15, the length continues in bytes until one is not 255. Raises CheckpointError if `data` ends before.
    """
    if nibble < 15:
        return nibble, position
    begin = position
    while position < len(data) and data[position] == 255:
        position += 1
    if position >= len(data):
        raise _make_damage_error("a block ends inside a length")
    return 15 + 255 * (position - begin) + data[position], position + 1


def _check_output_limit(out: bytearray, count: int, limit: int) -> None:
    """Raise CheckpointError if `count` more bytes exceed the limit of the output."""
    if len(out) + count > limit:
        raise _make_damage_error(f"a block decompresses to more than {limit} bytes")


def _append_match(out: bytearray, offset: int, count: int) -> None:
    """Append `count` bytes that begin `offset` bytes before the end of `out`.

    If `count` exceeds `offset`, these bytes are repeated. Raises CheckpointError if `offset` is 0 or larger than `out`.
    """
    if not 0 < offset <= len(out):
        raise _make_damage_error(f"a match refers back {offset} bytes, but only {len(out)} exist")
    # The format does not define offset 0. Matches cannot begin before the block, since each block is compressed
    # separately.
    pattern = out[len(out) - offset :]
    # A match may overlap its own output: the last `offset` bytes are then repeated.
    out += pattern[:count] if count <= offset else (pattern * (count // offset + 1))[:count]


def _make_damage_error(what: str) -> CheckpointError:
    """Return the error for a damaged file."""
    return CheckpointError(f"damaged: {what}", hint="Restore the file from a copy, or save the checkpoint again.")
