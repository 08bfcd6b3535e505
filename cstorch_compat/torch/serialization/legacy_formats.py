"""The formats of `torch.save` before the zip archives of PyTorch 1.6.

Up to version 0.1.9 a file is a tar archive of storages, tensors and a pickle. Later it is a stream: four pickles (a
magic number, the version, the sizes of C types, the object), the keys of the storages, and the elements of each
storage. An open file may contain several such streams.
"""

import struct
import tarfile
from typing import Any

import numpy as np

from cstorch_compat.torch.serialization.pickled_objects import ObjectReader, ObjectWriter
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.element_bytes import FILE_DTYPES, decode_elements
from lazytensor.core.file_array import FILE_READER_ERRORS
from lazytensor.errors import CheckpointError
from lazytensor.serialization.layout import STORAGE_DTYPES, file_error
from lazytensor.serialization.reader import NamedGlobal
from lazytensor.serialization.storages import SavedStorage, SavedStoragePart, SavedStorages, device_rule
from lazytensor.serialization.writer import Writer

MAGIC = 0x1950A86A20F9469CFC6C
"""The magic number of the stream format."""
PROTOCOL = 1001
"""The version of the stream format."""
_TYPE_SIZES = {"short": 2, "int": 4, "long": 4}
_TAR_MAGIC_OFFSET = 257


class EndOfFile(CheckpointError, EOFError):
    """The error for an open file with no data left."""


