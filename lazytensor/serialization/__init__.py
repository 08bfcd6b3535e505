"""torch.save and torch.load: PyTorch's zip format, written and read without running any pickle.

A file is a zip archive: `data.pkl` describes the object, `data/<key>` holds the bytes of each storage. The description
is read by an interpreter of pickle opcodes; the only names that it accepts are in tables, and all of them rebuild
tensors, containers and plain values. Files of the older formats, before PyTorch 1.6, are refused here.
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
    """Write an object of tensors, numbers, text and plain containers, one storage after another.

    Raises CheckpointError for anything else, unless the `writer` knows more types.
    """
    writer = writer or Writer()
    writer.write(obj)
    # Never compressed: readers map the storages into memory as they lie in the file.
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:

        def add(name: str, raw: Any) -> None:
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), raw)  # no date: equal objects give equal files

        # The order of PyTorch's own writer. The full stop is pickle's STOP.
        add("data.pkl", bytes(writer.out) + b".")
        # Only newer files say it; one that does not is little endian.
        add("byteorder", b"little")
        # One at a time: what is read lazily from another file is never in memory twice.
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
    """Read what `save` or PyTorch wrote. Views of one storage share it again.

    `map_location` is a device, a dict from the file's devices to ours, or a function of a storage and the file's device
    that returns the storage or None; only "cpu" and "meta" are there. Raises CheckpointError for a file that is
    damaged, of the old format, on a device that is not there, or that asks for anything but tensors and plain
    containers. Nothing of the file is executed, whatever `weights_only` says.
    """
    # Opened here, so that it is also closed here; a stream stays the caller's, and is not closed.
    if isinstance(f, str | pathlib.Path):
        with open_plain_file(f) as stream:
            return load(stream, map_location, reader=reader)
    # Before the archive is read: a wrong `map_location` is the caller's error, whatever the file holds.
    place = device_rule(map_location)
    with closing(_open_archive(f)) as archive:
        # Two passes: the description names storages in any order and views before all of their companions, so tensors
        # get their cells when everything has been read.
        answer, storages = _read_object(archive, lambda root: SavedStorages(archive, root, place), reader)
        storages.finish()
        return answer


def load_lazily(f: BinaryIO, path: str) -> Any:
    """The object in a stream, with a LazyArray for each tensor that reads from the stream when asked for.

    `path` is what errors call it. Raises CheckpointError like `load`.
    """
    # The archive stays open: the arrays read from it for as long as they live.
    archive = _open_archive(f)
    return _read_object(archive, lambda root: LazyStorages(archive, root, path))[0]


def _open_archive(f: BinaryIO) -> zipfile.ZipFile:
    start = f.tell()
    try:
        archive = zipfile.ZipFile(f)
    except FILE_READER_ERRORS as e:
        raise _unreadable_error(e) from e
    if archive.filelist and min(info.header_offset for info in archive.filelist) != start:
        archive.close()
        raise file_error(
            "the archive does not begin where the file is read: other bytes, or another archive, are in front of it",
            "Save each object to a file of its own, or several into one open file with "
            "_use_new_zipfile_serialization=False.",
        )
    return archive


def _read_object(
    archive: zipfile.ZipFile, open_storages: Callable[[str], S], reader: Callable[[Any], Reader] = Reader
) -> tuple[Any, S]:
    """The object in an archive, and the storages that its tensors see."""
    try:
        root = description_root(archive)
        storages = open_storages(root)
        return reader(storages).run(archive.read(f"{root}/data.pkl")), storages
    # Ours says what is wrong already. The foreign ones come of zip structures and byte counts that a damaged file gets
    # wrong in ways that nobody can list.
    except CheckpointError:
        raise
    except FILE_READER_ERRORS as e:
        raise _unreadable_error(e) from e


def _unreadable_error(e: BaseException) -> CheckpointError:
    return file_error(
        f"this is no file in PyTorch's zip format, or it is damaged: {e}",
        "Write it again with torch.save of PyTorch 1.6 or later.",
    )
