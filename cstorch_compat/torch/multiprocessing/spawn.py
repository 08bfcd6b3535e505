"""`torch.multiprocessing`: Python's own, and `spawn`, which runs one function in several processes."""

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing import connection
from typing import Any


class ProcessException(Exception):
    """A process of `spawn` did not end well."""

    def __init__(self, msg: str, error_index: int, pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """A process of `spawn` raised an exception."""


class ProcessExitedException(ProcessException):
    """A process of `spawn` ended with a status or by a signal."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


def _run_process(fn: Callable[..., Any], i: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent was stopped too
    except Exception:
        # As text: the exception itself may not survive pickling.
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """The processes of one `spawn`."""

    def __init__(self, processes: list[Any], errors: list[Any]):
        self.processes, self.error_queues = processes, errors
        self.sentinels = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self) -> list[int]:
        """Their numbers."""
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for one or more to end; True when all have.

        Raises ProcessRaisedException or ProcessExitedException if one failed, after the others were ended.
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
        # The others may wait for the one that is gone.
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
    """Run fn(i, *args) in processes 0..nprocs - 1; with `join` wait for them, else return what waits."""
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for i in range(nprocs):
        # A queue for each: the first to fail is told from the others.
        queue = context.SimpleQueue()
        process = context.Process(target=_run_process, args=(fn, i, args, queue), daemon=daemon)
        process.start()
        processes.append(process)
        errors.append(queue)
    # All run before any is waited for.
    started = ProcessContext(processes, errors)
    if not join:
        return started
    # Each call waits for one process at least.
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
    """As `start_processes`, in new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """The ways in which PyTorch's tensors go to other processes; here they are copied."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """The one that PyTorch begins with."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Take a strategy, which has no effect. Raises AssertionError for an unknown one."""
    assert new_strategy in get_all_sharing_strategies()


def init_reductions() -> None:
    """Nothing: tensors are pickled as they are."""
