"""Sources of the batches of a run: the client's own loader, or worker processes that each have a loader."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pickle import PicklingError
from typing import Any, NoReturn, Protocol

import numpy as np

from cstorch_compat.cerebras.pytorch.utils.data import process_role, shared_ring
from cstorch_compat.cerebras.pytorch.utils.data.batch import find_batch_size
from cstorch_compat.cerebras.pytorch.utils.data.repeated_loader import RepeatedLoader
from cstorch_compat.cerebras.pytorch.utils.data.streamer_worker import PreparedShare, StreamerTask
from cstorch_compat.cerebras.pytorch.utils.step_ranges import Schedule
from cstorch_compat.files.tree import flatten, map_tensors
from cstorch_compat.profiling import spans
from lazytensor import config
from lazytensor.core import source
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import Tensor, tensor_from_storage
from lazytensor.data.worker import WorkerFailure
from lazytensor.data.worker_errors import WorkerError
from lazytensor.data.worker_pool import WorkerPool, default_context
from lazytensor.errors import DataError
from lazytensor.ir.graph import leaf

_TIMEOUT_HINT = "Set LT_INPUT_TIMEOUT to a larger number of seconds, or to 0 to wait without a limit."
"""The hint of the error for a worker that does not answer in time."""


class BatchStream(Protocol):
    """An iterator that yields one batch for each step.

    `waits` is the time in seconds that the client has waited for each worker.
    """

    waits: list[float]

    def __iter__(self) -> Iterator[Any]: ...

    def count(self, samples: int) -> None:
        """Record that the latest batch has `samples` samples."""

    def states(self) -> list[Any]:
        """Return the state of each worker's loader after the latest batch."""

    def close(self) -> None:
        """Stop the source and release its resources."""


class LocalStream:
    """A source of batches from a loader in this process.

    While the loader runs, the process has the role `player`: that of the only worker, or None for the client. With one
    worker, side effects and random numbers of the loader are therefore those of the client; on the system they would
    occur on another machine. `make` returns the loader, and `loading` is that of `RepeatedLoader`.
    """

    def __init__(self, make: Callable[[], Any], loading: tuple[Any, bool] | None, player: process_role.Role | None):
        self._player = player
        self.waits = [0.0]
        self._step, self._size = 0, 0
        with process_role.role_context(player):
            self._supply = RepeatedLoader(make(), loading)

    def __iter__(self) -> Iterator[Any]:
        while True:
            start = time.perf_counter()
            with (
                process_role.role_context(self._player),
                spans.record_span("input worker 0", f"batch {self._step + 1}", feeds=self._step + 1),
            ):
                batch = next(self._supply)
            self.waits[0] += time.perf_counter() - start
            self._step += 1
            yield batch

    def count(self, samples: int) -> None:
        """Record that the latest batch has `samples` samples."""
        self._supply.samples += samples

    def states(self) -> list[Any]:
        """Return a list with the state of the client's loader."""
        with process_role.role_context(self._player):
            return [self._supply.state(0, process_role.Cluster(), self._step, self._step)]

    def close(self) -> None:
        """Do nothing."""


