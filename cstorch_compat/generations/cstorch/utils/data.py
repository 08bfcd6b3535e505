"""What `cerebras.pytorch.utils.data` offers."""

import sys
from typing import Any, Protocol, runtime_checkable

from cstorch_compat.data import DataExecutor, DataLoader
from cstorch_compat.data.place import DataLoaderCheckpoint
from cstorch_compat.data.sampler import DistributedSampler
from cstorch_compat.data.step_ranges import Schedule
from cstorch_compat.data.synthetic import SyntheticDataset, compute_num_steps
from cstorch_compat.names import manifest

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
