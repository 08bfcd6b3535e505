"""What a worker process does: it takes requests from its pipe and sends the answers back.

A worker of a loader is asked for batches by index. It has its number, its seed (the loader's plus its number) and
random numbers that start there: the default generator, Python's and NumPy's. Its batches are pickled, so tensors travel
as NumPy arrays and are built again in the parent; nothing lies in shared memory, so a killed worker leaves nothing
behind. A sender thread in the worker lets it go on while the parent is busy. A forked worker runs operations with NumPy
alone: compiled kernels and their threads belong to steps, which no worker runs, and OpenBLAS prepares itself for forks.
"""

import contextlib
import faulthandler
import pickle
import queue
import random as python_random
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from lazytensor import random
from lazytensor.core import storage
from lazytensor.data.fetcher import FetchOptions, fetch_batch, stream_batches
from lazytensor.system.threads import try_start

# A global, since `get_worker_info` is called without arguments from deep inside a data set; each process has its own.
_worker_info: "WorkerInfo | None" = None

STACK_SIGNAL = getattr(signal, "SIGUSR1", 0)
"""The signal at which a worker says where it is; 0 where there is none."""
open_parent_pipes: set[Connection] = set()
"""The parent's ends of the pipes to its workers. A forked worker closes its copies, so that each pipe ends when the
parent closes it or dies."""


@dataclass(frozen=True)
class WorkerInfo:
    """What a data set may ask about the worker that reads it."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


@dataclass(frozen=True)
class WorkerFailure:
    """An exception in a worker: its type, pickled where that is possible, and its traceback as text."""

    kind: bytes | None
    name: str
    text: str


@dataclass(frozen=True)
class WorkerAnswer:
    """What a worker sends for each index: a batch, the end of its stream, or a failure."""

    turn: int
    value: Any = None
    has_ended: bool = False
    failure: WorkerFailure | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker that this process is; None where there are no workers, and in the parent."""
    return _worker_info


class WorkerSetup(Protocol):
    """What a worker is told when it starts."""

    @property
    def id(self) -> int:
        """The number of the worker in its crew, from 0."""

    def begin(self) -> Callable[[int, Any], WorkerAnswer]:
        """Get ready, in the worker's process; returns what answers the requests, each a turn and what is wanted."""


@dataclass(frozen=True)
class LoaderWorkerSetup:
    """The post of a loader's worker."""

    id: int
    num_workers: int
    base_seed: int
    recipe: FetchOptions
    init: Callable[[int], Any] | None

    def begin(self) -> Callable[[int, Any], WorkerAnswer]:
        """Take the worker's own random numbers and call the user's `init`."""
        global _worker_info
        # Seeds that differ by one: each worker draws other numbers, and the same ones whatever the others do.
        seed = self.base_seed + self.id
        random.default_generator.manual_seed(seed)
        python_random.seed(seed)
        # PyTorch's words for NumPy, found in its answers.
        words = [self.id, self.base_seed & 0xFFFFFFFF, self.base_seed >> 32, 0]
        np.random.seed(np.random.SeedSequence(words).generate_state(4))
        _worker_info = WorkerInfo(self.id, self.num_workers, seed, self.recipe.dataset)
        if self.init is not None:
            self.init(self.id)
        return _SampleFetcher(self.recipe).answer


class _SampleFetcher:
    """Batches by index, or the next of the stream that a turn begins anew."""

    def __init__(self, recipe: FetchOptions):
        self._recipe, self._turn = recipe, 0
        self._stream: Iterator[Any] = iter(())

    def answer(self, turn: int, index: Any) -> WorkerAnswer:
        if not self._recipe.is_stream:
            return WorkerAnswer(turn, fetch_batch(self._recipe, index))
        # A kept worker sees the next pass by its turn and starts its stream again.
        if turn != self._turn:
            self._turn, self._stream = turn, stream_batches(self._recipe)
        # Once ended, it says so each time that it is asked: the parent has asked ahead.
        return next((WorkerAnswer(turn, batch) for batch in self._stream), WorkerAnswer(turn, has_ended=True))


def run_worker(post: WorkerSetup, pipe: Connection, stack: int | None = None) -> None:
    """The life of a worker: until the pipe ends, each `(turn, wanted)` that comes gets its answer.

    At the signal TELL it writes where it is to the descriptor `stack`, or to the standard error stream.
    """
    _initialize_process(stack)
    outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    # A pipe takes some kilobytes before its writer waits. The thread waits in the worker's place, which makes the next
    # batch meanwhile.
    sender = threading.Thread(target=_send_answers, args=(pipe, outbox), daemon=True)
    if not try_start(sender):
        for letter in _pickled_answers(post, pipe):
            outbox.put(letter)
            outbox.put(None)
            _send_answers(pipe, outbox)
        return
    for letter in _pickled_answers(post, pipe):
        outbox.put(letter)
    # The parent has closed the pipe or is gone: the sender ends by its first error or by this, and never waits in vain.
    outbox.put(None)
    sender.join()


def _initialize_process(stack: int | None) -> None:
    """Make the process a worker: signals are the parent's business, and so are its pipes and its trace."""
    # Ctrl-C reaches every process of the terminal; the parent ends its workers by closing their pipes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The parent's handler, inherited by a fork, would run its cleaning up in the worker.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if STACK_SIGNAL:
        # Without a stream to print to it must not end the worker.
        signal.signal(STACK_SIGNAL, signal.SIG_IGN)
        # In C, so that it answers from inside an endless call too.
        with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
            faulthandler.register(STACK_SIGNAL, file=sys.stderr if stack is None else stack, all_threads=False)
    # A fork inherits the parent's ends of all pipes. Held open, they would keep every pipe from ending.
    for end in open_parent_pipes:
        end.close()
    open_parent_pipes.clear()
    # A fork in the middle of a traced step would record the samples' operations into a graph that nobody reads.
    storage.set_active_capture(None)


def _send_answers(pipe: Connection, outbox: "queue.SimpleQueue[bytes | None]") -> None:
    while (letter := outbox.get()) is not None:
        try:
            pipe.send_bytes(letter)
        except OSError:
            return  # the parent has closed the pipe and wants no more


def _pickled_answers(post: WorkerSetup, pipe: Connection) -> Iterator[bytes]:
    """Pickled answers, made here so that one that cannot be pickled is a failure like others."""
    # A start that failed is told with the first answer: nobody reads before something was asked.
    late: WorkerFailure | None = None
    try:
        # Here and not in the constructor: seeds and the user's `init` belong to the worker's process.
        answer = post.begin()
    except Exception as error:
        late = _describe_failure(error)
    while True:
        try:
            turn, wanted = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            # After a failure the worker goes on: the parent may skip the batch and ask for others.
            letter = pickle.dumps(WorkerAnswer(turn, failure=late) if late else answer(turn, wanted), protocol=5)
        except Exception as error:
            letter = pickle.dumps(WorkerAnswer(turn, failure=_describe_failure(error)))
        yield letter


def _describe_failure(error: Exception) -> WorkerFailure:
    try:
        # The type only. An exception with arguments of its own may not survive pickling, and the traceback never does.
        kind = pickle.dumps(type(error))
    except (pickle.PicklingError, AttributeError, TypeError):
        kind = None  # a class inside a function has no name to be found by
    return WorkerFailure(kind, type(error).__name__, "".join(traceback.format_exception(error)))
