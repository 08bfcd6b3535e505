"""A journal that records and undoes what a script changes in the file system.

`check` and `plan` run a script up to its first step. Files written until then, such as logs and event files, are no
result. A plan runs the script several times, and each run must find the same files.
"""

import contextlib
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

import h5py

from lazytensor import config
from lazytensor.system import atomic_files

MAX_BACKUP_BYTES = 1 << 28
"""Maximum total size of the files that a journal copies before they change. Larger changes are reported, not undone."""
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
"""Flags of the system call `open` that allow changes to the file."""
MAX_SHOWN_NAMES = 5
"""Maximum number of file names in a sentence."""


class FileJournal:
    """A context manager that undoes, on exit, the changes of the enclosed code to the file system.

    New files and folders are removed. Changed, removed and renamed files are restored, and so is the working directory.
    If one change could not be recorded (overwriting more than `MAX_BACKUP_BYTES`), nothing is undone, because a new
    file may then hold the only copy of the data.

    The journal does not see changes by other processes, by native code other than h5py, or by threads that were started
    before it was entered. It ignores the caches of this package. It may be entered again, but not inside another
    journal.

    undone: paths of the changes that were undone, in order
    remaining: paths of the changes that were not undone
    other_threads: native ids of the threads to ignore
    on_existing: called with the path of each file or folder from before the journal that is about to change; it may
        raise an exception, which the changing call then raises

    The paths are relative to the working directory if they are inside it. Paths inside a listed folder are omitted, and
    so are files that the code removed or renamed itself.
    """

    def __init__(self) -> None:
        self.undone: list[str] = []
        self.remaining: list[str] = []
        self._entries: list[tuple[str, Callable[[], object]]] = []
        self._created: set[str] = set()
        self._renamed: set[str] = set()
        self._unrecorded: list[str] = []
        self._backups = ""
        self._backup_bytes = 0
        self.other_threads: set[int | None] = set()
        self.on_existing: Callable[[str], object] = lambda path: None

    def __enter__(self) -> "FileJournal":
        _install_hook()
        self._entries, self._created, self._renamed, self._unrecorded, self._backup_bytes = [], set(), set(), [], 0
        self._folder = os.getcwd()
        # Use the native ids: Python reuses its own after a thread has ended.
        self.other_threads = {thread.native_id for thread in threading.enumerate()} - {threading.get_native_id()}
        # Otherwise Python writes .pyc files next to the script's modules.
        self._wrote_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        self._h5py = _audit_h5py()
        self._h5py.__enter__()
        _journal_state.journal = self
        return self

    def __exit__(self, *error: object) -> None:
        _journal_state.journal = None
        self._h5py.__exit__(None, None, None)
        sys.dont_write_bytecode = self._wrote_bytecode
        with contextlib.suppress(OSError):
            os.chdir(self._folder)
        if self._unrecorded:
            self._list(self.remaining, [*(path for path, _ in self._entries), *self._unrecorded])
        else:
            self._revert()
        if self._backups:
            shutil.rmtree(self._backups, ignore_errors=True)
            self._backups = ""

    def _revert(self) -> None:
        """Undo the recorded changes in reverse order."""
        undone, failed = set(), set()
        for path, undo in reversed(self._entries):
            try:
                if undo() is not False:
                    undone.add(path)
            except OSError:
                failed.add(path)
        self._list(self.undone, [path for path, _ in self._entries if path in undone - failed - self._renamed])
        self._list(self.remaining, [path for path, _ in self._entries if path in failed])

    def _list(self, listed: list[str], paths: Sequence[str]) -> None:
        """Add paths to the list `listed`, without those in a listed folder."""
        folder = os.path.realpath(self._folder)
        names = (path if (inside := os.path.relpath(path, folder)).startswith("..") else inside for path in paths)
        whole = dict.fromkeys([*listed, *names])
        listed[:] = [name for name in whole if not any(str(outer) in whole for outer in PurePath(name).parents)]
        self.undone[:] = [name for name in self.undone if name not in self.remaining]

    # -- events, each recorded before the change ----------------------------------------------------------------------

    def record_open(self, path: str, flags: int) -> None:
        """Record that `path` is about to be opened for writing, with the system call's `flags`.

        A new file will be removed. An existing regular file is backed up; for appending to a large one only its size is
        recorded.
        """
        if path in self._created or os.path.isdir(path):
            return
        if not os.path.lexists(path):
            if flags & os.O_CREAT and _can_appear(path):
                self._created.add(path)
                self._renamed.discard(path)
                self._note(path, lambda: _remove(os.unlink, path))
        elif stat.S_ISREG(os.stat(path).st_mode):  # a regular file: no terminal, pipe or device
            size = os.path.getsize(path)
            if flags & os.O_APPEND and not flags & os.O_TRUNC and size > MAX_BACKUP_BYTES:
                self.on_existing(path)
                self._note(path, lambda: os.truncate(path, size))
            else:
                self._back_up(path)

    def record_mkdir(self, path: str) -> None:
        """Record that the folder `path` is about to be made."""
        if _can_appear(path):
            self._created.add(path)
            self._note(path, lambda: _remove(os.rmdir, path))

    def record_link(self, path: str, file: str = "") -> None:
        """Record that the link `path` is about to be made.

        For a hard link, `file` is its target, which is backed up.
        """
        if _can_appear(path):
            if os.path.isfile(file) and not os.path.islink(file) and file not in self._created:
                self._back_up(file)
            self._note(path, lambda: _remove(os.unlink, path))

    def record_rename(self, source: str, target: str) -> None:
        """Record that `source` is about to be renamed to `target`.

        A file or folder called `target` is recorded as removed. Does nothing if `source` does not exist.
        """
        if not os.path.lexists(source):
            return
        if source in self._created:
            self._renamed.add(source)
        else:
            self.on_existing(source)
        is_new = source in self._created and not os.path.lexists(target)
        # Back up the file that the rename replaces.
        if os.path.isdir(target) and not os.path.islink(target):
            self.record_rmdir(target)
        else:
            self.record_remove(target)
        self._note(target, lambda: _rename_back(target, source))
        # Both names may later belong to files that the script did not make.
        gone = (source + os.sep, target + os.sep)
        self._created = {p for p in self._created - {source, target} if not p.startswith(gone)}
        if is_new:
            self._created.add(target)

    def record_remove(self, path: str) -> None:
        """Record that a file or link is about to be removed."""
        if path in self._created:
            self._created.discard(path)
        elif os.path.islink(path):
            self.on_existing(path)
            aim = os.readlink(path)
            self._note(path, lambda: _restore_link(aim, path))
        elif os.path.isfile(path):
            self._back_up(path)

    def record_rmdir(self, path: str) -> None:
        """Record that an empty folder is about to be removed."""
        if path in self._created:
            self._created.discard(path)
        elif os.path.isdir(path):
            self.on_existing(path)
            self._note(path, lambda: os.makedirs(path, exist_ok=True))

    def _note(self, path: str, undo: Callable[[], object]) -> None:
        """Add the function that undoes a change of `path`. It may return False if there is nothing to undo."""
        self._entries.append((path, undo))

    def _back_up(self, path: str) -> None:
        """Copy the file `path` and record how to restore it. If that fails, the change counts as unrecorded."""
        self.on_existing(path)
        try:
            self._backup_bytes += os.path.getsize(path)
            if self._backup_bytes > MAX_BACKUP_BYTES:
                raise OSError("the file exceeds the limit of backups")
            self._backups = self._backups or tempfile.mkdtemp(prefix="lazywafer-")
            copy = os.path.join(self._backups, str(len(self._entries)))
            shutil.copy2(path, copy)
            before = os.stat(path)
        except OSError:
            self._unrecorded.append(path)
        else:
            self._note(path, lambda: _restore(copy, path, before))


