"""The bytes of a dataset, fetched without HDF5: contiguous or in chunks, plain or through LZ4 (filter 32004).

Stock h5py does not carry that filter. It tells where the bytes are; a file descriptor of our own then fetches them, so
that they outlive the HDF5 handle and nothing is allocated that the file cannot fill.

Sources: the LZ4 block format description (sequences of token, literals, offset, match) and the registered HDF5 filter's
framing: total size, block size, then each block behind its stored size, all big-endian. Written here in plain Python:
weights hardly compress, so a block is mostly one long run of literals and costs a few slices.
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
# The bound matters: a few damaged bytes could otherwise announce a chunk of terabytes, and an array is allocated
# before its bytes are seen.
MAX_LZ4_RATIO = 255  # a length byte stands for at most 255 bytes of output, so no stored byte can produce more
_MIN_MATCH_BYTES = 4
_MIN_BLOCK_BYTES, _MAX_SMALL_BLOCKS = 512, 4096
# ENUM is how h5py writes bool.
_h5py: Any = h5py  # its stubs do not know the lower interface in full
_READABLE_TYPE_CLASSES = (h5py.h5t.STRING, h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.ENUM)
_FRAME_HEADER = struct.Struct(">QI")
_BLOCK_HEADER = struct.Struct(">I")


def read_attributes(item: h5py.HLObject) -> dict[str, Any]:
    """The attributes of a file or dataset that are text or numbers.

    Others stay unread: the format needs none, and HDF5 crashes on some damaged ones (nested variable lengths).
    """
    values = item.attrs
    plain = {}
    for name in values:
        attribute = values.get_id(name)
        kind = attribute.get_type()
        if kind.get_class() in _READABLE_TYPE_CLASSES:
            # The root has a text for each tensor, for which h5py would open it again and work out what it is.
            is_text = isinstance(kind, _h5py.h5t.TypeStringID) and kind.is_variable_str() and attribute.shape == ()
            plain[name] = _read_text_attribute(attribute, kind.get_cset()) if is_text else values[name]
    return plain


def _read_text_attribute(attribute: Any, encoding: int) -> str:
    text: Any = np.empty((), object)
    attribute.read(text, mtype=_text_type(encoding))
    return str(text[()].decode("utf-8", "surrogateescape"))


@functools.cache
def _text_type(encoding: int) -> Any:
    return _h5py.h5t.py_create(_h5py.string_dtype("ascii" if encoding == _h5py.h5t.CSET_ASCII else "utf-8"))


@dataclass(frozen=True)
class _Extent:
    """`size` bytes of the file at `offset`; they belong at index `start` of the array."""

    start: tuple[int, ...]
    offset: int
    size: int
    is_packed: bool


class StoredArray:
    """Where the bytes of a dataset are. Raises CheckpointError unless the file holds enough of them for its shape."""

    def __init__(self, file: RawFile, number: int, dataset: Any, checks: Trailer | None = None):
        """`number` is that by which HDF5 tells the open file from others; the dataset is of h5py's lower interface."""
        self.checks = checks
        self.file, self.shape, self.stored = file, dataset.shape, dataset.dtype
        properties = dataset.get_create_plist()
        is_chunked = properties.get_layout() == h5py.h5d.CHUNKED
        # One rule for both layouts: a contiguous dataset is one chunk of the whole shape.
        self.block = properties.get_chunk() if is_chunked else self.shape  # the shape of each extent
        # A link in a file may lead to a dataset of another file, whose offsets mean nothing in ours.
        if _h5py.h5o.get_info(dataset).fileno != number:
            raise _make_damage_error("its data is in another file")
        self.extents = self._extents(dataset, properties)
        for extent in self.extents:
            self._check(extent)

    def _extents(self, dataset: Any, properties: Any) -> list[_Extent]:
        filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
        # Shuffle, deflate and the like are other programs' work; the original writes LZ4 alone.
        if filters not in ([], [FILTER_ID]):
            raise _make_damage_error(f"it went through HDF5 filters {filters}; only LZ4 ({FILTER_ID}) is known here")
        # The original makes empty tensors chunked as well, with no chunk stored.
        if math.prod(self.shape) == 0:
            return []
        if properties.get_layout() == h5py.h5d.CHUNKED:
            return self._chunk_extents(dataset, bool(filters))
        # None where HDF5 has not reserved the bytes: nothing was ever written there, which the writer never leaves.
        # Compact datasets have theirs in a header, and external ones in another file.
        offset = dataset.get_offset()
        if properties.get_layout() != h5py.h5d.CONTIGUOUS or properties.get_external_count() or offset is None:
            raise _make_damage_error("its bytes are not in the file in one piece or in chunks")
        return [_Extent((0,) * len(self.shape), offset, dataset.get_storage_size(), False)]

    def _chunk_extents(self, dataset: Any, is_filtered: bool) -> list[_Extent]:
        chunks: list[Any] = []
        # One walk over the index of chunks; asking for them one by one searches it anew each time.
        dataset.chunk_iter(chunks.append)
        # A set bit of the mask says that this chunk skipped the filter.
        extents = [
            _Extent(c.chunk_offset, c.byte_offset, c.size, is_filtered and not c.filter_mask & 1) for c in chunks
        ]
        grid = [range(0, size, step) for size, step in zip(self.shape, self.block, strict=True)]
        # Every place of the grid once: a missing chunk would leave memory as it was, whatever it held before.
        starts = {e.start for e in extents if all(s in g for s, g in zip(e.start, grid, strict=True))}
        if not len(starts) == len(extents) == math.prod(len(axis) for axis in grid):
            raise _make_damage_error(
                f"{len(starts)} chunks are stored where its shape {self.shape} needs another number"
            )
        return extents

    def _check(self, extent: _Extent) -> None:
        # Chunks at the edge are stored in full size, so all extents need the same number of bytes.
        wanted = math.prod(self.block) * self.stored.itemsize
        if extent.offset + extent.size > self.file.size:
            raise _make_damage_error("its bytes pass the end of the file")
        if wanted > extent.size * MAX_LZ4_RATIO if extent.is_packed else wanted != extent.size:
            raise _make_damage_error(f"{extent.size} bytes are stored where its shape {self.shape} needs {wanted}")

    @property
    def is_checked(self) -> bool:
        """Whether the file has a checksum of its bytes."""
        places = {} if self.checks is None else self.checks.arrays
        return all((extent.offset, extent.size) in places for extent in self.extents)

    def read(self) -> np.ndarray:
        """A new array of the stored values, in their stored type."""
        array = self.file.allocator.empty(self.shape, self.stored)
        for extent in self.extents:
            self._place(array, extent)
        # Only 0 and 1 are truth values to NumPy; a foreign file may hold other bytes.
        return np.asarray(array.view(np.uint8) != 0) if self.stored.kind == "b" else array

    def _place(self, array: np.ndarray, extent: _Extent) -> None:
        # The common case for files of our own: no second buffer, the bytes go where they belong.
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
        # What of a chunk lies beyond the shape is padding.
        crop = tuple(slice(0, n - s) for s, n in zip(extent.start, self.shape, strict=True))
        array[target] = np.frombuffer(plain, self.stored).reshape(self.block)[crop]


