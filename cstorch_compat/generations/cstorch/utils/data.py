"""What `cerebras.pytorch.utils.data` offers."""

import sys
from typing import Any, Protocol, runtime_checkable

from cstorch_compat import manifest
from cstorch_compat.common.data import DataExecutor, DataLoader
from cstorch_compat.common.data.place import DataLoaderCheckpoint
from cstorch_compat.common.data.schedule import Schedule
from cstorch_compat.common.sampler import DistributedSampler
from cstorch_compat.common.synthetic import SyntheticDataset, compute_num_steps

__all__ = [
    "DataExecutor",
    "DataLoader",
    "DataLoaderCheckpoint",
    "DistributedSampler",
    "RestartableDataLoader",
    "Schedule",
    "SyntheticDataset",
    "compute_num_steps",
]


@runtime_checkable
class RestartableDataLoader(Protocol):
    """What a loader has to define so that a run can go on where another one stopped."""

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is."""

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Go on from there."""

    def aggregate_state_dict(self, worker_states: list[dict[str, Any]]) -> dict[str, Any]:
        """One state from those of all workers."""

    def deaggregate_state_dict(self, aggregated_state_dict: dict[str, Any], strict: bool = True) -> dict[str, Any]:
        """This worker's part of a common state."""


manifest.explain("cerebras.pytorch.utils.data", sys.modules[__name__])
