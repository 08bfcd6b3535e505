"""The client of the cluster that takes measurements of a run; there is none, so they are kept here and no more."""

from typing import Any


class TelemetryClient:
    """Keeps the measurements that a script reports, the latest `max_buffer_size` of them. Nothing is sent anywhere."""

    def __init__(self, mgmt_client: Any = None, max_buffer_size: int = 128, max_buffer_seconds: int = 150):
        self.max_buffer_size, self.max_buffer_seconds = max_buffer_size, max_buffer_seconds
        self.measurements: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def push(self, metrics: dict[str, Any], labels: dict[str, Any] | None = None, **_: Any) -> None:
        """Keep measurements by name, and what they belong to."""
        # Bounded as in the original: a run of days measures in every step.
        self.measurements.append((dict(metrics), dict(labels or {})))
        del self.measurements[: -self.max_buffer_size]

    def __enter__(self) -> "TelemetryClient":
        return self

    def __exit__(self, *_: object) -> None:
        """There is nobody to send the rest to."""
