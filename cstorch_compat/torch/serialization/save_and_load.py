"""`torch.save`, `torch.load` and `torch.serialization`: whole modules, arrays, and files from before the zip format."""

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
from lazytensor.errors import CheckpointError
from lazytensor.serialization.reader import python3_path
from lazytensor.system.plain_files import open_plain_file

ZIP_MAGIC = b"PK\x03\x04"


def save(
    obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True
) -> None:
    """Write an object: tensors, modules, arrays, and what else pickle can describe.

    A file at a path appears when it is complete: an older one stays whole until then, and if the disk is full. Without
    `_use_new_zipfile_serialization` the format is that before PyTorch 1.6, of which an open file takes several.
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
        # Errors of the disk have no line yet.
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
    """Read what `save` or PyTorch wrote. Nothing of the file is executed, whatever `weights_only` is.

    With `weights_only` (the default unless a `pickle_module` is given) classes come from PyTorch's list and from
    `add_safe_globals`; else also PyTorch's layers, NumPy's arrays, values of the standard library, and plain classes of
    modules that are imported already. `encoding` is that of texts which Python 2 wrote. Raises UnsafeGlobal for another
    class, EOFError at the end of an open file, CheckpointError for a damaged file.
    """
    if pickle_module is not None and weights_only:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if weights_only is None:
        weights_only = pickle_module is None and not _is_env_set("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    weights_only = weights_only or _is_env_set("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    # Made for each pickle of a file, with the rule of this call.
    reader = partial(ObjectReader, weights_only=weights_only, encoding=encoding)
    if isinstance(f, str | os.PathLike):
        with open_plain_file(f) as stream:
            return _load(stream, map_location, reader, bool(mmap))
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    return _load(f, map_location, reader)


def _is_env_set(variable: str) -> bool:
    return os.environ.get(variable, "0").lower() in ("1", "y", "yes", "true")


def _load(stream: Any, map_location: Any, reader: Any, is_mapped: bool = False) -> Any:
    # Some streams cannot go back: they are read whole.
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
            hint="Leave mmap out.",
        )
    return legacy_formats.load(stream, map_location, reader)


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Allow classes and functions in files: each by itself, or in a pair with the name that files have for it."""
    for item in safe_globals:
        thing, name = item if isinstance(item, tuple) else (item, None)
        path = " ".join(name.rsplit(".", 1)) if name else ObjectWriter().global_path(thing)
        allowed_globals.value[python3_path(path)] = thing


def get_safe_globals() -> list[Any]:
    """What is allowed."""
    return list(allowed_globals.value.values())


def clear_safe_globals() -> None:
    """Allow nothing more."""
    allowed_globals.value.clear()


@contextmanager
def safe_globals(safe_globals: Iterable[Any]) -> Iterator[None]:
    """Allow classes and functions inside of a block."""
    before = dict(allowed_globals.value)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        allowed_globals.value = before