def format_file_changes(journal: FileJournal) -> list[str]:
    """Return sentences on the files that a script changed; none if it changed no file."""
    told = []
    if journal.undone:
        told.append(f"Files that the script wrote were removed or restored: {_format_names(journal.undone)}.")
    if journal.remaining:
        told.append(f"Files that the script changed were not restored: {_format_names(journal.remaining)}.")
    return told


def _format_names(names: Sequence[str]) -> str:
    """Return the first MAX_SHOWN_NAMES names and the number of the remaining ones as text."""
    more = len(names) - MAX_SHOWN_NAMES
    return ", ".join(names[:MAX_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _can_appear(path: str) -> bool:
    """Return whether `path` does not exist and its parent folder does, so that it can be created."""
    return not os.path.lexists(path) and os.path.isdir(os.path.dirname(path))


def _remove(remove: Callable[[str], object], path: str) -> bool:
    """Call `remove(path)`. Return False if the path does not exist.

    Raises the OSError of `remove` if the path still exists.
    """
    try:
        remove(path)
    except OSError:
        if os.path.lexists(path):
            raise
        return False
    return True


def _restore(copy: str, path: str, before: os.stat_result) -> None:
    """Replace the file `path` by its backup `copy`, with the owner in `before`.

    The file is replaced by a new one, unless it has several hard links.
    """
    if before.st_nlink > 1:
        shutil.copy2(copy, path)
        return
    handle, temporary = atomic_files.create_temporary_file(Path(path))
    os.close(handle)
    try:
        shutil.copy2(copy, temporary)
        with contextlib.suppress(PermissionError):
            os.chown(temporary, before.st_uid, before.st_gid)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _restore_link(aim: str, path: str) -> None:
    """Make the symbolic link `path` to `aim` again, unless `path` exists."""
    if not os.path.lexists(path):
        os.symlink(aim, path)


def _rename_back(target: str, source: str) -> None:
    """Rename `target` back to `source` if only `target` exists."""
    if os.path.lexists(target) and not os.path.lexists(source):
        os.rename(target, source)


# -- the hook ----------------------------------------------------------------------------------------------------------


class _ThreadState(threading.local):
    is_busy = False


class _JournalState:
    journal: FileJournal | None = None
    is_installed = False


_thread_state, _journal_state = _ThreadState(), _JournalState()


def _install_hook() -> None:
    """Install the audit hook of all journals, once per process."""
    # An audit hook cannot be removed, so one hook serves all journals.
    if not _journal_state.is_installed:
        _journal_state.is_installed = True
        sys.addaudithook(_on_audit_event)


def _on_audit_event(event: str, args: tuple[Any, ...]) -> None:
    """Pass an audit event to the active journal.

    Events caused by the journal itself or by an ignored thread are skipped. Errors are ignored, because the call itself
    will raise them.
    """
    # An audit hook gets every event of the process, so the cheap tests come first.
    journal = _journal_state.journal
    if journal is None or event not in _EVENTS or _thread_state.is_busy:
        return
    if threading.get_native_id() in journal.other_threads:
        return
    _thread_state.is_busy = True
    try:
        _EVENTS[event](journal, *args)
    except (OSError, ValueError):
        pass  # the file does not exist, or the call itself will fail with its own error
    finally:
        _thread_state.is_busy = False


def _resolve_path(path: Any, folder: int = -1) -> str:
    """Return the absolute path of `path`, which is relative to the open folder `folder` or to the working directory.

    Raises ValueError for file descriptors, devices, and caches of this package.
    """
    name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    if not name:
        raise ValueError("a descriptor, whose file was noted when it was opened")
    if folder >= 0:
        name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
    parent, base = os.path.split(os.path.abspath(name))
    name = os.path.join(os.path.realpath(parent), base)
    if name.startswith(_ignored_folders()):
        raise ValueError("a cache of this package, or a device")
    return name


def _ignored_folders() -> tuple[str, ...]:
    """Return the folders whose changes are not recorded."""
    folders = str(config.current().cache_folder), os.path.expanduser("~/.config/lazywafer"), "/dev", "/proc"
    return tuple(os.path.join(os.path.realpath(folder), "") for folder in folders)


def _record_open(journal: FileJournal, path: Any, mode: Any, flags: int | None) -> None:
    """Record the opening of a file if its flags allow writing."""
    if (flags or 0) & WRITE_FLAGS:
        journal.record_open(os.path.realpath(_resolve_path(path)), flags or 0)


_EVENTS: dict[str, Callable[..., None]] = {
    "open": _record_open,
    "sqlite3.connect": lambda journal, path: _record_open(journal, path, None, os.O_RDWR | os.O_CREAT),
    "os.truncate": lambda journal, path, length: _record_open(journal, path, None, os.O_RDWR),
    "os.mkdir": lambda journal, path, mode, folder: journal.record_mkdir(_resolve_path(path, folder)),
    "os.rmdir": lambda journal, path, folder: journal.record_rmdir(_resolve_path(path, folder)),
    "os.remove": lambda journal, path, folder: journal.record_remove(_resolve_path(path, folder)),
    "os.symlink": lambda journal, aim, path, folder: journal.record_link(_resolve_path(path, folder)),
    "os.link": lambda journal, file, path, a, b: journal.record_link(_resolve_path(path, b), _resolve_path(file, a)),
    "os.rename": lambda journal, old, new, a, b: journal.record_rename(_resolve_path(old, a), _resolve_path(new, b)),
}
"""The function that records each of Python's audit events. It takes the journal and the arguments of the event."""


@contextlib.contextmanager
def _audit_h5py() -> Iterator[None]:
    """Make h5py, which opens files in native code, raise the same audit event as Python's `open`."""
    low: Any = h5py.h5f
    opening, creating = low.open, low.create

    def open_audited(name: Any, flags: int = low.ACC_RDWR, *args: Any, **kwargs: Any) -> Any:
        sys.audit("open", name, None, os.O_RDWR if flags & low.ACC_RDWR else os.O_RDONLY)
        return opening(name, flags, *args, **kwargs)

    def create_audited(name: Any, *args: Any, **kwargs: Any) -> Any:
        sys.audit("open", name, None, os.O_RDWR | os.O_CREAT)
        return creating(name, *args, **kwargs)

    low.open, low.create = open_audited, create_audited
    try:
        yield
    finally:
        low.open, low.create = opening, creating
