"""The worker process of a run: it creates a loader and writes its parts of the batches into its ring of slots."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cstorch_compat.cerebras.pytorch.utils.data import process_role
from cstorch_compat.cerebras.pytorch.utils.data.repeated_loader import RepeatedLoader
from cstorch_compat.cerebras.pytorch.utils.data.shared_ring import Memory, SlotLayout
from cstorch_compat.cerebras.pytorch.utils.step_ranges import Schedule
from cstorch_compat.files.tree import flatten
from cstorch_compat.profiling import spans
from lazytensor.data.worker import WorkerAnswer
from lazytensor.errors import DataError


@dataclass(frozen=True)
class StreamerTask:
    """The configuration of a worker process.

    - `id`: the rank of the worker.
    - `cluster`: the cluster, with the shares of the batch.
    - `make`: the function that returns the loader.
    - `loading`: the state to load, as in `RepeatedLoader`.
    - `checkpoints`: the steps after which the state of a restartable loader is needed, or None.
    - `num_steps`: the number of steps of the run.
    - `layout`, `memory`: the layout and the memory of the ring.
    """

    id: int
    cluster: process_role.Cluster
    make: Callable[[], Any]
    loading: tuple[Any, bool] | None
    checkpoints: Schedule | None
    num_steps: int
    layout: SlotLayout
    memory: Memory

    def begin(self) -> Callable[[int, Any], WorkerAnswer]:
        """Set the role of this process, create the loader, and return the function that answers the client's requests.

        The cluster's `python_paths` are added to `sys.path` and to the variable PYTHONPATH.
        """
        added = process_role.add_python_paths(self.cluster)
        if added:
            # Processes that the worker starts inherit the variable.
            os.environ["PYTHONPATH"] = os.pathsep.join([*added, *filter(None, [os.environ.get("PYTHONPATH")])])
        process_role.set_role(process_role.Role(self.id, self.cluster))
        return Streamer(self).answer


@dataclass(frozen=True)
class PreparedShare:
    """The answer of a worker after it has created its loader or a part of a batch.

    - `states`: loader states by step.
    - `turn`: the number of the part, counted from 0; None for the loader.
    - `seconds`: the start and end of the work, by `spans.clock`.
    """

    states: dict[int, Any]
    turn: int | None = None
    seconds: tuple[float, float] = (0.0, 0.0)


class Streamer:
    """A producer of batch parts of the size that the system needs, whatever the size of the loader's batches."""

    def __init__(self, post: StreamerTask):
        self._post, self._supply = post, RepeatedLoader(post.make(), post.loading)
        self._size = post.cluster.shares[post.cluster.system_index(post.id)]
        self._turn = 0
        self._rest: list[np.ndarray] = []
        self._batch_size: int | None = None

    def answer(self, turn: int, slot: int | None) -> WorkerAnswer:
        """Write the next part of a batch into `slot` of the shared memory, or only report the loader if `slot` is None.

        `turn` is returned in the answer unchanged. The answer holds a `PreparedShare` with the loader states for the
        checkpoint steps until this worker's next part. If `slot` is None, these are the steps before its first part.
        """
        # The first answer covers the steps before this worker's first part, each later one those up to its next part.
        first = self._post.cluster.step_of_turn(self._post.id, self._turn)
        if slot is None:
            return WorkerAnswer(turn, PreparedShare(self._states(range(first))))
        began = spans.clock()
        self._post.layout.fill(self._post.memory, slot, self._share())
        ended, turn_done = spans.clock(), self._turn
        self._turn += 1
        self._supply.samples += self._size
        states = self._states(range(first, first + self._post.cluster.workers_per_csx))
        return WorkerAnswer(turn, PreparedShare(states, turn_done, (began, ended)))

    def _states(self, steps: range) -> dict[int, Any]:
        """Return the loader's state for each checkpoint step in `steps`, by step, counted from 0.

        The result is empty without checkpoints. Steps past the end of the run are left out.
        """
        wanted, post = self._post.checkpoints, self._post
        if wanted is None:
            return {}
        # The range of the last part extends past the end of the run.
        steps = range(steps.start, min(steps.stop, post.num_steps))
        return {
            step: self._supply.state(post.id, post.cluster, step + 1, self._turn)
            for step in steps
            if wanted.match(step)
        }

    def _share(self) -> list[np.ndarray]:
        """Return arrays with the next `_size` samples, joined from or cut out of the loader's batches.

        Samples of a batch that are left over are stored for the next call. Batches of scalars are returned as they are.
        """
        # The loader's batches may have any size, because the input function need not consider the number of systems.
        arrays = self._rest or self._next_arrays()
        while arrays[0].ndim and len(arrays[0]) < self._size:
            arrays = [np.concatenate(pair) for pair in zip(arrays, self._next_arrays(), strict=True)]
        if not arrays[0].ndim or len(arrays[0]) == self._size:
            self._rest = []
            return arrays
        # Keep the remaining samples for the next part.
        self._rest = [a[self._size :] for a in arrays]
        return [a[: self._size] for a in arrays]

    def _next_arrays(self) -> list[np.ndarray]:
        """Return the arrays of the loader's next batch. Raises DataError if its tensors differ in batch size.

        The batch size must also be that of the previous batch.
        """
        arrays = [t.array() for _, t in flatten(next(self._supply))]
        sizes = {a.shape[0] if a.ndim else 1 for a in arrays}
        if self._batch_size is not None:
            # Include the size of the previous batch: if nothing changed, one size remains.
            sizes.add(self._batch_size)
        if len(sizes) != 1:
            raise DataError(
                f"Only uniform batch sizes are supported in CS runs, but the dataloader returned {sorted(sizes)}",
                hint="Give tensors of one batch size, and use drop_last=True in the DataLoader.",
            )
        self._batch_size = sizes.pop()
        return arrays
