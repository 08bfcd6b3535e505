"""The protocol of data loaders that can resume from a saved position."""

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class RestartableDataLoader(Protocol):
    """The methods that a data loader defines so that a run can resume from a checkpoint."""

    def state_dict(self) -> dict[str, Any]:
        """Return the position of this worker's loader."""

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Continue from a position that `state_dict` returned."""

    def aggregate_state_dict(self, worker_states: list[dict[str, Any]]) -> dict[str, Any]:
        """Return one state that combines those of all workers."""

    def deaggregate_state_dict(self, aggregated_state_dict: dict[str, Any], strict: bool = True) -> dict[str, Any]:
        """Return this worker's part of a combined state."""