class WorkerStream:
    """A source of batches whose parts come from worker processes.

    The parts are joined in the order of the cluster's systems, whichever worker finishes first. Random number
    generators of the workers start with the state of the client's. Raises WorkerError if a worker raises an error or
    dies.

    - `make`: the function that returns a loader, called in each worker.
    - `loading`: the state to load, as in `RepeatedLoader`.
    - `first`: a batch of the client's loader, which defines structure, dtypes and batch size.
    - `num_steps`: the number of batches.
    - `checkpoints`: the steps after which loader states are needed; None for loaders without state.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        loading: tuple[Any, bool] | None,
        cluster: process_role.Cluster,
        first: Any,
        num_steps: int,
        checkpoints: Schedule | None,
    ):
        self._template, self._num_steps = first, num_steps
        # The client's batch is that of the whole run, of which each system gets a part.
        self._batch_size = find_batch_size(first) or 0
        self._cluster = cluster = cluster.divide_batch(self._batch_size)
        self._step = 0
        self.waits = [0.0] * cluster.workers
        self._states: list[dict[int, Any]] = [{} for _ in self.waits]
        # Workers of one system have the same layout, because they alternate in providing the same part.
        of_system = [_make_slot_layout(first, share) for share in cluster.shares]
        self._layouts = [of_system[cluster.system_index(rank)] for rank in range(cluster.workers)]
        self._asked, self._shares_read = [0] * cluster.workers, [0] * cluster.workers
        # Allocated before the workers start, because they receive it at their start.
        self._memories = shared_ring.allocate_rings(self._layouts, default_context().get_start_method() == "fork")
        try:
            self._crew = self._start_workers(make, loading, checkpoints)
        except BaseException:
            shared_ring.close_rings(self._memories)
            raise
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _start_workers(self, make: Callable[[], Any], loading: Any, checkpoints: Schedule | None) -> WorkerPool:
        """Start a process for each worker, and return the pool of these processes.

        `make` creates the loader from the input function. `loading` is the state that it loads, or None. `checkpoints`
        are the steps whose loader states the workers report, or None. Raises DataError if `make` has to be pickled and
        cannot be.
        """
        posts = [
            StreamerTask(
                rank,
                self._cluster,
                make=make,
                loading=loading,
                checkpoints=checkpoints,
                num_steps=self._num_steps,
                layout=layout,
                memory=memory,
            )
            for rank, (layout, memory) in enumerate(zip(self._layouts, self._memories, strict=True))
        ]
        try:
            return WorkerPool(posts, default_context(), "input worker", may_hire=True, ways=_TIMEOUT_HINT)
        except (PicklingError, AttributeError, TypeError) as e:
            raise DataError(
                f"the input function cannot be sent to a worker process: {e}",
                where=source.where(),
                hint="Define it at the top level of a module that can be imported, and pass arguments that can be "
                "pickled, because this system cannot fork.",
            ) from e

    def _begin(self) -> None:
        """Wait until all workers have created their loaders, then request their first parts.

        Each worker gets a request for each slot of its shared memory. The names of the shared memory are removed. The
        loader states that the workers report are stored.
        """
        ranks = range(self._cluster.workers)
        for rank in ranks:
            self._crew.ask(rank, 0, None)
        for rank in ranks:
            # All workers got their request before this wait, so they create their loaders in parallel.
            self._states[rank] = self._answer(rank)
        # All workers have opened the memory, so its name can be removed. It then cannot be left behind if a process is
        # killed.
        shared_ring.unlink_rings(self._memories)
        for _ in range(shared_ring.SLOTS_PER_WORKER):
            for rank in ranks:
                self._ask(rank)

    def _ask(self, rank: int) -> None:
        """Request that a worker fill its next slot of shared memory with its part of a batch.

        Do nothing if the worker was already asked for all parts that it has to provide in this run.
        """
        # A slot is requested after it was emptied, so a worker is at most SLOTS_PER_WORKER parts ahead.
        if self._asked[rank] < self._cluster.turns(rank, self._num_steps):
            with self._due():
                self._crew.ask(rank, 0, self._asked[rank] % shared_ring.SLOTS_PER_WORKER)
            self._asked[rank] += 1

    def __iter__(self) -> Iterator[Any]:
        for step in range(self._num_steps):
            self._step = step
            yield self._batch()

    def _batch(self) -> Any:
        """Return the batch of the current step, joined from one part of each system, and request the next parts.

        Each system has several workers that take turns, so one worker for each system provides this step. Wait times
        and the loader states of the workers are recorded.
        """
        whole = [np.empty(t.spec.shape, a.dtype) for t, a in _tensors_and_arrays(self._template)]
        start = 0
        for rank, share in zip(self._cluster.workers_for_step(self._step), self._cluster.shares, strict=True):
            began = time.perf_counter()
            self._states[rank].update(self._answer(rank))
            self.waits[rank] += time.perf_counter() - began
            slot = self._shares_read[rank] % shared_ring.SLOTS_PER_WORKER
            for array, part in zip(whole, self._layouts[rank].views(self._memories[rank], slot), strict=True):
                # Copy the part, because the worker overwrites the slot after the next request.
                array[start : start + share] = part if part.ndim else part.item()
            start += share
            self._shares_read[rank] += 1
            self._ask(rank)
        arrays = iter(whole)
        return map_tensors(self._template, lambda t: tensor_from_storage(Storage(leaf(next(arrays), t.spec))))

    @contextmanager
    def _due(self) -> Iterator[None]:
        """Return a context manager that adds the current step to the message of a WorkerError."""
        try:
            yield
        except WorkerError as e:
            raise WorkerError(
                f"{e.what}, while step {self._step + 1} waited for its batch", where=e.where, hint=e.hint
            ) from None

    def _answer(self, rank: int) -> dict[int, Any]:
        """Wait for the next answer of worker `rank`, and return its loader states by step, counted from 0.

        The time of the prepared part is recorded for the timeline. Raises WorkerError if the worker failed or did not
        answer in time.
        """
        with self._due():
            answer = self._crew.answer(rank, 0, config.current().input_timeout)
        if answer.failure is not None:
            self._raise_failure(rank, answer.failure)
        prepared: PreparedShare = answer.value
        if prepared.turn is not None:
            # The worker is ahead, so this part belongs to a later step.
            step = self._cluster.step_of_turn(rank, prepared.turn) + 1
            began, ended = prepared.seconds
            spans.add_span(f"input worker {rank}", f"share of step {step}", began, ended, feeds=step)
        return prepared.states

    def _raise_failure(self, rank: int, failure: WorkerFailure) -> NoReturn:
        """Raise WorkerError for an error of worker `rank`, with the step that the failed part would have fed.

        The message contains the worker's traceback.
        """
        # The worker is ahead of the client. The failed step is the one that its next unread part would have fed.
        step = self._cluster.step_of_turn(rank, self._shares_read[rank]) + 1
        raise WorkerError(
            f"input worker {rank} of {self._cluster.workers} raised {failure.name} in its share of step {step}.\n"
            f"{failure.text}",
            where=source.where(),
            hint="Set num_workers_per_csx=1 and num_csx=1 to run the loader in this process, such as in a debugger.",
        )

    def count(self, samples: int) -> None:
        """Do nothing. Workers count their samples themselves."""

    def states(self) -> list[Any]:
        """Return the state of each worker's loader after the current step, and discard older states."""
        present = [states[self._step] for states in self._states]
        for states in self._states:
            # States of past steps are not needed again, and would accumulate over a run.
            for step in [s for s in states if s <= self._step]:
                del states[step]
        return present

    def close(self) -> None:
        """Stop the worker processes and release the shared memory."""
        self._crew.close()
        shared_ring.close_rings(self._memories)


def _tensors_and_arrays(batch: Any) -> list[tuple[Tensor, np.ndarray]]:
    return [(t, t.array()) for _, t in flatten(batch)]


def _make_slot_layout(batch: Any, samples: int) -> shared_ring.SlotLayout:
    """Return the slot layout of a part with `samples` samples of `batch`.

    Shapes differ only in the first dimension. Scalars of the batch remain scalars.
    """
    return shared_ring.SlotLayout(
        tuple(((samples, *a.shape[1:]) if a.ndim else (), a.dtype.str) for _, a in _tensors_and_arrays(batch))
    )
