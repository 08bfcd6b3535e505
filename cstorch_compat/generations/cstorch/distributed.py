"""What `cerebras.pytorch.distributed` offers: the description of the cluster, and the roles in a run."""

import pathlib
import sys
from dataclasses import dataclass, field
from typing import NoReturn

from cstorch_compat import manifest

_COUNTS = ("num_csx", "max_wgt_servers", "max_act_per_csx", "num_workers_per_csx")
_PRIORITIES = ("p1", "p2", "p3")


@dataclass
class ClusterConfig:
    """Settings of the cluster job. They are checked as by the original, and have no effect here."""

    mgmt_address: str | None = None
    mgmt_namespace: str | None = None
    credentials_path: str | None = None
    num_csx: int = 1
    max_wgt_servers: int = 0
    max_act_per_csx: int = 0
    num_workers_per_csx: int = 1
    cbcore_image: str | None = None
    job_labels: list[str] = field(default_factory=list)
    job_priority: str = "p2"
    job_time_sec: int | None = None
    mount_dirs: list[str] = field(default_factory=list)
    python_paths: list[str] = field(default_factory=list)
    automount: bool = True
    mount_all: bool = True
    disable_mount_check: bool = True
    disable_version_check: bool = False
    workflow_id: str | None = None
    notifications: list = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 0):
                raise ValueError(f"{name} must be a non-negative integer or None. Got {value}")
        if self.job_priority not in _PRIORITIES:
            raise ValueError(f"job_priority must be one of {list(_PRIORITIES)}. Got {self.job_priority}")
        for label in self.job_labels or ():
            if "=" not in label:
                raise ValueError(f"job_labels are given as key=value. Got {label}")
        for folder in self.mount_dirs or ():
            if not pathlib.Path(folder).is_dir():
                raise ValueError(f"mount_dirs: there is no directory {folder}")


def is_streamer() -> bool:
    """Whether this process streams data: the client does, since workers run in it."""
    return True


def is_receiver() -> bool:
    """Whether this process receives results."""
    return True


def is_master_ordinal(local: bool = False) -> bool:
    """Whether this is the first process."""
    return True


def get_ordinal() -> int:
    """The number of this process."""
    return 0


def get_streaming_rank() -> int:
    """The number of this worker."""
    return 0


def num_streamers() -> int:
    """How many workers stream data."""
    return 1


def num_receivers() -> int:
    """How many processes receive results."""
    return 1


def num_tasks() -> int:
    """How many processes there are."""
    return 1


def get_streaming_batch_size(effective_batch_size: int) -> int:
    """The share of the batch that this worker streams."""
    return effective_batch_size


def get_worker_state() -> NoReturn:
    """The state of the input workers; there are none. Raises RuntimeError."""
    raise RuntimeError(
        "Unable to fetch CSX Worker state: `cstorch.distributed.get_worker_state()` must only be called once inside "
        "your dataloader's implementation of `state_dict`."
    )


manifest.explain("cerebras.pytorch.distributed", sys.modules[__name__])
