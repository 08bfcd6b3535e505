"""The description of the cluster, and the roles in a run: `cerebras.pytorch.distributed`."""

import pathlib
from dataclasses import dataclass, field
from typing import Any

from cstorch_compat.data import place, role
from cstorch_compat.data.place import DataLoaderCheckpoint
from cstorch_compat.names.builtin_errors import as_builtin

_COUNTS = ("num_csx", "max_wgt_servers", "max_act_per_csx", "num_workers_per_csx")
_PRIORITIES = {"p1": 2, "p2": 3, "p3": 4}
"""The numbers that the job service knows them by."""


@dataclass
class ClusterConfig:
    """Settings of the cluster job, checked as by the original.

    `num_csx` and `num_workers_per_csx` say how many worker processes stream data; the others have no effect here.
    """

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

    def __hash__(self) -> int:
        # Configuration tools keep backends by their arguments; lists among the fields have no hash of their own.
        return hash(repr(self))

    def __post_init__(self) -> None:
        # None is one system, as the original reads it back.
        self.num_csx = 1 if self.num_csx is None else self.num_csx
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 0):
                raise ValueError(f"{name} must be a non-negative integer or None. Got {value}")
        if self.job_time_sec is not None and (not isinstance(self.job_time_sec, int) or self.job_time_sec < 1):
            raise ValueError(f"job_time_sec must be a positive integer or None. Got {self.job_time_sec}")
        if self.job_priority not in _PRIORITIES:
            raise ValueError(f"Invalid job priority value: {self.job_priority} (expected one of {list(_PRIORITIES)})")
        # The words are for users; reading the field back gives the number, as in the original.
        self.job_priority = _PRIORITIES[str(self.job_priority)]
        for label in self.job_labels or ():
            if "=" not in label:
                raise ValueError(
                    f"{label!r} is an invalid label. Expecting the label key and the label value to be separated by a "
                    "single equal sign(=) character."
                )
        for folder in self.mount_dirs or ():
            if not pathlib.Path(folder).is_dir():
                raise ValueError(f"mount_dirs: there is no directory {folder}")


def is_streamer() -> bool:
    """Whether this process, which calls the input function at the moment, is a worker."""
    return role.current() is not None


def is_receiver() -> bool:
    """Whether this process receives results: the client does."""
    return role.current() is None


def is_master_ordinal(local: bool = False) -> bool:
    """Whether this process is the client."""
    return role.current() is None


def get_ordinal() -> int:
    """The number of this worker; 0 of the client."""
    worker = role.current()
    return 0 if worker is None else worker.rank


def get_streaming_rank() -> int:
    """The number of this worker among those of all systems. Raises AssertionError in the client."""
    with as_builtin():
        return role.streaming_rank()


def num_streamers() -> int:
    """How many workers stream data, as a worker knows it; 0 in the client."""
    worker = role.current()
    return 0 if worker is None else worker.cluster.workers


def num_receivers() -> int:
    """How many processes receive results, as the client knows it; 0 in a worker."""
    return int(role.current() is None)


def num_tasks() -> int:
    """How many workers there are, as a worker knows it; 1 in the client."""
    return num_streamers() or 1


def get_streaming_batch_size(effective_batch_size: int, global_rank: int | None = None) -> int:
    """The share of the batch that this worker, or the one named, streams; the whole batch in the client.

    Raises TypeError for what is no number of samples.
    """
    if not isinstance(effective_batch_size, int):
        raise TypeError(
            f"Expected effective batch size to be an integer, but got type {type(effective_batch_size)} with value "
            f"{effective_batch_size}."
        )
    worker = role.current()
    return effective_batch_size if worker is None else worker.batch_size(effective_batch_size, global_rank)


def get_worker_state() -> DataLoaderCheckpoint:
    """What this worker has streamed. Raises RuntimeError except for one call inside a loader's `state_dict`."""
    return place.claim()
