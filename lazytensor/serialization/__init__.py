"""`torch.save` and `torch.load`: PyTorch's zip format, read and written without executing any pickle.

A file is a zip archive: `data.pkl` describes the object, and `data/<key>` holds the bytes of each storage. The
description is read by an interpreter of pickle opcodes. It accepts only names from fixed tables, all of which create
tensors, containers and plain values. Files of the formats before PyTorch 1.6 are refused here.
"""

import pathlib
import zipfile
from collections.abc import Callable
from contextlib import closing
from typing import Any, BinaryIO, TypeVar

import numpy as np

from lazytensor.core.file_array import FILE_READER_ERRORS
from lazytensor.errors import CheckpointError
from lazytensor.serialization.layout import description_root, file_error
from lazytensor.serialization.lazy_storages import LazyStorages
from lazytensor.serialization.reader import Reader
from lazytensor.serialization.storages import SavedStorages, device_rule
from lazytensor.serialization.writer import Writer
from lazytensor.system.plain_files import open_plain_file

File = str | pathlib.Path | BinaryIO
S = TypeVar("S", SavedStorages, LazyStorages)


def save(
    obj: Any, f: File, pickle_module: Any = None, pickle_protocol: int = 2, *, writer: Writer | None = None, **_: Any
) -> None:
    """Write `obj`, made of tensors, numbers, strings and plain containers, to a file or stream `f`, like `torch.save`.

    Storages are written one at a time. `pickle_module`, `pickle_protocol` and other keyword arguments are ignored.
    `writer` is an unused Writer, by default a new one. Raises CheckpointError for an object that it does not support,
    before anything is written.
    """
    writer = writer or Writer()
    writer.write(obj)
    # Uncompressed, because readers may memory-map the storages.
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:

        def add(name: str, raw: Any) -> None:
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), raw)  # without a date: equal objects give equal files

        # The records are in the order of PyTorch's writer. "." is the pickle opcode STOP.
        add("data.pkl", bytes(writer.out) + b".")
        # Older files do not have this record and are little endian.
        add("byteorder", b"little")
        # One storage at a time, so that arrays which are read lazily from another file are not all in memory.
        for key, elements in writer.storages.items():
            add(f"data/{key}", elements().reshape(-1).view(np.uint8))
        # The number that torch.save writes; PyTorch refuses an archive without one.
        add("version", b"3\n")


def load(
    f: File,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    reader: Callable[[Any], Reader] = Reader,
    **_: Any,
) -> Any:
    """Read the object that `save` or PyTorch wrote to the file or stream `f`.

    Tensors that shared a storage share it again. `map_location` is a device, a dict from the file's devices to devices,
    or a function of (storage, device in the file) that returns the storage or None. Only the devices "cpu" and "meta"
    are available. `reader` creates the interpreter from the storages of the file. Nothing in the file is executed,
    whatever `weights_only` is. `pickle_module`, `mmap` and other keyword arguments are ignored. A stream stays open.

    Raises CheckpointError if the file is damaged, has an old format, needs an unavailable device, or contains anything
    but tensors and plain containers, and TypeError for a `map_location` of another type.
    """
    # A file that is opened here is closed here; a stream of the caller stays open.
    if isinstance(f, str | pathlib.Path):
        with open_plain_file(f) as stream:
            return load(stream, map_location, reader=reader)
    # Check `map_location` before reading the archive.
    place = device_rule(map_location)
    with closing(_open_archive(f)) as archive:
        # Tensors get their storages after the whole description was read, because the layout of a storage depends on
        # all tensors that use it.
        answer, storages = _read_object(archive, lambda root: SavedStorages(archive, root, place), reader)
        storages.finish()
        return answer


def load_lazily(f: BinaryIO, path: str) -> Any:
    """Return the object in the stream `f`, with each tensor replaced by a LazyArray that reads from `f` on demand.

    `f` must be at the start of the archive and stay open. `path` names the file in error messages. Devices,
    `requires_grad` and attributes of tensors are ignored. Raises CheckpointError if the file is damaged, has an old
    format, or contains anything but tensors and plain containers.
    """
    # The archive stays open, because the arrays read from it later.
    archive = _open_archive(f)
    return _read_object(archive, lambda root: LazyStorages(archive, root, path))[0]


def _open_archive(f: BinaryIO) -> zipfile.ZipFile:
    """Open the zip archive that starts at the current position of the stream `f`. The caller closes it.

    Raises CheckpointError if `f` has no zip archive, the archive is damaged, or other data or another archive precede
    it.
    """
    start = f.tell()
    try:
        archive = zipfile.ZipFile(f)
    except FILE_READER_ERRORS as e:
        raise _unreadable_error(e) from e
    if archive.filelist and min(info.header_offset for info in archive.filelist) != start:
        archive.close()
        raise file_error(
            "the archive does not start at the position where the file is read: other data or another archive "
            "precedes it",
            "Save each object to a separate file, or several to one open file with "
            "_use_new_zipfile_serialization=False.",
        )
    return archive


def _read_object(
    archive: zipfile.ZipFile, open_storages: Callable[[str], S], reader: Callable[[Any], Reader] = Reader
) -> tuple[Any, S]:
    """Return the object in an archive, and the storages of its tensors.

    `open_storages(root)` creates the storages, given the folder of data.pkl, and `reader(storages)` the interpreter.
    Raises CheckpointError for a damaged or unsupported file.
    """
    try:
        root = description_root(archive)
        storages = open_storages(root)
        return reader(storages).run(archive.read(f"{root}/data.pkl")), storages
    # A CheckpointError is already specific. The others come from zipfile and NumPy for damaged files.
    except CheckpointError:
        raise
    except FILE_READER_ERRORS as e:
        raise _unreadable_error(e) from e


def _unreadable_error(e: BaseException) -> CheckpointError:
    return file_error(
        f"the file is not in PyTorch's zip format, or it is damaged: {e}",
        "Save it again with torch.save of PyTorch 1.6 or later.",
    )
