"""The functions `torch.save` and `torch.load`, and the allowed classes of `torch.serialization`."""

import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from cstorch_compat.files.atomic_write import replace_file
from cstorch_compat.torch.serialization import legacy_formats
from cstorch_compat.torch.serialization.pickled_objects import ObjectReader, ObjectWriter, allowed_globals
from lazytensor import serialization
from lazytensor.core import source
from lazytensor.errors import CheckpointError, OptionInvalid, ShapeError
from lazytensor.serialization.reader import python3_path
from lazytensor.system.plain_files import open_plain_file

ZIP_MAGIC = b"PK\x03\x04"
"""The first bytes of a zip archive."""


def save(
    obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True
) -> None:
    """Write an object to the path or open file `f`.

    The object may contain tensors, modules, arrays, and anything else that pickle can describe. A file at a path is
    written atomically: an existing file stays intact until the new one is complete, even if the disk is full. Without
    `_use_new_zipfile_serialization`, the format is that before PyTorch 1.6, which can be written several times to an
    open file. `pickle_module` and `pickle_protocol` have no effect. Raises AttributeError if `f` is neither a path nor
    writable.
    """

    def write(target: Any) -> None:
        if _use_new_zipfile_serialization:
            serialization.save(obj, target, writer=ObjectWriter())
        else:
            legacy_formats.save(obj, target)

    if not isinstance(f, str | os.PathLike):
        if not hasattr(f, "write"):
            raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
        return write(f)
    line = source.where()
    try:
        return replace_file(os.fspath(f), write)
    except CheckpointError as e:
        # Add the script's line to errors of the disk.
        raise e if e.where else type(e)(e.what, where=line, hint=e.hint) from e


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    encoding: str = "utf-8",
    errors: str = "strict",
    fix_imports: bool = True,
) -> Any:
    """Read an object that `save` or PyTorch wrote. No code of the file is executed, whatever `weights_only` is.

    - `map_location`: as in `torch.load`.
    - `weights_only`: allow only PyTorch's list of classes and those of `add_safe_globals`. This is the default unless
      `pickle_module` is given. If False, also allow PyTorch's layers, NumPy arrays, values of the standard library, and
      plain classes of imported modules. TORCH_FORCE_WEIGHTS_ONLY_LOAD overrides False, and
      TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD changes the default to False.
    - `mmap`: allowed only for paths of zip files.
    - `encoding`: the encoding of text that Python 2 wrote.

    `errors` and `fix_imports` have no effect. Raises UnsafeGlobal for another class, EOFError at the end of an open
    file, and CheckpointError for a damaged file. Raises RuntimeError for `pickle_module` together with `weights_only`,
    and ValueError for `mmap` with an open file.
    """
    if pickle_module is not None and weights_only:
        raise ShapeError(
            "Can not safely load weights when explicit pickle_module is specified",
            where=source.where(),
            hint="Omit pickle_module, or pass weights_only=False.",
        )
    if weights_only is None:
        weights_only = pickle_module is None and not _is_env_set("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    weights_only = weights_only or _is_env_set("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    # A reader is created for each pickle of the file.
    reader = partial(ObjectReader, weights_only=weights_only, encoding=encoding)
    if isinstance(f, str | os.PathLike):
        with open_plain_file(f) as stream:
            return _load(stream, map_location, reader, bool(mmap))
    if mmap:
        raise OptionInvalid(
            "f must be a file path in order to use the mmap argument",
            where=source.where(),
            hint="Pass the path of the file, or mmap=False.",
        )
    return _load(f, map_location, reader)


def _is_env_set(variable: str) -> bool:
    return os.environ.get(variable, "0").lower() in ("1", "y", "yes", "true")


def _load(stream: Any, map_location: Any, reader: Any, is_mapped: bool = False) -> Any:
    """Read an object from a stream in the zip format or an older one.

    Raises CheckpointError if `is_mapped` and the file is not in the zip format.
    """
    # Streams that cannot seek are read completely.
    if not (hasattr(stream, "seekable") and stream.seekable()):
        stream = io.BytesIO(stream.read())
    start = stream.tell()
    head = stream.read(4)
    stream.seek(start)
    if head == ZIP_MAGIC:
        return serialization.load(stream, map_location, reader=reader)
    if is_mapped:
        raise CheckpointError(
            "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True)`",
            where=source.where(),
            hint="Call torch.load without mmap.",
        )
    return legacy_formats.load(stream, map_location, reader)


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Allow classes and functions in files, until the process ends. An item may be a pair (object, name in the file).

    Raises CheckpointError for a local class or function without such a name.
    """
    for item in safe_globals:
        thing, name = item if isinstance(item, tuple) else (item, None)
        path = " ".join(name.rsplit(".", 1)) if name else ObjectWriter().global_path(thing)
        allowed_globals.value[python3_path(path)] = thing


def get_safe_globals() -> list[Any]:
    """Return the allowed classes and functions."""
    return list(allowed_globals.value.values())


def clear_safe_globals() -> None:
    """Clear the list of allowed classes and functions."""
    allowed_globals.value.clear()


@contextmanager
def safe_globals(safe_globals: Iterable[Any]) -> Iterator[None]:
    """Return a context manager in which the given classes and functions are also allowed in files.

    At its end the previous list is restored.
    """
    before = dict(allowed_globals.value)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        allowed_globals.value = before
