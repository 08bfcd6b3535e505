"""Pools of worker processes, as the parent uses them: start, send requests, detect failures, and shut down."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import util
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

from lazytensor.core import source
from lazytensor.data.worker import STACK_SIGNAL, WorkerAnswer, WorkerFailure, WorkerSetup, open_parent_pipes, run_worker
from lazytensor.data.worker_errors import SlowWorkerWarning, WorkerError, unpicklable_error
from lazytensor.data.worker_stack import WorkerStackFile
from lazytensor.errors import DataError
from lazytensor.system.signals import defer_signals

GRACE_SECONDS = 1.0
"""Time for a worker to finish its current sample at shutdown before it is terminated."""
SLOW_WARNING_SECONDS = 60.0
"""Time without an answer after which a warning is shown once. Without a `timeout`, the parent waits without limit."""
POLL_SECONDS = 0.5
"""Interval at which the parent checks whether silent workers are alive.

The pipe of a dead worker does not end if another process holds it open.
"""


def default_context() -> Any:
    """Return the multiprocessing context of loaders without `multiprocessing_context`.

    It is that of `multiprocessing.set_start_method`, if the script has called it. Otherwise it is spawn on macOS and
    Windows, as in PyTorch, and fork on other systems. With fork, functions and datasets need not be picklable.
    """
    chosen = multiprocessing.get_start_method(allow_none=True)
    return multiprocessing.get_context(chosen or ("spawn" if sys.platform in ("darwin", "win32") else "fork"))


class WorkerPool:
    """Worker processes with a pipe to each, and the answers that were received but not requested yet.

    - `posts`: the setup of each worker.
    - `context`: the multiprocessing context.
    - `title`: the name of a worker in messages.
    - `may_hire`: whether workers may start processes.
    - `ways`: a text for messages that says how to set a timeout.

    Raises DataError inside a worker process that is a daemon, because daemons cannot have child processes, and in a
    process that imports the script. Raises one of `worker_errors.unpicklable_error` if `posts` cannot be pickled and
    the context does not fork.
    """

    def __init__(
        self,
        posts: Sequence[WorkerSetup],
        context: Any,
        title: str = "DataLoader worker",
        may_hire: bool = False,
        ways: str = "",
    ):
        # A process that multiprocessing has started without fork runs the script again, up to its main guard.
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise DataError(
                "a worker process has started workers while it imported the script",
                where=source.where(),
                hint='Put the loop over the loader below `if __name__ == "__main__":`.',
            )
        # Python's error for this case is an AssertionError without advice.
        if multiprocessing.current_process().daemon:
            raise DataError(
                "a worker of a DataLoader cannot start workers",
                where=source.where(),
                hint="Use num_workers=0 for the DataLoader inside the dataset.",
            )
        self.title, self._ways = title, ways or "set timeout= of the DataLoader to limit the wait"
        self._has_noticed = False
        # A spawned process may not have installed the handler yet, and the signal would end it.
        self._imports_script = context.get_start_method() != "fork"
        self._can_tell = bool(STACK_SIGNAL) and not self._imports_script
        self._stack = WorkerStackFile() if self._can_tell else None
        self.pipes: list[Connection] = []
        self._processes: list[Any] = []
        # Received answers, still pickled, so that an error of unpickling is raised when the batch is requested.
        self._come: list[deque[bytes]] = [deque() for _ in posts]
        # Runs when this object is freed, and at exit before Python waits for child processes that are not daemons; not
        # in a forked worker.
        self.close = util.Finalize(self, _shut_down, (self._processes, self.pipes, self._stack), exitpriority=1)
        for post in posts:
            self._start(post, context, not may_hire)

    def _start(self, post: WorkerSetup, context: Any, is_daemon: bool) -> None:
        """Start a worker process with a pipe to it, and add both to the pool.

        With `is_daemon`, it ends with the parent.
        """
        # A duplex pipe per worker. Shared queues have locks, and a worker that dies with a lock blocks all others.
        mine, theirs = context.Pipe()
        open_parent_pipes.add(mine)
        self.pipes.append(mine)
        # Workers are daemons, which end with the parent, unless they may start processes.
        stack = self._stack.descriptor if self._stack is not None else None
        process = context.Process(
            target=run_worker, args=(post, theirs, stack), daemon=is_daemon, name=f"{self.title} {post.id}"
        )
        # Defer signals: one during the fork would be lost, and one right after it would leave an unregistered worker.
        with defer_signals(), warnings.catch_warnings():
            # Python 3.12 warns because of the threads of OpenBLAS, which supports forking.
            warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
            try:
                process.start()
            # Only a process that is not forked gets its objects by pickle.
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                if context.get_start_method() == "fork":
                    raise
                theirs.close()
                self.close()
                raise unpicklable_error(error) from error
            self._processes.append(process)
        theirs.close()  # so that the pipe ends with the worker

    @property
    def is_open(self) -> bool:
        """Whether the workers are running."""
        return self.close.still_active()

    def pid(self, worker: int) -> int:
        """Return the process id of a worker."""
        pid: int = self._processes[worker].pid
        return pid

    def ask(self, worker: int, turn: int, index: Any) -> None:
        """Send a request to a worker. Raises WorkerError, after closing the pool, if the worker has died.

        `turn` is the number of the iteration, and `index` what to fetch.
        """
        try:
            # This cannot deadlock: the worker's main thread reads while its sender thread writes.
            self.pipes[worker].send((turn, index))
        except (BrokenPipeError, ConnectionResetError):
            self._raise_worker_lost(worker)

    def answer(self, worker: int, turn: int, timeout: float) -> WorkerAnswer:
        """Return the next answer of a worker for the iteration `turn`; answers for earlier iterations are discarded.

        Warns once per pool if that takes SLOW_WARNING_SECONDS. Raises WorkerError if any worker dies, or if this one
        takes longer than `timeout` seconds (0 means no limit), and the error of an answer that cannot be unpickled. The
        pool is closed then.
        """
        began = time.monotonic()
        end = began + timeout if timeout else None
        while True:
            # Each worker answers in order, so the next answer of this turn is the requested one. Earlier turns are
            # iterations that were abandoned.
            while self._come[worker]:
                answer = self._unpickle_answer(self._come[worker].popleft())
                if answer.turn == turn:
                    return answer
            # A late worker may be blocked forever, so the pool is closed.
            if end is not None and time.monotonic() >= end:
                self._late(worker, timeout)
            if not self._has_noticed and time.monotonic() >= began + SLOW_WARNING_SECONDS:
                self._warn_slow(worker)
            self._look(POLL_SECONDS if end is None else min(POLL_SECONDS, max(0.0, end - time.monotonic())))

    def _late(self, worker: int, timeout: float) -> NoReturn:
        """Close the pool and raise WorkerError for a worker that exceeded its timeout.

        The message has its process id and, if it can report it, its current line.
        """
        pid, place = self.pid(worker), self._told(worker)[1]
        self.close()
        # PyTorch's message, which programs search for.
        is_loader = self.title.startswith("DataLoader")
        what = f"{'DataLoader' if is_loader else self.title} timed out after {timeout} seconds"
        hint = "Increase timeout=, or set num_workers=0 to find out what the dataset waits for."
        raise WorkerError(
            f"{what}: worker {worker} (pid {pid}) has not answered{place}",
            where=source.where(),
            hint=hint if is_loader else f"Find out what the input function waits for; {self._ways}.",
        )

    def _told(self, worker: int) -> tuple[str, str]:
        """Make a worker report its stack; return the stack, and a text with its current line.

        Both are empty if it cannot report them. The worker is interrupted by STACK_SIGNAL.
        """
        if self._stack is None:
            return "", ""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid(worker), STACK_SIGNAL)
            return self._stack.told()
        return "", ""

    def _warn_slow(self, worker: int) -> None:
        """Show a SlowWorkerWarning that a worker is slow, and print its stack to standard error.

        The pool shows no further such warning.
        """
        self._has_noticed = True
        stack, place = self._told(worker)
        if stack and sys.stderr is not None:
            print(stack, end="", file=sys.stderr)
        who = f"{self.title} {worker} (pid {self.pid(worker)})"
        warnings.warn(
            f"{who} has sent nothing for {SLOW_WARNING_SECONDS:.0f} seconds{place}. The loop still waits for "
            f"it; {self._ways}.",
            SlowWorkerWarning,
            stacklevel=2,
        )

    def _unpickle_answer(self, letter: bytes) -> WorkerAnswer:
        """Return a received answer. If unpickling fails, close the pool and raise the error."""
        try:
            answer: WorkerAnswer = pickle.loads(letter)
        except BaseException:
            self.close()  # the turn of the answer is unknown
            raise
        return answer

    def _look(self, seconds: float) -> None:
        """Receive the available answers of all workers, still pickled; wait up to `seconds` if there are none.

        Raises WorkerError, after closing the pool, if a worker has died.
        """
        # Read all pipes: a full pipe would block its worker, and the death of any worker should be detected soon.
        ready = wait(self.pipes, seconds)
        for worker, pipe in enumerate(self.pipes):
            if pipe not in ready:
                continue
            try:
                letter = pipe.recv_bytes()
            # The worker's end of the pipe is closed only when its process ends.
            except (EOFError, OSError):
                self._raise_worker_lost(worker)
            self._come[worker].append(letter)
        if not ready:
            # A child process of a dead worker may hold the pipe open, so check the processes too.
            for worker, process in enumerate(self._processes):
                if process.exitcode is not None and not self.pipes[worker].poll():
                    self._raise_worker_lost(worker)

    def _raise_worker_lost(self, worker: int) -> NoReturn:
        """Close the pool and raise WorkerError for a worker that has died, with its exit code or signal.

        Waits up to GRACE_SECONDS for the exit code.
        """
        process = self._processes[worker]
        # The exit code is available slightly after the end of the pipe.
        process.join(GRACE_SECONDS)
        pid, code = process.pid, process.exitcode
        how = f"exited unexpectedly with code {code}"
        # A negative exit code is a signal. The system sends SIGKILL if memory runs out.
        if code is not None and code < 0:
            how = f"was killed by signal {_signal_name(-code)}"
        self.close()
        hint = (
            "If memory ran out, use fewer workers or smaller batches. Set num_workers=0 to see errors of the dataset."
        )
        if self._imports_script:
            hint += ' Put the loop over the loader below `if __name__ == "__main__":`.'
        raise WorkerError(f"{self.title} {worker} (pid {pid}) {how}", where=source.where(), hint=hint)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _shut_down(processes: Sequence[Any], pipes: Sequence[Connection], stack: WorkerStackFile | None) -> None:
    """Close the pipes, which ends the workers, and wait until they have ended; see `_stop_processes`.

    If an exception such as an interrupt arrives meanwhile, kill them and raise it. The file `stack` is closed in any
    case.
    """
    try:
        _stop_processes(processes, pipes)
    except BaseException:
        # An interrupt may arrive here, and this function is not called again: without killing the workers, Python would
        # wait for them without limit at exit.
        _close_pipes(pipes)
        for process in processes:
            process.kill()
        raise
    finally:
        if stack is not None:
            stack.close()


def _close_pipes(pipes: Iterable[Connection]) -> None:
    for pipe in pipes:
        open_parent_pipes.discard(pipe)
        pipe.close()


def _stop_processes(processes: Sequence[Any], pipes: Sequence[Connection]) -> None:
    """Close the pipes and wait until all processes have ended.

    Terminate those that run after `GRACE_SECONDS`, and kill them after another `GRACE_SECONDS`. Return after a third
    one even if a process still runs.
    """
    _close_pipes(pipes)
    # Wait for the workers to end by themselves, then terminate them, then kill them.
    for stop in (lambda p: None, lambda p: p.terminate(), lambda p: p.kill()):
        for process in processes:
            stop(process)
        end = time.monotonic() + GRACE_SECONDS
        for process in processes:
            process.join(max(0.0, end - time.monotonic()))
        if all(process.exitcode is not None for process in processes):
            break


# At exit, close remaining pipes before Python waits for child processes: an interrupt may have prevented a shutdown.
util.Finalize(None, lambda: _close_pipes(list(open_parent_pipes)), exitpriority=0)


class WorkerBatches(Iterator[Any]):
    """An iterator over the batches of a loader, in the loader's order.

    Batch i is made by worker i modulo the number of workers; for an iterable-style dataset, by the next worker whose
    dataset has not ended. Each worker makes up to `depth` batches ahead. After an exception of a worker, iteration can
    continue with the next batch. The pool is closed at the end of an iteration unless `is_kept`.
    """

    def __init__(self, crew: WorkerPool, depth: int, timeout: float, is_kept: bool):
        self._crew, self._depth, self._timeout, self._is_kept = crew, depth, timeout, is_kept
        self._turn = 0

    def begin(self, order: Iterator[Any]) -> "WorkerBatches":
        """Start an iteration over the indices `order`, abandoning an unfinished one, and return this iterator.

        Sends `depth` requests to each worker at once. Raises WorkerError if a worker has died.
        """
        self._turn += 1
        # Answers for an abandoned iteration may still arrive; they are recognised by their turn.
        self._order, self._ended = order, set[int]()
        self._next_worker, self._due = 0, deque[int]()
        # As in PyTorch: send `depth` requests per worker, then one for each answer that is taken. The number of batches
        # in memory is therefore bounded.
        for _ in range(self._depth * len(self._crew.pipes)):
            self._ask()
        return self

    @property
    def is_open(self) -> bool:
        """Whether the workers are running."""
        return self._crew.is_open

    def _ask(self) -> None:
        """Send the next index to the next worker whose dataset has not ended.

        Do nothing if there is no further index or all datasets have ended.
        """
        count = len(self._crew.pipes)
        if len(self._ended) == count:
            return
        for index in self._order:
            # Round-robin, as in PyTorch. Only workers of an iterable-style dataset end early.
            while self._next_worker in self._ended:
                self._next_worker = (self._next_worker + 1) % count
            self._crew.ask(self._next_worker, self._turn, index)
            self._due.append(self._next_worker)
            self._next_worker = (self._next_worker + 1) % count
            return

    def __next__(self) -> Any:
        while self._due and self._crew.is_open:
            worker = self._due.popleft()
            # Requests that were sent before the end was known; the next turn discards their answers.
            if worker in self._ended:
                continue
            # Take answers in the order of requests, so that results do not depend on the speed of workers.
            answer = self._crew.answer(worker, self._turn, self._timeout)
            # With an iterable-style dataset, each worker has a separate copy, which may end earlier than others.
            if answer.has_ended:
                self._ended.add(worker)
            self._ask()
            if answer.failure is not None:
                raise exception_in_parent(answer.failure, worker)
            if not answer.has_ended:
                return answer.value
        # End of the iteration: stop the workers unless they are persistent.
        if not self._is_kept:
            self._crew.close()
        raise StopIteration


class _Verbatim(str):
    """A message that KeyError prints as it is, instead of its repr with escaped line ends."""

    def __repr__(self) -> str:
        return str(self)


def exception_in_parent(failure: WorkerFailure, worker: int) -> Exception:
    """Return the exception to raise in the parent for a failure of a worker, with the worker's traceback as its text.

    It has the type of the original exception if this process can load it and create it from a message, otherwise
    WorkerError. StopIteration becomes WorkerError too.
    """
    # PyTorch's message, which programs search for.
    text = f"Caught {failure.name} in DataLoader worker process {worker}.\nOriginal {failure.text}"
    kind = _exception_type(failure)
    # StopIteration would end the parent's loop as if there were no more batches.
    if kind is None or issubclass(kind, StopIteration | StopAsyncIteration):
        return WorkerError(text)
    try:
        exception: Exception = kind(_Verbatim(text) if issubclass(kind, KeyError) else text)
    except Exception:  # the constructor of a user's exception may fail in any way
        return WorkerError(text)
    return exception


def _exception_type(failure: WorkerFailure) -> Any:
    """Return the type of the original exception; None if this process cannot load it."""
    if failure.kind is None:
        return None
    # A spawned worker may have imported modules that the parent has not imported, or has under other names.
    with contextlib.suppress(ImportError, AttributeError):
        return pickle.loads(failure.kind)
    return None
