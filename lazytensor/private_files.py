"""Files of compiled code that only this user can have written.

The folder belongs to the user, and no other user can open it. A file is opened without following links, belongs to the
user and cannot be written by others. It begins with a digest of its name and contents: a damaged file, or one in the
place of another, counts as missing. If the folder cannot be made, the run continues without it, with one warning.
"""

import contextlib
import functools
import hashlib
import os
import pathlib
import stat
import sys
import warnings

from lazytensor import config, leftovers

DIGEST_BYTES = 32
MOST_BYTES = 1 << 28
"""What a process leaves of earlier ones' files when it writes its first."""
# A link, or a pipe that would block for ever, is as good as no file.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OPEN_TO_WRITE, _OPEN_AT_ALL = 0o022, 0o077

_said: set[str] = set()
_trimmed: set[pathlib.Path] = set()


def read(name: str) -> bytes | None:
    """What was written under this name, or None: not there, damaged, or not from this user."""
    folder = _folder(config.current().cache_folder)
    if folder is None:
        return None
    try:
        whole = _own_bytes(folder / name)
    except FileNotFoundError:
        return None
    except OSError as error:
        _say_once("damaged", f"{folder / name} is not used: {error.strerror or error}; its kernel is compiled again")
        return None
    if whole[:DIGEST_BYTES] != _digest(name, whole[DIGEST_BYTES:]):
        _say_once("damaged", f"{folder / name} is damaged: its kernel is compiled again")
        return None
    return whole[DIGEST_BYTES:]


def write(name: str, data: bytes) -> None:
    """Keep `data` under a name, in place of what was there."""
    folder = _folder(config.current().cache_folder)
    if folder is None:
        return
    if folder not in _trimmed:
        _trimmed.add(folder)
        # Not by who only reads: to look at the names of thousands of files takes as long as to load a program's.
        leftovers.clear(folder)
        kept(MOST_BYTES)
    try:
        _put(folder / name, _digest(name, data) + data)
    except OSError as error:
        _without(f"{folder} cannot be written: {error.strerror or error}")


def kept(most_bytes: int = sys.maxsize) -> tuple[int, int]:
    """How many files there are, and their bytes; of more than `most_bytes` those go that nobody read for longest."""
    folder = _folder(config.current().cache_folder)
    rows = []
    for path in folder.glob("*.kernel") if folder else ():
        with contextlib.suppress(OSError):  # another process may remove it just now
            status = path.stat()
            rows.append((-max(status.st_atime, status.st_mtime), status.st_size, path))
    count = total = 0
    for _, size, path in sorted(rows):
        if total + size <= most_bytes:
            count, total = count + 1, total + size
        else:
            path.unlink(missing_ok=True)
    return count, total


def _put(path: pathlib.Path, data: bytes) -> None:
    with leftovers.written_whole(path) as handle:
        # One write may take a part only, and on a full disk the rest fails by itself.
        while data:
            data = data[os.write(handle, data) :]


def _digest(name: str, data: bytes) -> bytes:
    # With the name: a kernel that was copied over another one is whole, and wrong.
    check = hashlib.blake2b(name.encode() + b"\0", digest_size=DIGEST_BYTES)
    check.update(data)
    return check.digest()


def _own_bytes(path: pathlib.Path) -> bytes:
    """The bytes of a plain file that nobody else can have written. Raises OSError otherwise."""
    with open(os.open(path, _READ), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no plain file")
        if not _is_own(status) or _is_open(status, _OPEN_TO_WRITE):
            raise OSError("other users can write it")
        return file.read()


def _is_own(status: os.stat_result) -> bool:
    return os.name != "posix" or status.st_uid == os.geteuid()


def _is_open(status: os.stat_result, bits: int) -> bool:
    return os.name == "posix" and status.st_mode & bits != 0


@functools.cache
def _folder(cache: pathlib.Path) -> pathlib.Path | None:
    """Return this user's folder in a cache folder that users may share; None if it cannot be made private."""
    folder = cache / (f"compiled-{os.geteuid()}" if os.name == "posix" else "compiled")
    try:
        _close(folder)
    except OSError as error:
        _without(f"{folder} is not used: {error.strerror or error}")
        return None
    return folder


def _close(folder: pathlib.Path) -> None:
    """Create a folder for this user alone, or see that it is one. Raises OSError if it cannot be."""
    for level in reversed((folder, *folder.parents)):
        # Each level by itself: the parents would be open to everybody under a umask of 0.
        if not level.exists():
            with contextlib.suppress(FileExistsError):
                level.mkdir(mode=0o700)
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise OSError("it is a link")
    if not stat.S_ISDIR(status.st_mode):
        raise OSError("it is no folder")
    if not _is_own(status):
        raise OSError(f"it belongs to user {status.st_uid}")
    if _is_open(status, _OPEN_AT_ALL):
        folder.chmod(0o700)
        # Some file systems take the call and keep the mode.
        if _is_open(folder.lstat(), _OPEN_TO_WRITE):
            raise OSError("other users can write it")


def _without(reason: str) -> None:
    _say_once(
        "without",
        f"compiled kernels are not kept: {reason}. The run goes on and compiles what it needs; LT_CACHE names another "
        "folder for them.",
    )


def _say_once(kind: str, text: str) -> None:
    """Warn the first time that something of a kind happens: a cache on a full disk would say it for each kernel."""
    if kind not in _said:
        _said.add(kind)
        warnings.warn(text, UserWarning, stacklevel=2)
