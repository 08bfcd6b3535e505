"""The on-disk cache of compiled kernels, protected from other users.

The folder belongs to the user and no other user can access it. A file is opened without following links, must belong to
the user, and must not be writable by others. It starts with a digest of its name and contents; a file with a wrong
digest counts as missing. If the folder cannot be created, the run continues without a cache, after one warning.
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
from lazytensor.system.positioned_files import BINARY

DIGEST_BYTES = 32
MAX_CACHE_BYTES = 1 << 28
"""Size to which the cache is reduced when a process writes its first kernel."""
# Do not follow a link, and do not block on a pipe; both count as errors.
_READ_FLAGS = os.O_RDONLY | BINARY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OTHERS_WRITE_BITS, _OTHERS_ANY_BITS = 0o022, 0o077

_warned_kinds: set[str] = set()
_trimmed_folders: set[pathlib.Path] = set()


def read_kernel(name: str) -> bytes | None:
    """Return the data stored under a name; None if it is missing, damaged, or could have been written by another user.

    None also if there is no usable cache folder. A damaged or unsafe file causes one warning per process.
    """
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
    """Store `data` under a name, replacing previous data.

    The first write of a process also trims the cache to MAX_CACHE_BYTES. If writing fails, a warning is shown and
    nothing is stored.
    """
    folder = _kernel_folder(config.current().cache_folder)
    if folder is None:
        return
    if folder not in _trimmed_folders:
        _trimmed_folders.add(folder)
        # Only at a write: listing thousands of files takes as long as loading the kernels of a program.
        atomic_files.remove_leftovers(folder)
        trim_cache(MAX_CACHE_BYTES)
    try:
        _write_atomically(folder / name, _digest(name, data) + data)
    except OSError as error:
        _warn_no_cache(f"{folder} cannot be written: {error.strerror or error}")


def trim_cache(most_bytes: int = sys.maxsize) -> tuple[int, int]:
    """Remove the least recently used kernels until at most `most_bytes` remain.

    A kernel that does not fit in the rest is removed, and smaller older ones may be kept. Return the number of
    remaining files and their total bytes, (0, 0) without a cache folder.
    """
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
        # A write may be partial; on a full disk the next one raises an error.
        while data:
            data = data[os.write(handle, data) :]


def _digest(name: str, data: bytes) -> bytes:
    """Return the digest (DIGEST_BYTES long) of a file's name and contents."""
    # The digest includes the name, to detect a kernel that was copied over another one.
    check = hashlib.blake2b(name.encode() + b"\0", digest_size=DIGEST_BYTES)
    check.update(data)
    return check.digest()


def _read_private_file(path: pathlib.Path) -> bytes:
    """Return the bytes of a regular file that belongs to this user and that no other user can write.

    Links are not followed. Raises FileNotFoundError for a missing file, and OSError for any other file.
    """
    with open(os.open(path, _READ_FLAGS), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is not a regular file")
        if not _is_owned_by_user(status) or _has_mode_bits(status, _OTHERS_WRITE_BITS):
            raise OSError("other users can write it")
        return file.read()


def _is_owned_by_user(status: os.stat_result) -> bool:
    return os.name != "posix" or status.st_uid == os.geteuid()


def _has_mode_bits(status: os.stat_result, bits: int) -> bool:
    return os.name == "posix" and status.st_mode & bits != 0


@functools.cache
def _kernel_folder(cache: pathlib.Path) -> pathlib.Path | None:
    """Return this user's subfolder of a cache folder, creating it if necessary.

    Return None, with a warning, if it cannot be made private. The result is cached.
    """
    folder = cache / (f"compiled-{os.geteuid()}" if os.name == "posix" else "compiled")
    try:
        _make_private_folder(folder)
    except OSError as error:
        _warn_no_cache(f"{folder} is not used: {error.strerror or error}")
        return None
    return folder


def _make_private_folder(folder: pathlib.Path) -> None:
    """Create a folder that only this user can access, or check an existing one and remove access by others.

    Missing parent folders are created in the same way. Raises OSError if that is not possible, and for a link, a file,
    or a folder of another user.
    """
    for level in reversed((folder, *folder.parents)):
        # Create each level with this mode: `parents=True` would ignore it for the parents.
        if not level.exists():
            with contextlib.suppress(FileExistsError):
                level.mkdir(mode=0o700)
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise OSError("it is a link")
    if not stat.S_ISDIR(status.st_mode):
        raise OSError("it is not a folder")
    if not _is_owned_by_user(status):
        raise OSError(f"it belongs to user {status.st_uid}")
    if _has_mode_bits(status, _OTHERS_ANY_BITS):
        folder.chmod(0o700)
        # Some file systems ignore the call.
        if _has_mode_bits(folder.lstat(), _OTHERS_WRITE_BITS):
            raise OSError("other users can write it")


def _warn_no_cache(reason: str) -> None:
    _warn_once(
        "without",
        f"compiled kernels are not cached: {reason}. The run continues and compiles its kernels again. Set "
        "LT_CACHE to another folder to cache them.",
    )


def _warn_once(kind: str, text: str) -> None:
    """Show a warning the first time for each `kind`, because a full disk would cause one for each kernel."""
    if kind not in _warned_kinds:
        _warned_kinds.add(kind)
        warnings.warn(text, UserWarning, stacklevel=2)
