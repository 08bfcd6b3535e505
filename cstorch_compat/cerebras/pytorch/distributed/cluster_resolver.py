"""The tasks of a cluster as records: `cerebras.pytorch.distributed.cluster_resolver`."""

import enum
from dataclasses import dataclass


class TaskRole(enum.Enum):
    """What a task is for."""

    MASTER = "master"
    WORKER = "worker"


@dataclass
class TaskSpec:
    """One task: its number among all and among those of its system, the system, and the machine it runs on."""

    rank: int
    local_rank: int
    wse_id: int
    node_name: str
    roles: list[TaskRole] | None = None

    def __post_init__(self) -> None:
        self.roles = list(self.roles or ())


@dataclass
class ClusterSpec:
    """All tasks, and which of them this process is."""

    tasks: list[TaskSpec]
    rank: int
    num_csx: int
    num_workers_per_csx: int

    def num_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)

    def task(self, rank: int | None = None) -> TaskSpec:
        """The task of a number, or this process's."""
        return self.tasks[self.rank if rank is None else rank]

    def filter_tasks_by_role(self, role: TaskRole) -> list[TaskSpec]:
        """The tasks that are for something."""
        return [task for task in self.tasks if role in (task.roles or ())]
