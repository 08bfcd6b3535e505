"""Read an untrusted file in a child process first, which has limited time and may crash.

Some damaged tables make libhdf5 loop forever inside a call that cannot be interrupted, and some crash it. If reading
ends in the child, it also ends in this process, which performs the same steps on the same bytes. The child returns no
data, so the contents of the file cannot affect this process through it.
"""

import math
import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from typing import Any

from h5py._objects import phil  # h5py's lock around all HDF5 calls

from lazytensor.core import source
from lazytensor.errors import CheckpointError
from lazytensor.system.signals import defer_signals

resource: Any
try:
    import resource
except ImportError:  # Windows, which cannot fork either
    resource = None

MAX_LEAF_CPU_SECONDS = 2
"""Maximum CPU time for one leaf. Intact leaves take milliseconds; the system's limit has whole seconds."""
MAX_IDLE_SECONDS = 60.0
"""Maximum time without a heartbeat. A slow disk is no damage."""
_HINT = "Use another copy. To read this file by other means, use a separate process."
_is_warned = False

Heartbeat = Callable[[], None]
"""A function that the reader calls whenever it makes progress."""


def read_in_trial_process(read: Callable[[Heartbeat], object], path: str) -> None:
    """Run `read` in a forked process and wait for it. The result is discarded.

    `read` gets a function to call before each leaf. Raises CheckpointError if the process crashes, uses more than
    MAX_LEAF_CPU_SECONDS for a leaf, or does not call the function for MAX_IDLE_SECONDS. Exceptions of `read` are
    ignored, because the caller reads the file again. If no process can be started, nothing is run, and the first time a
    warning is given. `path` is the file in error messages.
    """
    into, out = os.pipe()
    child = _fork()
    if child == 0:
        # Close the read end in the child: otherwise the child would wait forever on a full pipe after the parent is
        # killed.
        os.close(into)
        _run_child(read, out)
    os.close(out)
    if child is None:
        os.close(into)
        return
    status = _wait_for_child(child, into)
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        raise CheckpointError("the file is damaged: HDF5 does not finish reading its tables", where=path, hint=_HINT)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        raise CheckpointError(f"the file is damaged: HDF5 crashes on its tables with {name}", where=path, hint=_HINT)


def _fork() -> int | None:
    """Fork while no other thread uses HDF5.

    Return the child's id, 0 in the child, or None if no process can be started, with a warning the first time.
    """
    global _is_warned
    try:
        # Hold h5py's lock: if another thread is inside HDF5, the child would wait for a thread that it does not have.
        # Ignore Python's warning about forks with threads, because the child runs no other code and leaves by `_exit`.
        with defer_signals(), phil, warnings.catch_warnings(action="ignore"):
            return os.fork()
    except (OSError, AttributeError) as e:
        if not _is_warned:
            _is_warned = True
            place = source.where()
            reason = str(e) if hasattr(os, "fork") else "this system cannot fork"
            text = (
                f"files without checksums are read without a time limit, because no process can be started ({reason})"
            )
            warnings.warn_explicit(text, UserWarning, place.file, place.line)
        return None


def _run_child(read: Callable[[Heartbeat], object], out: int) -> None:
    """Run `read` in the child, send heartbeats through the pipe `out`, and exit with status 0, even after an error."""
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]

    def beat() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + MAX_LEAF_CPU_SECONDS, most))
        os.write(out, b".")

    try:
        # Do not run the script's signal handlers in the child, and write no core file.
        for number in (signal.SIGXCPU, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        beat()
        read(beat)
    finally:
        # The parent raises any error when it reads the file itself.
        os._exit(0)


def _wait_for_child(child: int, into: int) -> int | None:
    """Return the wait status of the child, or None if it was killed after MAX_IDLE_SECONDS without a heartbeat.

    `into` is the read end of the pipe, which is closed. The child is also killed if an exception ends the wait.
    """
    is_alive = True
    try:
        with open(into, "rb", buffering=0) as pipe:
            while select.select([pipe], [], [], MAX_IDLE_SECONDS)[0]:
                if not pipe.read(1 << 16):
                    is_alive = False
                    return os.waitpid(child, 0)[1]
        return None
    finally:
        # Kill the child also if the user interrupts the wait.
        if is_alive:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
