"""What commands write: files that appear whole, and JSON that every reader takes."""

import json
import os
import pathlib
import stat
from contextlib import suppress
from typing import Any

from lazytensor.system import atomic_files
from lazytensor.system.terminal import replace_surrogates


def write_file_atomically(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write a file, text as UTF-8, that appears under its name when it is complete; an older one stays until then.

    What has no UTF-8 in a text, as a part of a file's name, is written as an escape. A new file has the permissions
    that `open` gives, an older one keeps its own. Raises OSError; no part of the file is left then. Where the folder
    takes no new file, an older file is written in place.
    """
    content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    # The file that a link leads to is replaced, and not the link.
    target = os.path.realpath(path)
    temporary = atomic_files.temporary_name(target)
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
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
    """Return plain data as JSON in ASCII; `options` are those of `json.dumps`.

    What has no UTF-8 in a text is shown as an escape: half of a surrogate pair is an error to many readers of JSON.
    """
    return json.dumps(replace_surrogates(value), **options)