def decode_chunk(data: bytes, size: int) -> bytes:
    """The `size` bytes that the framed chunk `data` stands for. Raises CheckpointError for anything else."""
    if len(data) < _FRAME_HEADER.size:
        raise _make_damage_error(f"{len(data)} bytes are too few for a header")
    total, block_size = _FRAME_HEADER.unpack_from(data)
    if total != size:
        raise _make_damage_error(f"it announces {total} bytes where the array needs {size}")
    # Each block takes a few calls: a chunk of a million blocks of one byte would take minutes.
    if block_size == 0 < total or (block_size < _MIN_BLOCK_BYTES and total > block_size * _MAX_SMALL_BLOCKS):
        raise _make_damage_error(f"its blocks of {block_size} bytes are smaller than any writer's")
    out, position = bytearray(), _FRAME_HEADER.size
    # The format has no count of blocks; the announced size ends the loop, and each block has to bring it closer.
    while len(out) < size:
        wanted = min(block_size, size - len(out))
        stored, position = _read_stored_block(data, position)
        # The writer keeps a block as it is when compression would not make it smaller.
        block = stored if len(stored) == wanted else decode_block(stored, wanted)
        if len(block) != wanted:
            raise _make_damage_error(f"a block gives {len(block)} bytes instead of {wanted}")
        out += block
    if position != len(data):
        raise _make_damage_error(f"{len(data) - position} bytes follow its last block")
    return bytes(out)


