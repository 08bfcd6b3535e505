"""What a loader offers to a run that goes on where another one stopped."""

from typing import Any, Protocol, runtime_checkable


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
