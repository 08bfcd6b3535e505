"""The role of a process in a run: the client, or a worker that streams data to the systems.

If a system has W workers, its first worker feeds steps 0, W, 2W and so on, the second one steps 1, W + 1 and so on.
Each step is fed by one worker of every system. With 4 systems of 2 workers each, workers 0, 2, 4, 6 feed step 0 and
workers 1, 3, 5, 7 feed step 1 (Cerebras documentation, "Creating custom dataloaders"). The batch of the step is the
concatenation of their parts in this order.
"""

import sys
from dataclasses import dataclass, replace
from typing import Any

from lazytensor.core import source
from lazytensor.errors import DataError


class BatchTooSmall(DataError, ValueError):
    """The error for a batch with fewer samples than systems. It is also a ValueError, as in release 2.10."""


class RoleError(DataError, AssertionError):
    """The error for a query in the client that only a worker can answer."""


@dataclass(frozen=True)
class Cluster:
    """The systems and workers of a run.

    - `num_csx`: the number of systems.
    - `workers_per_csx`: the number of workers that feed each system.
    - `shares`: the number of samples of a batch that each system gets; empty before `divide_batch`.
    - `python_paths`: folders in which workers additionally search for modules.
    """

    num_csx: int = 1
    workers_per_csx: int = 1
    shares: tuple[int, ...] = ()
    python_paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Any) -> "Cluster":
        """Return the cluster described by a ClusterConfig or an older CSConfig. Missing or zero numbers count as 1."""
        return cls(
            getattr(config, "num_csx", None) or 1,
            getattr(config, "num_workers_per_csx", None) or 1,
            python_paths=tuple(getattr(config, "python_paths", None) or ()),
        )

    def divide_batch(self, batch_size: int) -> "Cluster":
        """Return the cluster with the shares of a batch of `batch_size` samples.

        If the batch does not divide evenly, the first systems get one sample more. Raises BatchTooSmall if there are
        fewer samples than systems.
        """
        if batch_size < self.num_csx:
            raise BatchTooSmall(
                f"a batch of {batch_size} samples cannot be divided among {self.num_csx} systems",
                where=source.where(),
                hint="Use a larger batch_size or fewer num_csx.",
            )
        least, more = divmod(batch_size, self.num_csx)
        return replace(self, shares=tuple(least + (i < more) for i in range(self.num_csx)))

    @property
    def workers(self) -> int:
        """Return the number of workers of all systems."""
        return self.num_csx * self.workers_per_csx

    def system_index(self, rank: int) -> int:
        """Return the index of the system that the worker `rank` feeds."""
        return rank // self.workers_per_csx

    def workers_for_step(self, step: int) -> range:
        """Return the ranks of the workers that feed `step`, counted from 0: one for each system."""
        # These are the workers with the same local index.
        return range(step % self.workers_per_csx, self.workers, self.workers_per_csx)

    def step_of_turn(self, rank: int, turn: int) -> int:
        """Return the step, counted from 0, that is fed by the `turn`-th part of worker `rank`, counted from 0."""
        return turn * self.workers_per_csx + rank % self.workers_per_csx

    def turns(self, rank: int, num_steps: int) -> int:
        """Return the number of steps of a run of `num_steps` that worker `rank` feeds."""
        # The number of steps from the worker's first one on, divided by the distance of its steps and rounded up.
        return -(-(num_steps - rank % self.workers_per_csx) // self.workers_per_csx)


@dataclass(frozen=True)
class Role:
    """A worker of a cluster, given by its rank."""

    rank: int
    cluster: Cluster

    def batch_size(self, batch_size: int, rank: int | None = None) -> int:
        """Return the number of samples of each batch that worker `rank` streams; this worker if `rank` is None.

        This is the share of the run's batch, whatever `batch_size` is. If the batch was not divided, return
        `batch_size`. Raises ValueError for an invalid rank.
        """
        rank = self.rank if rank is None else rank
        if not 0 <= rank < self.cluster.workers:
            raise ValueError(
                f"Invalid task rank {rank}. Available ranks are: {list(range(self.cluster.workers))}."
                "\n  Pass one of these ranks."
            )
        return self.cluster.shares[self.cluster.system_index(rank)] if self.cluster.shares else batch_size


_role: Role | None = None
"""The current role of this process; None for the client."""


def current_role() -> Role | None:
    """Return the worker role that this process has at the moment, or None for the client."""
    return _role


def set_role(role: Role | None) -> Role | None:
    """Set the role of this process, and return the previous one. None means the client, the process of the script."""
    global _role
    # A worker process sets its role once; the client takes a role only while its loader runs.
    before, _role = _role, role
    return before


class role_context:
    """A context manager in which this process has a role.

    A worker role adds its cluster's `python_paths` to `sys.path`.
    """

    __slots__ = ("_added", "_role")

    def __init__(self, role: Role | None):
        self._role = role
        self._added: list[str] = []

    def __enter__(self) -> None:
        self._added = add_python_paths(self._role.cluster) if self._role is not None else []
        self._role = set_role(self._role)

    def __exit__(self, *error: object) -> None:
        set_role(self._role)
        for path in self._added:
            sys.path.remove(path)


def add_python_paths(cluster: Cluster) -> list[str]:
    """Insert the `python_paths` of a cluster into `sys.path` after its first entry. Return the paths that were added.

    Paths that `sys.path` contains already are left out.
    """
    added = [path for path in cluster.python_paths if path not in sys.path]
    # Python also inserts the folders of PYTHONPATH after the script's folder.
    sys.path[1:1] = added
    return added


def streaming_rank() -> int:
    """Return the rank of this worker. Raises RoleError in the client, as the original does."""
    if _role is None:
        raise RoleError(
            "Ordinal 0 is not a streamer: this is the client, which calls the input function too",
            where=source.where(),
            hint="Call the function only if cstorch.distributed.is_streamer() is true, and use 0 otherwise.",
        )
    return _role.rank
