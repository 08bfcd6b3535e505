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

from lazytensor import config
from lazytensor.system import atomic_files

DIGEST_BYTES = 32
MAX_CACHE_BYTES = 1 << 28
"""What a process leaves of earlier ones' files when it writes its first."""
# A link, or a pipe that would block for ever, is as good as no file.
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OTHERS_WRITE_BITS, _OTHERS_ANY_BITS = 0o022, 0o077

_warned_kinds: set[str] = set()
_trimmed_folders: set[pathlib.Path] = set()


def read_kernel(name: str) -> bytes | None:
    """What was written under this name, or None: not there, damaged, or not from this user."""
    folder = _kernel_folder(config.current().cache_folder)
    if folder is None:
        return None
    try:
        whole = _read_private_file(folder / name)
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn_once("damaged", f"{folder / name} is not used: {error.strerror or error}; its kernel is compiled again")
        return None
    if whole[:DIGEST_BYTES] != _digest(name, whole[DIGEST_BYTES:]):
        _warn_once("damaged", f"{folder / name} is damaged: its kernel is compiled again")
        return None
    return whole[DIGEST_BYTES:]


def write_kernel(name: str, data: bytes) -> None:
    """Keep `data` under a name, in place of what was there."""
    folder = _kernel_folder(config.current().cache_folder)
    if folder is None:
        return
    if folder not in _trimmed_folders:
        _trimmed_folders.add(folder)
        # Not by who only reads: to look at the names of thousands of files takes as long as to load a program's.
        atomic_files.remove_leftovers(folder)
        trim_cache(MAX_CACHE_BYTES)
    try:
        _write_atomically(folder / name, _digest(name, data) + data)
    except OSError as error:
        _warn_no_cache(f"{folder} cannot be written: {error.strerror or error}")


def trim_cache(most_bytes: int = sys.maxsize) -> tuple[int, int]:
    """How many files there are, and their bytes; of more than `most_bytes` those go that nobody read for longest."""
    folder = _kernel_folder(config.current().cache_folder)
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


def _write_atomically(path: pathlib.Path, data: bytes) -> None:
    with atomic_files.atomic_write(path) as handle:
        # One write may take a part only, and on a full disk the rest fails by itself.
        while data:
            data = data[os.write(handle, data) :]


def _digest(name: str, data: bytes) -> bytes:
    # With the name: a kernel that was copied over another one is whole, and wrong.
    check = hashlib.blake2b(name.encode() + b"\0", digest_size=DIGEST_BYTES)
    check.update(data)
    return check.digest()


def _read_private_file(path: pathlib.Path) -> bytes:
    """The bytes of a plain file that nobody else can have written. Raises OSError otherwise."""
    with open(os.open(path, _READ_FLAGS), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no plain file")
        if not _is_owned_by_user(status) or _has_mode_bits(status, _OTHERS_WRITE_BITS):
            raise OSError("other users can write it")
        return file.read()


def _is_owned_by_user(status: os.stat_result) -> bool:
    return os.name != "posix" or status.st_uid == os.geteuid()


def _has_mode_bits(status: os.stat_result, bits: int) -> bool:
    return os.name == "posix" and status.st_mode & bits != 0


@functools.cache
def _kernel_folder(cache: pathlib.Path) -> pathlib.Path | None:
    """Return this user's folder in a cache folder that users may share; None if it cannot be made private."""
    folder = cache / (f"compiled-{os.geteuid()}" if os.name == "posix" else "compiled")
    try:
        _make_private_folder(folder)
    except OSError as error:
        _warn_no_cache(f"{folder} is not used: {error.strerror or error}")
        return None
    return folder


def _make_private_folder(folder: pathlib.Path) -> None:
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
    if not _is_owned_by_user(status):
        raise OSError(f"it belongs to user {status.st_uid}")
    if _has_mode_bits(status, _OTHERS_ANY_BITS):
        folder.chmod(0o700)
        # Some file systems take the call and keep the mode.
        if _has_mode_bits(folder.lstat(), _OTHERS_WRITE_BITS):
            raise OSError("other users can write it")


def _warn_no_cache(reason: str) -> None:
    _warn_once(
        "without",
        f"compiled kernels are not kept: {reason}. The run goes on and compiles what it needs; LT_CACHE names another "
        "folder for them.",
    )


def _warn_once(kind: str, text: str) -> None:
    """Warn the first time that something of a kind happens: a cache on a full disk would say it for each kernel."""
    if kind not in _warned_kinds:
        _warned_kinds.add(kind)
        warnings.warn(text, UserWarning, stacklevel=2)
