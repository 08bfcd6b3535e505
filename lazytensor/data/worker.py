"""The code of a worker process: receive requests from a pipe and send the answers back.

A worker of a data loader makes batches by index. It has a number and a seed (the loader's seed plus its number), which
initialises the default generator and those of Python and NumPy. Batches are pickled, with tensors as NumPy arrays;
there is no shared memory, so a killed worker leaves nothing behind. A sender thread lets the worker continue while the
parent is busy. A forked worker computes with NumPy only: compiled kernels and their threads are used for steps, which
workers do not run, and OpenBLAS supports forking.
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

# Global, because datasets call `get_worker_info` without arguments; each process has a separate value.
_worker_info: "WorkerInfo | None" = None

STACK_SIGNAL = getattr(signal, "SIGUSR1", 0)
"""The signal on which a worker writes its stack; 0 if the system has no such signal."""
open_parent_pipes: set[Connection] = set()
"""The parent's ends of the pipes to its workers.

A forked worker closes its copies, so that each pipe ends when the parent closes it or dies.
"""


@dataclass(frozen=True)
class WorkerInfo:
    """Information for a dataset on the worker process that reads it.

    - `id`, `num_workers`: the number of the worker, and the number of workers.
    - `seed`: the worker's seed.
    - `dataset`: the worker's copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


@dataclass(frozen=True)
class WorkerFailure:
    """An exception in a worker.

    - `kind`: its pickled type; None if it cannot be pickled.
    - `name`: the name of its type.
    - `text`: the traceback.
    """

    kind: bytes | None
    name: str
    text: str


