"""What a worker process of a loader does: it takes indices from its pipe, makes the batches and sends them back.

A worker has its number, its seed (the loader's plus its number) and random numbers that start there: the default
generator, Python's and NumPy's. Batches are pickled, so tensors travel as NumPy arrays and are built again in the
parent; nothing lies in shared memory, so a killed worker leaves nothing behind. A sender thread in the worker lets it
go on while the parent is busy. A forked worker runs operations with NumPy alone: compiled kernels and their threads
belong to steps, which no worker runs, and OpenBLAS prepares itself for forks.
"""

import pickle
import queue
import random as python_random
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from lazytensor import random, trace
from lazytensor.data.fetch import Recipe, fetched, streamed

_at_work: "WorkerInfo | None" = None

open_ends: set[Connection] = set()
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
class Post:
    """What a worker is told when it starts."""

    id: int
    num_workers: int
    base_seed: int
    recipe: Recipe
    init: Callable[[int], Any] | None


@dataclass(frozen=True)
class Failure:
    """An exception in a worker: its type, pickled where that is possible, and its traceback as text."""

    kind: bytes | None
    name: str
    text: str


@dataclass(frozen=True)
class Answer:
    """What a worker sends for each index: a batch, the end of its stream, or a failure."""

    turn: int
    value: Any = None
    has_ended: bool = False
    failure: Failure | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker that this process is; None where there are no workers, and in the parent."""
    return _at_work


def work(post: Post, pipe: Connection) -> None:
    """The life of a worker: until the pipe ends, each `(turn, index)` that comes gets its answer."""
    _settle(post)
    outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    sender = threading.Thread(target=_send, args=(pipe, outbox), daemon=True)
    sender.start()
    for letter in _answers(post, pipe):
        outbox.put(letter)
    outbox.put(None)
    sender.join()


def _settle(post: Post) -> None:
    """Make the process a worker: its own random numbers, and signals that are the parent's business."""
    global _at_work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for end in open_ends:
        end.close()
    open_ends.clear()
    trace.current = None
    seed = post.base_seed + post.id
    random.default_generator.manual_seed(seed)
    python_random.seed(seed)
    # PyTorch's words for NumPy, found in its answers.
    words = [post.id, post.base_seed & 0xFFFFFFFF, post.base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(words).generate_state(4))
    _at_work = WorkerInfo(post.id, post.num_workers, seed, post.recipe.dataset)


def _send(pipe: Connection, outbox: "queue.SimpleQueue[bytes | None]") -> None:
    while (letter := outbox.get()) is not None:
        try:
            pipe.send_bytes(letter)
        except OSError:
            return  # the parent has closed the pipe and wants no more


def _answers(post: Post, pipe: Connection) -> Iterator[bytes]:
    late: Failure | None = None
    try:
        if post.init is not None:
            post.init(post.id)
    except Exception as error:
        late = _failure(error)
    last_turn, stream = 0, iter(())
    while True:
        try:
            turn, index = pipe.recv()
        except (EOFError, OSError):
            return
        if late is not None:
            yield pickle.dumps(Answer(turn, failure=late))
            continue
        if post.recipe.is_stream and turn != last_turn:
            last_turn, stream = turn, streamed(post.recipe)
        yield _letter(post, turn, index, stream)


def _letter(post: Post, turn: int, index: Any, stream: Iterator[Any]) -> bytes:
    """The pickled answer to one index, made here so that a batch that cannot be pickled is a failure like others."""
    try:
        if not post.recipe.is_stream:
            answer = Answer(turn, fetched(post.recipe, index))
        else:
            answer = next((Answer(turn, batch) for batch in stream), Answer(turn, has_ended=True))
        return pickle.dumps(answer, protocol=5)
    except Exception as error:
        return pickle.dumps(Answer(turn, failure=_failure(error)))


def _failure(error: Exception) -> Failure:
    try:
        kind = pickle.dumps(type(error))
    except (pickle.PicklingError, AttributeError, TypeError):
        kind = None  # a class inside a function has no name to be found by
    return Failure(kind, type(error).__name__, "".join(traceback.format_exception(error)))
