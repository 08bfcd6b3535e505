"""A telemetry client that stores the measurements of a run in memory. They are not sent to a cluster."""

from typing import Any


class TelemetryClient:
    """A store for the latest `max_buffer_size` measurements that a script reports. Nothing is sent.

    `measurements` lists pairs of metrics and labels, oldest first. `mgmt_client` and `max_buffer_seconds` have no
    effect.
    """

    def __init__(self, mgmt_client: Any = None, max_buffer_size: int = 128, max_buffer_seconds: int = 150):
        self.max_buffer_size, self.max_buffer_seconds = max_buffer_size, max_buffer_seconds
        self.measurements: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def push(self, metrics: dict[str, Any], labels: dict[str, Any] | None = None, **_: Any) -> None:
        """Append `metrics` (values by name) with their `labels` to `measurements`.

        The oldest entries beyond the limit are dropped.
        """
        # The number of entries is bounded, because a long run reports measurements in every step.
        self.measurements.append((dict(metrics), dict(labels or {})))
        del self.measurements[: -self.max_buffer_size]

    def __enter__(self) -> "TelemetryClient":
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing. The measurements stay in memory."""
