"""Reads a file that nobody vouches for in a process first, which may not take for ever and may die.

Some damaged tables keep libhdf5 busy without end, inside a call that nothing in this process can interrupt, and some
crash it. What ends in the rehearsal ends here too, by the same steps on the same bytes; nothing else comes back from
there, so that no bytes of a stranger's file can speak through it.
"""

import math
import os
import resource
import select
import signal
import time
import warnings
from collections.abc import Callable

from h5py._objects import phil  # the lock around all of HDF5

from lazytensor.core import source
from lazytensor.errors import CheckpointError
from lazytensor.system.signals import defer_signals

MAX_LEAF_CPU_SECONDS = 2
"""What one leaf may take of a processor; good ones take milliseconds. Systems count whole seconds."""
MAX_IDLE_SECONDS = 60.0
"""How long nothing may happen: a slow disk is no damage."""
_HINT = "Use another copy; a process of its own can be given up, if this one has to be read by other means."
_is_warned = False

Heartbeat = Callable[[], None]
"""Called by a reader whenever it has come further."""


def read_in_trial_process(read: Callable[[Heartbeat], object], path: str) -> None:
    """Run `read` in a forked process. Raises CheckpointError if it never ends there or dies.

    Where no process can be had the file is read directly, with one warning.
    """
    into, out = os.pipe()
    child = _fork()
    if child == 0:
        # Its own end would keep the pipe open: where this process is killed it would wait for a reader for ever.
        os.close(into)
        _run_child(read, out)
    os.close(out)
    if child is None:
        os.close(into)
        return
    status = _wait_for_child(child, into)
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        raise CheckpointError("it is damaged: its tables keep HDF5 busy without end", where=path, hint=_HINT)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        raise CheckpointError(f"it is damaged: its tables make HDF5 end by {name}", where=path, hint=_HINT)


def _fork() -> int | None:
    """As `os.fork`; None where there are no processes to be had."""
    global _is_warned
    try:
        # Another thread may be inside HDF5: the child would wait for it, and it is not there. Python warns of forks
        # beside threads; the child runs none of their code and leaves by `_exit`.
        with defer_signals(), phil, warnings.catch_warnings(action="ignore"):
            return os.fork()
    except (OSError, AttributeError) as e:
        if not _is_warned:
            _is_warned = True
            place = source.where()
            text = f"files without checksums are read without a limit of time, as no process can be started ({e})"
            warnings.warn_explicit(text, UserWarning, place.file, place.line)
        return None


def _run_child(read: Callable[[Heartbeat], object], out: int) -> None:
    """The child: read, say now and then that all is well, and leave."""
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]

    def beat() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + MAX_LEAF_CPU_SECONDS, most))
        os.write(out, b".")

    try:
        # What the script does on signals is not for the child, nor is a core file of it.
        for number in (signal.SIGXCPU, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        beat()
        read(beat)
    finally:
        # An error is raised again, and told, where the file is read for good.
        os._exit(0)


def _wait_for_child(child: int, into: int) -> int | None:
    """The status of the child; None if it had to be killed since nothing happened any more."""
    is_alive = True
    try:
        with open(into, "rb", buffering=0) as pipe:
            while select.select([pipe], [], [], MAX_IDLE_SECONDS)[0]:
                if not pipe.read(1 << 16):
                    is_alive = False
                    return os.waitpid(child, 0)[1]
        return None
    finally:
        # Also when the user interrupts the wait.
        if is_alive:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
