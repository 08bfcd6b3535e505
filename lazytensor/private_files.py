"""Files that this user's own programs wrote, or none: what is kept from run to run and executed lies here.

Three locks, each of which is enough against most of what can happen. The folder belongs to the user and nobody else can
open it. Each file is opened without following links, belongs to the user and cannot be written by others. And each
begins with a seal, a keyed checksum over its name and contents, so that damage, a file in the place of another and a
file of somebody else's making are all the same: not there. The key lies in the user's own settings and not beside the
files, as a folder can be handed on. Where any of it fails the run goes on without, and says so once.
"""

import contextlib
import functools
import hashlib
import hmac
import os
import pathlib
import secrets
import stat
import sys
import warnings

from lazytensor import config, leftovers

SEAL_BYTES = KEY_BYTES = 32
KEY = "kernels.key"
MOST_BYTES = 1 << 28
"""What a process leaves of earlier ones' files when it writes its first."""
# A link, or a pipe that would block for ever, is as good as no file.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OPEN_TO_WRITE, _OPEN_AT_ALL = 0o022, 0o077

_said: set[str] = set()
_trimmed: set[pathlib.Path] = set()


def read(name: str) -> bytes | None:
    """What was written under this name, or None: not there, damaged, or not from this user."""
    place = _place(config.current().cache_folder)
    if place is None:
        return None
    folder, key = place
    try:
        sealed = _own_bytes(folder / name)
    except FileNotFoundError:
        return None
    except OSError as error:
        _say_once("damaged", f"{folder / name} is not used: {error.strerror or error}; its kernel is compiled again")
        return None
    if not hmac.compare_digest(sealed[:SEAL_BYTES], _seal(key, name, sealed[SEAL_BYTES:])):
        _say_once("damaged", f"{folder / name} is damaged or was not written by you: its kernel is compiled again")
        return None
    return sealed[SEAL_BYTES:]


def write(name: str, data: bytes) -> None:
    """Keep `data` under a name, in place of what was there."""
    place = _place(config.current().cache_folder)
    if place is None:
        return
    folder, key = place
    if folder not in _trimmed:
        _trimmed.add(folder)
        # Not by who only reads: to look at the names of thousands of files takes as long as to load a program's.
        leftovers.clear(folder)
        kept(MOST_BYTES)
    try:
        _put(folder / name, _seal(key, name, data) + data)
    except OSError as error:
        _without(f"{folder} cannot be written: {error.strerror or error}")


def kept(most_bytes: int = sys.maxsize) -> tuple[int, int]:
    """How many files there are, and their bytes; of more than `most_bytes` those go that nobody read for longest."""
    place = _place(config.current().cache_folder)
    rows = []
    for path in place[0].glob("*.kernel") if place else ():
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


def _seal(key: bytes, name: str, data: bytes) -> bytes:
    # With the name: a kernel that was copied over another one is whole, and wrong.
    check = hashlib.blake2b(name.encode() + b"\0", key=key, digest_size=SEAL_BYTES)
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
def _place(cache: pathlib.Path) -> tuple[pathlib.Path, bytes] | None:
    """The folder of this user in a cache folder, which may be everybody's, and the key; None where there is none."""
    folder = cache / (f"kernels-{os.geteuid()}" if os.name == "posix" else "kernels")
    try:
        _close(folder)
        key = _key(folder)
    except OSError as error:
        _without(f"{folder} is not used: {error.strerror or error}")
        return None
    return folder, key


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


def _key(folder: pathlib.Path) -> bytes:
    """The user's key: from the settings, or from the private folder itself where there is no home to write to."""
    try:
        home = pathlib.Path.home() / ".config" / "lazywafer"
        _close(home)
        return _key_of(home / KEY)
    except (OSError, RuntimeError):  # no home at all is a RuntimeError
        return _key_of(folder / KEY)


def _key_of(path: pathlib.Path) -> bytes:
    """The key in a file; a new one if there is none or it is damaged. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        with contextlib.suppress(OSError):
            if len(key := _own_bytes(path)) == KEY_BYTES:
                return key
        path.unlink()
    handle, temporary = leftovers.temporary_beside(path)
    try:
        with open(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        # Of several processes that start together the first gives the key, whole, and the others take it.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
    return _own_bytes(path)


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
