"""Output files of commands: atomic writes, and JSON that every reader accepts."""

import json
import os
import pathlib
import stat
from contextlib import suppress
from typing import Any

from lazytensor.system import atomic_files
from lazytensor.system.positioned_files import BINARY
from lazytensor.system.terminal import replace_surrogates


def write_file_atomically(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write a file atomically; text is encoded as UTF-8.

    Characters without a UTF-8 encoding (from file names) are written as escapes. A symbolic link is followed. A new
    file gets default permissions; an existing file keeps its permissions. Raises OSError, without leaving a partial
    file. If no file can be created in the folder, the file itself is written in place, not atomically.
    """
    content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    # Replace the target of a symbolic link, not the link.
    target = os.path.realpath(path)
    temporary = atomic_files.temporary_name(target)
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
    except OSError:
        pathlib.Path(target).write_bytes(content)
        return
    try:
        with open(handle, "wb") as file:
            file.write(content)
        with suppress(FileNotFoundError):
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def json_text(value: Any, **options: Any) -> str:
    """Return plain data as ASCII JSON; `options` are those of `json.dumps`.

    Lone surrogates in strings become escapes, because many JSON readers reject them.
    """
    return json.dumps(replace_surrogates(value), **options)
