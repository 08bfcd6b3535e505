"""Internals of cbtorch that Model Zoo scripts use: its settings, and the objects that it tracks."""

from types import SimpleNamespace
from typing import Any

from cstorch_compat.profiling.rates import RateTracker
from cstorch_compat.run.process import RunLocal


class Tracked:
    """The tracked objects, step outputs and settings of a run.

    - `objects`: the objects given to `track_object`.
    - `outputs`: outputs of the step by name.
    - `full_config`: free for use by scripts.
    - `num_csx`: the value set by `set_num_csx`, which has no effect.
    - `rate_tracker`: measures samples per second.
    """

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.outputs: dict[str, Any] = {}
        self.full_config: Any = None
        self.num_csx = 1
        self.rate_tracker = RateTracker()

    def track_object(self, obj: Any) -> Any:
        """Append `obj` to `objects`, and return it."""
        self.objects.append(obj)
        return obj

    def set_num_csx(self, number: int) -> None:
        """Store `number` as `num_csx`. It has no effect."""
        self.num_csx = number


_tracked = RunLocal(Tracked)
_environment = RunLocal(
    lambda: SimpleNamespace(
        weight_streaming_mode=True, service_workdir=None, compile_dir=None, appliance=True, compile_only=False
    )
)


def state() -> Tracked:
    """Return the tracked objects of the run."""
    return _tracked.value


def env() -> SimpleNamespace:
    """Return the settings given to `initialize`."""
    return _environment.value
