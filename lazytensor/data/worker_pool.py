"""Worker processes, seen from the parent: starting, asking, noticing a death, and sending home."""

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
from lazytensor.data.worker_errors import SlowWorkerWarning, WorkerError
from lazytensor.data.worker_stack import WorkerStackFile
from lazytensor.errors import DataError
from lazytensor.system.signals import defer_signals

GRACE_SECONDS = 1.0
"""How long a worker may take to finish its sample when it is sent home; then it is terminated."""
SLOW_WARNING_SECONDS = 60.0
"""After how long a silent worker is spoken of, once: without a `timeout` it may be waited for without end."""
POLL_SECONDS = 0.5
"""How often a silent worker is looked after: a pipe that another process holds open does not end with its worker."""


def default_context() -> Any:
    """How processes start where nobody says how: forked where the system can, so that functions need no name."""
    return multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")


class WorkerPool:
    """Workers, a pipe to each, and the answers that have come and are not asked for yet.

    `title` is what messages call a worker, and `ways` how its limit of time is set. One that `may_hire` can start
    processes itself.
    """

    def __init__(
        self,
        posts: Sequence[WorkerSetup],
        context: Any,
        title: str = "DataLoader worker",
        may_hire: bool = False,
        ways: str = "",
    ):
        # Python forbids daemons to have children, with an assertion that does not say what to do.
        if multiprocessing.current_process().daemon:
            raise DataError(
                "a worker of a DataLoader cannot have workers of its own",
                where=source.where(),
                hint="Use num_workers=0 for the loader inside the data set.",
            )
        self.title, self._ways = title, ways or "a DataLoader with workers takes timeout="
        self._has_noticed = False
        # The signal ends a process that has not yet said otherwise: a spawned one may still be importing.
        self._can_tell = bool(STACK_SIGNAL) and context.get_start_method() == "fork"
        self._stack = WorkerStackFile() if self._can_tell else None
        self.pipes: list[Connection] = []
        self._processes: list[Any] = []
        # Still pickled: a batch is opened when it is asked for, so an error in it is raised at its turn.
        self._come: list[deque[bytes]] = [deque() for _ in posts]
        # Runs when this object is dropped, and when Python ends before it waits for processes that may hire; not in
        # a forked worker that drops its copy.
        self.close = util.Finalize(self, _shut_down, (self._processes, self.pipes, self._stack), exitpriority=1)
        for post in posts:
            self._start(post, context, not may_hire)

    def _start(self, post: WorkerSetup, context: Any, is_daemon: bool) -> None:
        # One pipe for each worker, both ways. Queues that workers share have locks, and one who dies with a lock stops
        # all.
        mine, theirs = context.Pipe()
        open_parent_pipes.add(mine)
        self.pipes.append(mine)
        # A daemon ends with its parent even if nobody dismisses it; one that may hire cannot be a daemon.
        stack = self._stack.descriptor if self._stack is not None else None
        process = context.Process(
            target=run_worker, args=(post, theirs, stack), daemon=is_daemon, name=f"{self.title} {post.id}"
        )
        # A signal in the middle of a fork is lost, and one behind it would leave a worker that nobody knows.
        with defer_signals(), warnings.catch_warnings():
            # Python 3.12 counts the threads of OpenBLAS too, which prepares itself for forks.
            warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
            process.start()
            self._processes.append(process)
        theirs.close()  # so that the pipe ends with the worker

    @property
    def is_open(self) -> bool:
        """Whether its workers still run."""
        return self.close.still_active()

    def pid(self, worker: int) -> int:
        """The process of a worker."""
        pid: int = self._processes[worker].pid
        return pid

    def ask(self, worker: int, turn: int, index: Any) -> None:
        """Send an index to a worker. Raises WorkerError if it has died."""
        try:
            # Cannot lock up: the worker's sender thread leaves its main thread free to read.
            self.pipes[worker].send((turn, index))
        except (BrokenPipeError, ConnectionResetError):
            self._raise_worker_lost(worker)

    def answer(self, worker: int, turn: int, timeout: float) -> WorkerAnswer:
        """The next answer of a worker, left-overs of earlier turns skipped.

        Raises WorkerError if any worker dies or if this one takes longer than `timeout` seconds, unless that is 0.
        """
        # A worker may have answered an earlier pass that was left in the middle: its turn says so.
        began = time.monotonic()
        end = began + timeout if timeout else None
        while True:
            # Each worker answers in the order that it was asked, so the next answer of this turn is the one that is
            # wanted.
            while self._come[worker]:
                answer = self._unpickle_answer(self._come[worker].popleft())
                if answer.turn == turn:
                    return answer
            # A worker that is late may be stuck for good, and its answer would stand in the way of the next: the crew
            # is given up.
            if end is not None and time.monotonic() >= end:
                self._late(worker, timeout)
            if not self._has_noticed and time.monotonic() >= began + SLOW_WARNING_SECONDS:
                self._warn_slow(worker)
            self._look(POLL_SECONDS if end is None else min(POLL_SECONDS, max(0.0, end - time.monotonic())))

    def _late(self, worker: int, timeout: float) -> NoReturn:
        pid, place = self.pid(worker), self._told(worker)[1]
        self.close()
        # PyTorch's words, which programs search for.
        is_loader = self.title.startswith("DataLoader")
        what = f"{'DataLoader' if is_loader else self.title} timed out after {timeout} seconds"
        hint = "Give a longer timeout=, or look at what the data set waits for with num_workers=0."
        raise WorkerError(
            f"{what}: worker {worker} (pid {pid}) has not answered{place}",
            where=source.where(),
            hint=hint if is_loader else f"Look at what the input function waits for; {self._ways}.",
        )

    def _told(self, worker: int) -> tuple[str, str]:
        """The stack of a worker, and where that says it is; empty where it cannot tell."""
        if self._stack is None:
            return "", ""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid(worker), STACK_SIGNAL)
            return self._stack.told()
        return "", ""

    def _warn_slow(self, worker: int) -> None:
        """Say that a worker is slow, and where it is."""
        self._has_noticed = True
        stack, place = self._told(worker)
        if stack and sys.stderr is not None:
            print(stack, end="", file=sys.stderr)
        who = f"{self.title} {worker} (pid {self.pid(worker)})"
        warnings.warn(
            f"{who} has sent nothing for {SLOW_WARNING_SECONDS:.0f} seconds{place}. It is waited for on; {self._ways}.",
            SlowWorkerWarning,
            stacklevel=2,
        )

    def _unpickle_answer(self, letter: bytes) -> WorkerAnswer:
        try:
            answer: WorkerAnswer = pickle.loads(letter)
        except BaseException:
            self.close()  # nobody knows which turn it was
            raise
        return answer

    def _look(self, seconds: float) -> None:
        """Take in what has come, or wait for it."""
        # All pipes, not only that of the worker whose turn it is: a full pipe would hold up its writer, and the death
        # of any worker is to be noticed soon.
        ready = wait(self.pipes, seconds)
        for worker, pipe in enumerate(self.pipes):
            if pipe not in ready:
                continue
            try:
                letter = pipe.recv_bytes()
            # The worker's end is closed: only the end of its process does that.
            except (EOFError, OSError):
                self._raise_worker_lost(worker)
            self._come[worker].append(letter)
        if not ready:
            # A child of a worker may hold its end of the pipe open, which then never ends.
            for worker, process in enumerate(self._processes):
                if process.exitcode is not None and not self.pipes[worker].poll():
                    self._raise_worker_lost(worker)

    def _raise_worker_lost(self, worker: int) -> NoReturn:
        process = self._processes[worker]
        # The pipe ends a moment before the process has a code to report.
        process.join(GRACE_SECONDS)
        pid, code = process.pid, process.exitcode
        how = f"exited unexpectedly with code {code}"
        # Python gives the signal as a negative code; SIGKILL is what the system sends when memory runs out.
        if code is not None and code < 0:
            how = f"was killed by signal {_signal_name(-code)}"
        self.close()
        raise WorkerError(
            f"{self.title} {worker} (pid {pid}) {how}",
            where=source.where(),
            hint="If memory ran out, use fewer workers or smaller batches; num_workers=0 shows what the data set does.",
        )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _shut_down(processes: Sequence[Any], pipes: Sequence[Connection], stack: WorkerStackFile | None) -> None:
    """Close the pipes, which ends the workers, and see to it that they are gone."""
    try:
        _stop_processes(processes, pipes)
    except BaseException:
        # A signal may come here as anywhere, and nobody dismisses them again: a worker whose pipe stays open would be
        # waited for at the end of the process, without end.
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
    _close_pipes(pipes)
    # Asked, then told, then killed, with a wait after each.
    for stop in (lambda p: None, lambda p: p.terminate(), lambda p: p.kill()):
        for process in processes:
            stop(process)
        end = time.monotonic() + GRACE_SECONDS
        for process in processes:
            process.join(max(0.0, end - time.monotonic()))
        if all(process.exitcode is not None for process in processes):
            break


