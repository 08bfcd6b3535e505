"""Which part a process plays in a run: the client, or one of the workers that stream data to the systems.

Of W workers of a system the first feeds steps 0, W, 2W ..., the next one steps 1, W + 1 and so on. A step takes from
one worker of every system: with 4 systems of 2 workers each, step 0 takes from the workers 0, 2, 4, 6 and step 1 from
1, 3, 5, 7 (Cerebras documentation, "Creating custom dataloaders"). The batch of the step is what they give, in this
order.
"""

import sys
from dataclasses import dataclass, replace
from typing import Any

from lazytensor.core import source
from lazytensor.errors import DataError


class BatchTooSmall(DataError, ValueError):
    """A batch with fewer samples than systems. Release 2.10 raises a ValueError."""


class RoleError(DataError, AssertionError):
    """Something was asked of the client that only a worker knows."""


@dataclass(frozen=True)
class Cluster:
    """How many systems there are, how many workers feed each, and how many samples of a batch each system takes.

    Workers look for modules in `python_paths`, in addition to the client's folders.
    """

    num_csx: int = 1
    workers_per_csx: int = 1
    shares: tuple[int, ...] = ()
    python_paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Any) -> "Cluster":
        """The cluster of a ClusterConfig or of an older CSConfig; None and 0 stand for 1."""
        return cls(
            getattr(config, "num_csx", None) or 1,
            getattr(config, "num_workers_per_csx", None) or 1,
            python_paths=tuple(getattr(config, "python_paths", None) or ()),
        )

    def divide_batch(self, batch_size: int) -> "Cluster":
        """The cluster with a batch divided; the first systems take one sample more where it does not divide evenly.

        Raise BatchTooSmall for fewer samples than systems.
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
        """The number of all workers."""
        return self.num_csx * self.workers_per_csx

    def system_index(self, rank: int) -> int:
        """The system that a worker feeds."""
        # Workers are numbered system by system.
        return rank // self.workers_per_csx

    def workers_for_step(self, step: int) -> range:
        """The workers that feed a step, counted from 0."""
        # One of each system: those with the same place among the workers of theirs.
        return range(step % self.workers_per_csx, self.workers, self.workers_per_csx)

    def step_of_turn(self, rank: int, turn: int) -> int:
        """The step, counted from 0, that takes what a worker gives when it is its turn for the `turn`-th time."""
        return turn * self.workers_per_csx + rank % self.workers_per_csx

    def turns(self, rank: int, num_steps: int) -> int:
        """How often it is a worker's turn in a run."""
        # Steps that are left from the worker's first one on, divided by the distance of its turns and rounded up.
        return -(-(num_steps - rank % self.workers_per_csx) // self.workers_per_csx)


@dataclass(frozen=True)
class Role:
    """A worker of a cluster."""

    rank: int
    cluster: Cluster

    def batch_size(self, batch_size: int, rank: int | None = None) -> int:
        """The share of a batch that a worker, this one if none is named, streams.

        It is that of the run's batch, whatever `batch_size` says; only one system takes the whole of it.
        """
        rank = self.rank if rank is None else rank
        if not 0 <= rank < self.cluster.workers:
            raise ValueError(f"Invalid task rank {rank}. Available ranks are: {list(range(self.cluster.workers))}.")
        return self.cluster.shares[self.cluster.system_index(rank)] if self.cluster.shares else batch_size


_role: Role | None = None


def current_role() -> Role | None:
    """The worker that this process is, or stands for at the moment; None in the client."""
    return _role


def set_role(role: Role | None) -> Role | None:
    """Play a role from now on; returns the one before."""
    global _role
    # A worker process becomes its role for good; the client plays one only while its loader is at work.
    before, _role = _role, role
    return before


class role_context:
    """A block in which a role is played. A worker finds modules in the `python_paths` of its cluster."""

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
    """Let this process find modules in the `python_paths` of a cluster. Return the paths that were added."""
    added = [path for path in cluster.python_paths if path not in sys.path]
    # After the script's own folder, which is where Python puts the folders of PYTHONPATH.
    sys.path[1:1] = added
    return added


def streaming_rank() -> int:
    """The number of the worker. Raises RoleError in the client, as the original does."""
    if _role is None:
        raise RoleError(
            "Ordinal 0 is not a streamer: this is the client, which calls the input function too",
            where=source.where(),
            hint="Ask only where cstorch.distributed.is_streamer() is true, and use 0 otherwise.",
        )
    return _role.rank
