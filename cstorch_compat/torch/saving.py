"""`torch.save`, `torch.load` and `torch.serialization`: whole modules, arrays, and files from before the zip format."""

import io
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from cstorch_compat.files.newfile import replace_file
from cstorch_compat.torch.pickled_objects import ObjectReader, ObjectWriter, safe
from lazytensor import serialization, source
from lazytensor.dtype import DType
from lazytensor.encoding import STORED, decoded
from lazytensor.errors import CheckpointError
from lazytensor.lazyarray import FOREIGN_ERRORS
from lazytensor.plain_files import open_plain
from lazytensor.serialization.layout import refused
from lazytensor.serialization.reader import Reader
from lazytensor.serialization.storages import Storage, Storages, placement

MAGIC = 0x1950A86A20F9469CFC6C
"""The first value in a file from before the zip format."""
PROTOCOL = 1001
ZIP = b"PK\x03\x04"


def save(
    obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True
) -> None:
    """Write an object: tensors, modules, arrays, and what else pickle can describe.

    A file at a path appears when it is complete: an older one stays whole until then, and if the disk is full.
    """

    def write(target: Any) -> None:
        serialization.save(obj, target, writer=ObjectWriter())

    if not isinstance(f, str | os.PathLike):
        return write(f)
    line = source.where()
    try:
        return replace_file(os.fspath(f), write)
    except CheckpointError as e:
        # Errors of the disk have no line yet.
        raise e if e.where else type(e)(e.what, where=line, hint=e.hint) from e


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **_: Any,
) -> Any:
    """Read what `save` or PyTorch wrote; nothing of the file is executed, whatever `weights_only` says.

    Classes come from the list of `add_safe_globals` and PyTorch's layers; with `weights_only=False` also from modules
    that are imported already. Raises UnsafeGlobal for another one, CheckpointError for a damaged file.
    """
    if weights_only is None:
        weights_only = os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() not in ("1", "y", "yes", "true")
    # Made anew for each file, with the rule of this call.
    reader = partial(ObjectReader, is_trusting=not weights_only)
    if isinstance(f, str | os.PathLike):
        with open_plain(f) as stream:
            return _load(stream, map_location, reader)
    return _load(f, map_location, reader)


def _load(stream: Any, map_location: Any, reader: Any) -> Any:
    # Some streams cannot go back: they are read whole.
    if not (hasattr(stream, "seekable") and stream.seekable()):
        stream = io.BytesIO(stream.read())
    start = stream.tell()
    head = stream.read(4)
    stream.seek(start)
    # A pickle of protocol 2 begins with these two bytes, an archive never.
    if head[:2] != b"\x80\x02":
        return serialization.load(stream, map_location, reader=reader)
    try:
        return _old(stream, map_location, reader)
    except CheckpointError:
        raise
    except FOREIGN_ERRORS as e:
        raise refused(f"the file from before the zip format is damaged: {e}") from e


class _OldStorages(Storages):
    """Storages whose elements follow behind the description."""

    def __init__(self, map_location: Any):
        super().__init__(None, "", placement(map_location))  # type: ignore[arg-type]

    def storage(self, key: str, dtype: DType, count: Any, location: str) -> Storage:
        """The storage of a key, filled later."""
        storage = self._known.get(key)
        if storage is None:
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise refused(f"storage {key!r} has {count} elements")
            # A place holder of the right length and no memory, however long the file says it is.
            elements = np.broadcast_to(np.zeros((), dtype.host), (count,))
            storage = self._known[key] = Storage(dtype, elements)
            storage.device = self._place(storage, location)
        return storage


def _old(stream: Any, map_location: Any, reader: Any) -> Any:
    """A file of torch.save before 1.6: four pickles, the keys of the storages, then their elements."""
    storages = _OldStorages(map_location)
    plain = Reader(storages)
    if plain.run(stream) != MAGIC:
        raise refused("this is a pickle, and no file of torch.save", "Write it again with torch.save.")
    if Reader(storages).run(stream) != PROTOCOL:
        raise refused("the file is of an unknown older format")
    if not Reader(storages).run(stream).get("little_endian", True):
        raise refused("the file was written on a big-endian machine")
    # Only this one of the pickles may hold objects.
    answer = reader(storages).run(stream)
    for key in Reader(storages).run(stream):
        _read(stream, storages, str(key))
    storages.finish()
    return answer


def _read(stream: Any, storages: _OldStorages, key: str) -> None:
    storage = storages._known[key]
    (count,) = struct.unpack("<q", stream.read(8))
    raw = stream.read(len(storage.elements) * storage.dtype.itemsize)
    if count != len(storage.elements) or len(raw) != count * storage.dtype.itemsize:
        raise refused(f"the file ends inside of storage {key!r}")
    storage.elements = decoded(np.frombuffer(raw, STORED[storage.dtype]), storage.dtype)


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Allow classes and functions in files; each alone, or with the name that files have."""
    for item in safe_globals:
        thing, name = item if isinstance(item, tuple) else (item, None)
        path = name.rpartition(".") if name else (thing.__module__, ".", thing.__qualname__)
        safe.value[f"{path[0]} {path[2]}"] = thing


def get_safe_globals() -> list[Any]:
    """What is allowed."""
    return list(safe.value.values())


def clear_safe_globals() -> None:
    """Allow nothing more."""
    safe.value.clear()


@contextmanager
def safe_globals(safe_globals: Iterable[Any]) -> Iterator[None]:
    """Allow classes and functions inside of a block."""
    before = dict(safe.value)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        safe.value = before
