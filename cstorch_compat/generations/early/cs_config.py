"""The class CSConfig of releases 1.9 to 2.2: settings of the cluster that are passed to each executor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cstorch_compat.cerebras.pytorch.distributed.cluster_config import ClusterConfig
from cstorch_compat.run import process
from cstorch_compat.run import setting_checks as checks
from cstorch_compat.run.setting_checks import Check
from lazytensor.core import source
from lazytensor.errors import StateError


def _check_optional_level(name: str, value: Any) -> int | None:
    return None if value is None else checks.check_level(name, value)


def _check_transfer_processes(name: str, value: Any) -> int:
    return 5 if value is None else checks.check_positive(name, value)


@dataclass
class CSConfig(ClusterConfig):
    """Settings of a run. They are checked as in ClusterConfig, except that `mgmt_address` is not checked."""

    CHECKS: ClassVar[Mapping[str, Check]] = {
        **{name: check for name, check in ClusterConfig.CHECKS.items() if name != "mgmt_address"},
        "max_wgt_servers": checks.make_count_check(24),
        "max_act_per_csx": checks.make_count_check(1),
        "transfer_processes": _check_transfer_processes,
        "precision_opt_level": _check_optional_level,
    }

    max_wgt_servers: int = 24
    max_act_per_csx: int = 1
    debug_args: Any = None
    transfer_processes: int = 5
    fabric_type_blacklist: list[str] = field(default_factory=list)
    precision_opt_level: int | None = None

    def take_effect(self, backend: Any) -> None:
        """Set this configuration as that of `backend`, and set the current flags for the fields that became flags.

        Raises StateError if the backend has executed a loop with another number of systems or workers.
        """
        before = backend.cluster_config or CSConfig()
        for name in ("num_csx", "num_workers_per_csx") if backend.loops else ():
            if getattr(self, name) != getattr(before, name):
                raise StateError(
                    f"{name} is {getattr(self, name)}, but the first execution had {getattr(before, name)}",
                    where=source.where(),
                    hint="Give all executions of a process the same CSConfig.",
                )
        backend.cluster_config = self
        if self.precision_opt_level is not None:
            process.RUN.flags.precision.optimization_level = self.precision_opt_level
        process.RUN.flags.performance.transfer_processes = self.transfer_processes
