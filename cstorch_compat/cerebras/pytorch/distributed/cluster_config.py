"""Configuration of the cluster job: `cerebras.pytorch.distributed.ClusterConfig`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.run import setting_checks as checks
from cstorch_compat.run.setting_checks import Check


@dataclass
class ClusterConfig:
    """Settings of the cluster job. A setting is checked whenever it is assigned, in the constructor or later.

    `cstorch_compat.run.settings` lists the settings that have an effect. A value that release 2.10 refuses raises
    ValueError or TypeError.
    """

    CHECKS: ClassVar[Mapping[str, Check]] = {
        "mgmt_address": checks.check_address,
        "num_csx": checks.make_count_check(1),
        "max_wgt_servers": checks.make_count_check(0),
        "max_act_per_csx": checks.make_count_check(0),
        "num_workers_per_csx": checks.make_count_check(1),
        "job_labels": checks.check_labels,
        "job_priority": checks.check_priority,
        "job_time_sec": checks.check_seconds,
        "mount_dirs": checks.check_paths,
        "python_paths": checks.check_search_paths,
        "notifications": checks.check_notification_targets,
    }
    """The check function of each field. Fields that are not listed accept any value, as in release 2.10."""

    mgmt_address: str | None = None
    mgmt_namespace: str | None = None
    credentials_path: str | None = None
    num_csx: int = 1
    max_wgt_servers: int = 0
    max_act_per_csx: int = 0
    num_workers_per_csx: int = 1
    cbcore_image: str | None = None
    job_labels: list[str] = field(default_factory=list)
    job_priority: str | int = "p2"
    job_time_sec: int | None = None
    mount_dirs: list[str] = field(default_factory=list)
    python_paths: list[str] = field(default_factory=list)
    automount: bool = True
    mount_all: bool = True
    disable_mount_check: bool = True
    disable_version_check: bool = False
    workflow_id: str | None = None
    notifications: list[Any] = field(default_factory=list)

    def __setattr__(self, name: str, value: Any) -> None:
        check = self.CHECKS.get(name)
        with reraise_as_builtin():
            super().__setattr__(name, check(name, value) if check else value)

    def __hash__(self) -> int:
        # Configuration tools cache backends by their arguments, which must be hashable. A list field has no hash.
        return hash(repr(self))