@dataclass(frozen=True)
class WorkerAnswer:
    """A worker's answer to one request.

    - `turn`: the number of the iteration over the loader that the request belongs to.
    - `value`: the batch.
    - `has_ended`: the worker's iterable-style dataset has no more batches.
    - `failure`: the exception of the worker, if any.
    """

    turn: int
    value: Any = None
    has_ended: bool = False
    failure: WorkerFailure | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return information on the worker process that calls this; None outside of worker processes."""
    return _worker_info


class WorkerSetup(Protocol):
    """The initialisation of a worker, which is sent to its process."""

    @property
    def id(self) -> int:
        """The number of the worker in its pool, from 0."""

    def begin(self) -> Callable[[int, Any], WorkerAnswer]:
        """Initialise the worker in its process.

        Return the function `answer(turn, request)` that answers requests.
        """


@dataclass(frozen=True)
class LoaderWorkerSetup:
    """The initialisation of a data loader's worker.

    - `id`, `num_workers`: the number of the worker, and the number of workers.
    - `base_seed`: the loader's seed.
    - `recipe`: the dataset and how to make batches.
    - `init`: the user's `worker_init_fn`, or None.
    """

    id: int
    num_workers: int
    base_seed: int
    recipe: FetchOptions
    init: Callable[[int], Any] | None

    def begin(self) -> Callable[[int, Any], WorkerAnswer]:
        """Initialise the worker process, and return the function that makes batches, `answer(turn, index)`.

        This seeds the random generators of this package, Python and NumPy with `base_seed` + `id`, sets the worker
        info, and calls the user's `init` with the worker's number. Errors of `init` propagate.
        """
        global _worker_info
        # Each worker has a different seed and is independent of the others.
        seed = self.base_seed + self.id
        random.default_generator.manual_seed(seed)
        python_random.seed(seed)
        # The seed words that PyTorch uses for NumPy, derived from its output.
        words = [self.id, self.base_seed & 0xFFFFFFFF, self.base_seed >> 32, 0]
        np.random.seed(np.random.SeedSequence(words).generate_state(4))
        _worker_info = WorkerInfo(self.id, self.num_workers, seed, self.recipe.dataset)
        if self.init is not None:
            self.init(self.id)
        return _SampleFetcher(self.recipe).answer


class _SampleFetcher:
    """Makes batches by index, or the next batch of an iterable-style dataset, which restarts with each new turn."""

    def __init__(self, recipe: FetchOptions):
        self._recipe, self._turn = recipe, 0
        self._stream: Iterator[Any] = iter(())

    def answer(self, turn: int, index: Any) -> WorkerAnswer:
        """Return the batch for `index`; for an iterable-style dataset, the next batch of the iteration `turn`.

        A `turn` other than that of the last call restarts an iterable-style dataset, and `index` is ignored. After its
        end, every answer has `has_ended`. Exceptions of the dataset propagate.
        """
        if not self._recipe.is_stream:
            return WorkerAnswer(turn, fetch_batch(self._recipe, index))
        # A new turn means a new iteration with a persistent worker: restart the dataset.
        if turn != self._turn:
            self._turn, self._stream = turn, stream_batches(self._recipe)
        # After the end, answer every further request with `has_ended`, because the parent sends requests ahead.
        return next((WorkerAnswer(turn, batch) for batch in self._stream), WorkerAnswer(turn, has_ended=True))


def run_worker(post: WorkerSetup, pipe: Connection, stack: int | None = None) -> None:
    """Run a worker process: answer each `(turn, request)` from `pipe`, in order, until the pipe is closed.

    `turn` is the number of the iteration over the loader. A thread sends the answers; if it cannot be started, they are
    sent here. On `STACK_SIGNAL`, the process writes its stack to the file descriptor `stack`, or to standard error if
    that is None.
    """
    _initialize_process(stack)
    outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    # A pipe buffers only some kilobytes. The sender thread blocks on it while the worker makes the next batch.
    sender = threading.Thread(target=_send_answers, args=(pipe, outbox), daemon=True)
    if not try_start(sender):
        for letter in _pickled_answers(post, pipe):
            outbox.put(letter)
            outbox.put(None)
            _send_answers(pipe, outbox)
        return
    for letter in _pickled_answers(post, pipe):
        outbox.put(letter)
    # The parent has closed the pipe or died. The sender ends at its first error or at this None.
    outbox.put(None)
    sender.join()


def _initialize_process(stack: int | None) -> None:
    """Set up the signals of a worker process, and drop what it inherited from the parent by a fork.

    Ctrl-C is ignored, and STACK_SIGNAL writes the stack to the descriptor `stack`, or to stderr if it is None. The
    parent's ends of pipes are closed, and a captured step is no longer recorded.
    """
    # Ctrl-C is sent to every process of the terminal; the parent ends its workers by closing their pipes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The parent's handler, inherited by a fork, would run the parent's cleanup in the worker.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if STACK_SIGNAL:
        # Without standard error, `register` fails; the signal must not end the worker then.
        signal.signal(STACK_SIGNAL, signal.SIG_IGN)
        # `faulthandler` is written in C, so it works inside a blocking call too.
        with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
            faulthandler.register(STACK_SIGNAL, file=sys.stderr if stack is None else stack, all_threads=False)
    # A forked process inherits the parent's ends of all pipes. If it kept them open, no pipe would end.
    for end in open_parent_pipes:
        end.close()
    open_parent_pipes.clear()
    # A process that is forked during a captured step must not record the samples' operations.
    storage.set_active_capture(None)


def _send_answers(pipe: Connection, outbox: "queue.SimpleQueue[bytes | None]") -> None:
    """Send pickled answers from the queue to the pipe until None comes or the parent has closed the pipe.

    Answers that remain in the queue then are not sent.
    """
    while (letter := outbox.get()) is not None:
        try:
            pipe.send_bytes(letter)
        except OSError:
            return  # the parent has closed the pipe and wants no more


def _pickled_answers(post: WorkerSetup, pipe: Connection) -> Iterator[bytes]:
    """Yield the pickled answer to each request from `pipe` until the pipe is closed.

    Exceptions, including those of pickling, become answers with a failure. If the initialisation (`post.begin`) fails,
    every answer is that failure.
    """
    # A failure of the initialisation is sent as the first answer, because the parent reads nothing before.
    late: WorkerFailure | None = None
    try:
        # Called here because seeds and the user's `init` belong to the worker's process.
        answer = post.begin()
    except Exception as error:
        late = _describe_failure(error)
    while True:
        try:
            turn, wanted = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            # After a failure the worker continues, because the parent may request other batches.
            letter = pickle.dumps(WorkerAnswer(turn, failure=late) if late else answer(turn, wanted), protocol=5)
        except Exception as error:
            letter = pickle.dumps(WorkerAnswer(turn, failure=_describe_failure(error)))
        yield letter


def _describe_failure(error: Exception) -> WorkerFailure:
    """Return a picklable description of an exception: its type, its name and the traceback.

    The type is None if it cannot be pickled, such as a class defined in a function.
    """
    try:
        # Pickle only the type: exceptions with special arguments and tracebacks cannot be pickled.
        kind = pickle.dumps(type(error))
    except (pickle.PicklingError, AttributeError, TypeError):
        kind = None  # a class defined in a function cannot be pickled
    return WorkerFailure(kind, type(error).__name__, "".join(traceback.format_exception(error)))
