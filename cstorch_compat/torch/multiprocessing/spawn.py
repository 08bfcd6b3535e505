"""The functions `torch.multiprocessing.spawn` and `start_processes`, which run a function in several processes."""

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing import connection
from typing import Any


class ProcessException(Exception):
    """The base class of errors for failed processes of `spawn`.

    `error_index` is the index of the process, and `pid` its process id.
    """

    def __init__(self, msg: str, error_index: int, pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """The error for a process of `spawn` that raised an exception."""


class ProcessExitedException(ProcessException):
    """The error for a process of `spawn` that ended with a nonzero exit code or by a signal."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


def _run_process(fn: Callable[..., Any], i: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        # Sent as text, because an exception may not be picklable.
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """The processes of one call of `spawn`."""

    def __init__(self, processes: list[Any], errors: list[Any]):
        self.processes, self.error_queues = processes, errors
        self.sentinels = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self) -> list[int]:
        """Return the process ids."""
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until at least one process ends, and return whether all have ended.

        `timeout` is in seconds; if it passes, return False. `grace_period` has no effect. If a process failed,
        terminate the others and raise ProcessRaisedException, or ProcessExitedException if it ended without a Python
        exception.
        """
        if not self.sentinels:
            return True
        for sentinel in connection.wait(list(self.sentinels), timeout):
            i = self.sentinels.pop(sentinel)
            process = self.processes[i]
            process.join()
            if process.exitcode:
                self._raise_failure(i)
        return not self.sentinels

    def _raise_failure(self, i: int) -> None:
        """Terminate the other processes and wait for them, and raise the error for process `i`.

        It is ProcessRaisedException with the traceback if the process sent one, else ProcessExitedException with its
        exit code or signal.
        """
        # The other processes may be waiting for the failed one.
        for other in self.processes:
            if other.is_alive():
                other.terminate()
            other.join()
        process = self.processes[i]
        if self.error_queues[i].empty():
            code = process.exitcode
            how = f"terminated with signal {-code}" if code < 0 else f"terminated with exit code {code}"
            raise ProcessExitedException(f"process {i} {how}", i, process.pid, code)
        text = f"\n\n-- Process {i} terminated with the following error:\n{self.error_queues[i].get()}"
        raise ProcessRaisedException(text, i, process.pid)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` processes, with i from 0 to nprocs - 1.

    With `join`, wait until all have ended and return None; otherwise return a `ProcessContext`. Failures raise errors
    as in `ProcessContext.join`.
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for i in range(nprocs):
        # A queue for each process identifies the one that failed.
        queue = context.SimpleQueue()
        process = context.Process(target=_run_process, args=(fn, i, args, queue), daemon=daemon)
        process.start()
        processes.append(process)
        errors.append(queue)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    # Each call waits for at least one process.
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` new interpreters, as `start_processes`."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """Return the names of PyTorch's sharing strategies. Tensors are copied here."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """Return PyTorch's default strategy."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Do nothing. Raises AssertionError for an unknown strategy."""
    assert new_strategy in get_all_sharing_strategies()


def init_reductions() -> None:
    """Do nothing. Tensors are pickled."""
