"""Records that describe the tasks of a cluster: `cerebras.pytorch.distributed.cluster_resolver`."""

import enum
from dataclasses import dataclass


class TaskRole(enum.Enum):
    """An enumeration of task roles."""

    MASTER = "master"
    WORKER = "worker"


@dataclass
class TaskSpec:
    """A task of the cluster.

    - `rank`: its index among all tasks.
    - `local_rank`: its index among the tasks of its system.
    - `wse_id`: the index of that system.
    - `node_name`: the name of the machine it runs on.
    - `roles`: its roles; None becomes an empty list.
    """

    rank: int
    local_rank: int
    wse_id: int
    node_name: str
    roles: list[TaskRole] | None = None

    def __post_init__(self) -> None:
        self.roles = list(self.roles or ())


@dataclass
class ClusterSpec:
    """A list of all tasks, with the rank of this process, the number of systems, and the number of workers for each."""

    tasks: list[TaskSpec]
    rank: int
    num_csx: int
    num_workers_per_csx: int

    def num_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)

    def task(self, rank: int | None = None) -> TaskSpec:
        """Return the task at index `rank`, or the task of this process if `rank` is None."""
        return self.tasks[self.rank if rank is None else rank]

    def filter_tasks_by_role(self, role: TaskRole) -> list[TaskSpec]:
        """Return the tasks that have `role`."""
        return [task for task in self.tasks if role in (task.roles or ())]
