"""Releases 1.9 to 2.2: the settings of the cluster, given to each executor."""

from dataclasses import dataclass, field
from typing import Any

from cstorch_compat.generations.latest.distributed import ClusterConfig
from cstorch_compat.run import process


@dataclass
class CSConfig(ClusterConfig):
    """Settings of a run. Those that ClusterConfig has too are checked as there, and have the same effect."""

    max_wgt_servers: int = 24
    max_act_per_csx: int = 1
    debug_args: Any = None
    transfer_processes: int = 5
    fabric_type_blacklist: list[str] = field(default_factory=list)
    precision_opt_level: int | None = None

    def __post_init__(self) -> None:
        for name in ("job_labels", "mount_dirs", "python_paths"):  # None was their default
            setattr(self, name, getattr(self, name) or [])
        super().__post_init__()

    def take_effect(self, backend: Any) -> None:
        """Be the configuration of a backend, and set the flags that later releases have for the rest.

        Raises as they do for a value that is not allowed.
        """
        backend.cluster_config = self
        if self.precision_opt_level is not None:
            process.RUN.flags.precision.optimization_level = self.precision_opt_level
        process.RUN.flags.performance.transfer_processes = self.transfer_processes