def save(obj: Any, target: Any) -> None:
    """Write an object in the stream format to a path (text) or an open binary file, at its current position.

    Elements of the tensors follow the pickles. An existing file at the path is overwritten.
    """
    if isinstance(target, str):
        with open(target, "wb") as stream:
            return save(obj, stream)
    writer = ObjectWriter(is_legacy=True)
    writer.write(obj)
    for value in (MAGIC, PROTOCOL, {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": _TYPE_SIZES}):
        target.write(_pickle(value))
    target.write(bytes(writer.out) + b".")
    target.write(_pickle(list(writer.storages)))
    for elements in writer.storages.values():
        array = elements().reshape(-1)
        target.write(struct.pack("<q", array.size))
        target.write(array.view(np.uint8))
    return None


def _pickle(value: Any) -> bytes:
    writer = Writer()
    writer.write(value)
    return bytes(writer.out) + b"."


def load(stream: Any, map_location: Any, reader: Any) -> Any:
    """Read the object at the current position of a stream, and leave the position at its end.

    `reader` creates an ObjectReader from storages. Raises EndOfFile if no data is left, and CheckpointError for another
    format or a damaged file.
    """
    start = stream.tell()
    head = stream.read(_TAR_MAGIC_OFFSET + 5)
    stream.seek(start)
    if not head:
        raise EndOfFile(
            "the file is empty or was read to its end", where=source.where(), hint="Save an object to it first."
        )
    try:
        if head[_TAR_MAGIC_OFFSET:] == b"ustar":
            return _load_tar(stream, map_location, reader)
        return _load_stream(stream, map_location, reader)
    except CheckpointError:
        raise
    except (*FILE_READER_ERRORS, tarfile.TarError) as e:
        raise file_error(f"the file, which is older than the zip format, is damaged: {e}") from e


class _LegacyStorages(SavedStorages):
    """Storages whose elements follow the pickles in the file."""

    def __init__(self, map_location: Any):
        super().__init__(None, "", device_rule(map_location))  # type: ignore[arg-type]
        # The objects that the pickle of a tar file refers to by number.
        self.objects: dict[str, Any] = {}

    def storage(self, key: str, dtype: DType, count: Any, location: str) -> SavedStorage:
        """Return the storage for a key, whose elements are read later by `fill`.

        Raises CheckpointError for an invalid number of elements, or if the key was used with another dtype or number.
        """
        storage = self._known.get(key)
        if storage is None:
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise file_error(f"storage {key!r} has an invalid number of elements: {count}")
            # The placeholder needs no memory, because a damaged file may state any length.
            elements = np.broadcast_to(np.zeros((), dtype.host), (count,))
            storage = self._known[key] = SavedStorage(dtype, elements)
            storage.device = self._place(storage, location)
        if storage.dtype is not dtype or len(storage.elements) != count:
            raise file_error(
                f"storage {key!r} is used as {count} elements of {dtype}, and as {len(storage.elements)} of "
                f"{storage.dtype}"
            )
        return storage

    def fill(self, stream: Any, key: str) -> None:
        """Read the elements of the storage `key`, which must be known, from the current position of `stream`.

        They are preceded by their number. Raises CheckpointError if the number differs from the storage's or the stream
        is too short.
        """
        storage = self._known[key]
        (count,) = struct.unpack("<q", stream.read(8))
        begin, size = stream.tell(), len(storage.elements) * storage.dtype.itemsize
        # Check before memory is allocated.
        if count != len(storage.elements) or stream.seek(0, 2) - begin < size:
            raise file_error(f"the file ends inside storage {key!r}")
        stream.seek(begin)
        raw = stream.read(size)
        storage.elements = decode_elements(np.frombuffer(raw, FILE_DTYPES[storage.dtype]), storage.dtype)


def _load_stream(stream: Any, map_location: Any, reader: Any) -> Any:
    """Read an object in the stream format, with all its tensors.

    Raises CheckpointError for another format, protocol number or byte order.
    """
    storages = _LegacyStorages(map_location)
    if not _is_magic(stream, reader(storages)):
        raise file_error(
            "Invalid magic number; corrupt file? It was not written by torch.save",
            "Write it with torch.save; read other pickles with pickle.load, if you trust them.",
        )
    if reader(storages).run(stream) != PROTOCOL:
        raise file_error("the file has an unknown protocol number")
    if not reader(storages).run(stream).get("little_endian", True):
        raise file_error("the file was written on a big-endian machine", "Convert it on a big-endian machine.")
    answer = reader(storages).run(stream)
    for key in reader(storages).run(stream):
        storages.fill(stream, str(key))
    storages.finish()
    return answer


def _is_magic(stream: Any, reader: ObjectReader) -> bool:
    """Return whether the next pickle of the stream is the magic number. The stream is then after it.

    If only the restrictions of weights-only loading prevent reading it, raise their CheckpointError.
    """
    start = stream.tell()
    try:
        return bool(reader.run(stream) == MAGIC)
    except CheckpointError as e:
        # An unsupported protocol is the reason only if the file was written by torch.save.
        stream.seek(start)
        if reader.weights_only and _is_magic(stream, ObjectReader(reader.storages, weights_only=False)):
            raise e
        return False


def _load_tar(stream: Any, map_location: Any, reader: Any) -> Any:
    """Read an object in the tar format.

    Raises CheckpointError with `weights_only`, which PyTorch does not support here.
    """
    storages = _LegacyStorages(map_location)
    if reader(storages).weights_only:
        raise CheckpointError(
            "Cannot use ``weights_only=True`` with files saved in the legacy .tar format",
            where=source.where(),
            hint="Pass weights_only=False.",
        )
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        _read_storages(_open_member(archive, "storages"), storages, reader)
        _read_tensors(_open_member(archive, "tensors"), storages, reader)
        described = reader(storages)
        described.objects = storages.objects
        answer = described.run(_open_member(archive, "pickle"))
    storages.finish()
    return answer


def _open_member(archive: tarfile.TarFile, name: str) -> Any:
    stream = archive.extractfile(name) if name in archive.getnames() else None
    if stream is None:
        raise file_error(
            f"the tar archive has no file {name!r}",
            "Save the object again: the file is damaged, or was not written by torch.save.",
        )
    return stream


def _read_storages(stream: Any, storages: _LegacyStorages, reader: Any) -> None:
    """Read the storages of a tar file, and the views of storages, into `storages.objects` by key.

    Raises CheckpointError if the stream is too short.
    """
    for _ in range(reader(storages).run(stream)):
        key, location, kind = reader(storages).run(stream)
        start = stream.tell()
        (count,) = struct.unpack("<q", stream.read(8))
        stream.seek(start)
        storages.objects[str(key)] = storages.storage(str(key), _find_storage_dtype(kind), count, str(location))
        storages.fill(stream, str(key))
    for key, root, offset, size in reader(storages).run(stream):
        storages.objects[str(key)] = SavedStoragePart(storages.objects[str(root)], offset, size)


def _read_tensors(stream: Any, storages: _LegacyStorages, reader: Any) -> None:
    """Read the tensors of a tar file into `storages.objects` by key. Their storages have to be there already."""
    for _ in range(reader(storages).run(stream)):
        key, storage_key, _ = reader(storages).run(stream)
        # The number of dimensions has eight bytes, of which the last four are unused.
        (rank,) = struct.unpack("<i4x", stream.read(8))
        size = struct.unpack(f"<{rank}q", stream.read(8 * rank))
        stride = struct.unpack(f"<{rank}q", stream.read(8 * rank))
        (offset,) = struct.unpack("<q", stream.read(8))
        storage = storages.objects[str(storage_key)]
        storages.objects[str(key)] = storages.tensor(storage, offset, size, stride, False)


def _find_storage_dtype(kind: Any) -> DType:
    if not isinstance(kind, NamedGlobal):
        raise file_error("the file has a storage without an element type")
    return STORAGE_DTYPES[kind.path.removeprefix("torch ")]