# Before Python waits for its processes: those whose crew an interrupt has kept from closing find their pipe ended.
util.Finalize(None, lambda: _close_pipes(list(open_parent_pipes)), exitpriority=0)


class WorkerBatches(Iterator[Any]):
    """The batches of a pass in the loader's order, whichever worker is ready first.

    Batch i comes from worker i modulo their number; of a stream, from the next worker whose stream has not ended. Each
    worker runs `depth` batches ahead. After an exception from a worker the next batch can still be asked for.
    """

    def __init__(self, crew: WorkerPool, depth: int, timeout: float, is_kept: bool):
        self._crew, self._depth, self._timeout, self._is_kept = crew, depth, timeout, is_kept
        self._turn = 0

    def begin(self, order: Iterator[Any]) -> "WorkerBatches":
        """Start a pass over these indices; one that has not come to its end is forgotten."""
        self._turn += 1
        # Answers of the pass before are still to come; the new turn tells them apart, so nobody waits for them here.
        self._order, self._ended = order, set[int]()
        self._next_worker, self._due = 0, deque[int]()
        # As PyTorch does, and for each answer that is taken one more is asked: memory holds a bounded number of
        # batches, however slow the loop is.
        for _ in range(self._depth * len(self._crew.pipes)):
            self._ask()
        return self

    @property
    def is_open(self) -> bool:
        """False once the workers are gone."""
        return self._crew.is_open

    def _ask(self) -> None:
        count = len(self._crew.pipes)
        if len(self._ended) == count:
            return
        for index in self._order:
            # PyTorch's round: only of a stream does a worker end before the others.
            while self._next_worker in self._ended:
                self._next_worker = (self._next_worker + 1) % count
            self._crew.ask(self._next_worker, self._turn, index)
            self._due.append(self._next_worker)
            self._next_worker = (self._next_worker + 1) % count
            return

    def __next__(self) -> Any:
        while self._due and self._crew.is_open:
            worker = self._due.popleft()
            # Asked ahead, before its end was known: these answers say the same, and the next turn skips them.
            if worker in self._ended:
                continue
            # In the order of asking, so batches do not depend on which worker is fast.
            answer = self._crew.answer(worker, self._turn, self._timeout)
            # Each worker of a stream has a stream of its own, of its own length.
            if answer.has_ended:
                self._ended.add(worker)
            self._ask()
            if answer.failure is not None:
                raise exception_in_parent(answer.failure, worker)
            if not answer.has_ended:
                return answer.value
        # At the end of the pass the workers go home, unless the loader keeps them for the next.
        if not self._is_kept:
            self._crew.close()
        raise StopIteration


class _Verbatim(str):
    """A message that KeyError prints as it is, not as a literal with its line ends escaped."""

    def __repr__(self) -> str:
        return str(self)


def exception_in_parent(failure: WorkerFailure, worker: int) -> Exception:
    """The exception of a worker as the parent raises it: of its own type if that can be made from a message alone."""
    # PyTorch's words, which programs search for.
    text = f"Caught {failure.name} in DataLoader worker process {worker}.\nOriginal {failure.text}"
    kind = _exception_type(failure)
    # StopIteration would end the parent's loop as if there were no more batches.
    if kind is None or issubclass(kind, StopIteration | StopAsyncIteration):
        return WorkerError(text)
    try:
        exception: Exception = kind(_Verbatim(text) if issubclass(kind, KeyError) else text)
    except Exception:  # a constructor of the user's may refuse a message in any way
        return WorkerError(text)
    return exception


def _exception_type(failure: WorkerFailure) -> Any:
    """The type of the exception; None if it cannot be found from here."""
    if failure.kind is None:
        return None
    # A spawned worker may have imported modules that the parent has not, or has under other names.
    with contextlib.suppress(ImportError, AttributeError):
        return pickle.loads(failure.kind)
    return None