def _read_stored_block(data: bytes, position: int) -> tuple[bytes, int]:
    begin = position + _BLOCK_HEADER.size
    if begin > len(data):
        raise _make_damage_error("it ends before its last block")
    end = begin + _BLOCK_HEADER.unpack_from(data, position)[0]
    if end > len(data):
        raise _make_damage_error(f"a block of {end - begin} bytes passes its end")
    return data[begin:end], end


def decode_block(data: bytes, limit: int) -> bytes:
    """The bytes of one raw LZ4 block, at most `limit` of them. Raises CheckpointError when it is malformed."""
    out, position = bytearray(), 0
    while True:
        if position >= len(data):
            raise _make_damage_error("a block ends without its last literals")
        # High half: literals; low half: the match that follows, less the four bytes that every match has at least.
        token = data[position]
        count, position = _read_length(data, position + 1, token >> 4)
        if position + count > len(data):
            raise _make_damage_error("literals pass the end of a block")
        # Before each copy, since a few bytes can ask for gigabytes.
        _check_output_limit(out, count, limit)
        out += data[position : position + count]
        position += count
        # The last sequence is literals without a match: the only way for a block to end well.
        if position == len(data):
            return bytes(out)
        if position + 2 > len(data):
            raise _make_damage_error("a block ends inside an offset")
        # Little-endian, unlike the framing around it: this one is LZ4's own.
        offset = int.from_bytes(data[position : position + 2], "little")
        count, position = _read_length(data, position + 2, token & 15)
        _check_output_limit(out, count + _MIN_MATCH_BYTES, limit)
        _append_match(out, offset, count + _MIN_MATCH_BYTES)


def _read_length(data: bytes, position: int, nibble: int) -> tuple[int, int]:
    """A length and the position behind it: 15 in the token goes on in bytes up to the first that is not 255."""
    if nibble < 15:
        return nibble, position
    begin = position
    while position < len(data) and data[position] == 255:
        position += 1
    if position >= len(data):
        raise _make_damage_error("a block ends inside a length")
    return 15 + 255 * (position - begin) + data[position], position + 1


def _check_output_limit(out: bytearray, count: int, limit: int) -> None:
    if len(out) + count > limit:
        raise _make_damage_error(f"a block gives more than its {limit} bytes")


def _append_match(out: bytearray, offset: int, count: int) -> None:
    if not 0 < offset <= len(out):
        raise _make_damage_error(f"a match reaches back {offset} bytes where only {len(out)} exist")
    # Offset 0 is what the format leaves undefined; beyond the begin of the block there is nothing, since the writer
    # compresses each block by itself.
    pattern = out[len(out) - offset :]
    # A match may run into what it is writing: the last `offset` bytes then repeat.
    out += pattern[:count] if count <= offset else (pattern * (count // offset + 1))[:count]


def _make_damage_error(what: str) -> CheckpointError:
    return CheckpointError(f"damaged: {what}", hint="Restore the file from a copy, or save the checkpoint again.")
