"""What a worker process does: it calls the input function for itself, and puts its share of a step into its ring."""

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
    """What a streaming worker is told: its number, the cluster, how its loader is made, and where its shares go.

    `checkpoints` are the steps after which the state of a restartable loader is wanted; None for others.
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
        """Become a worker for the rest of the process, and make the loader."""
        added = process_role.add_python_paths(self.cluster)
        if added:
            # Processes that the worker starts find the modules too.
            os.environ["PYTHONPATH"] = os.pathsep.join([*added, *filter(None, [os.environ.get("PYTHONPATH")])])
        process_role.set_role(process_role.Role(self.id, self.cluster))
        return Streamer(self).answer


@dataclass(frozen=True)
class PreparedShare:
    """What a worker says when its loader is there, or a share is: states by step, and from when to when it was at work.

    `turn` counts its shares from 0; it is None for the loader.
    """

    states: dict[int, Any]
    turn: int | None = None
    seconds: tuple[float, float] = (0.0, 0.0)


class Streamer:
    """Shares of batches, in the size that the system takes, whatever size the loader's batches have."""

    def __init__(self, post: StreamerTask):
        self._post, self._supply = post, RepeatedLoader(post.make(), post.loading)
        self._size = post.cluster.shares[post.cluster.system_index(post.id)]
        self._turn = 0
        self._rest: list[np.ndarray] = []
        self._batch_size: int | None = None

    def answer(self, turn: int, slot: int | None) -> WorkerAnswer:
        """Fill a slot with the next share, or with None only say that the loader is there.

        The answer holds a `PreparedShare` with the states, by step, for the checkpoint steps until this worker's next
        share.
        """
        # The first answer covers the steps before the worker's first share, the later ones those up to its next one.
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
        wanted, post = self._post.checkpoints, self._post
        if wanted is None:
            return {}
        # The last turn reaches beyond the run's end.
        steps = range(steps.start, min(steps.stop, post.num_steps))
        return {
            step: self._supply.state(post.id, post.cluster, step + 1, self._turn)
            for step in steps
            if wanted.match(step)
        }

    def _share(self) -> list[np.ndarray]:
        """The next `_size` samples of the loader's batches, which may be larger or smaller."""
        # The loader's batches may have any size, for the input function does not know how many systems there are.
        arrays = self._rest or self._next_arrays()
        while arrays[0].ndim and len(arrays[0]) < self._size:
            arrays = [np.concatenate(pair) for pair in zip(arrays, self._next_arrays(), strict=True)]
        if not arrays[0].ndim or len(arrays[0]) == self._size:
            self._rest = []
            return arrays
        # The beginning of the next share.
        self._rest = [a[self._size :] for a in arrays]
        return [a[: self._size] for a in arrays]

    def _next_arrays(self) -> list[np.ndarray]:
        arrays = [t.array() for _, t in flatten(next(self._supply))]
        sizes = {a.shape[0] if a.ndim else 1 for a in arrays}
        if self._batch_size is not None:
            # Together with the size of the batch before: one size is left if nothing changed.
            sizes.add(self._batch_size)
        if len(sizes) != 1:
            raise DataError(
                f"Only uniform batch sizes are supported in CS runs, but the dataloader returned {sorted(sizes)}",
                hint="Give tensors of one batch size, and use drop_last=True in the DataLoader.",
            )
        self._batch_size = sizes.pop()
        return arrays
