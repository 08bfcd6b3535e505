"""What scripts of the Model Zoo reached for inside of cbtorch: its settings, and the objects that it tracked."""

from types import SimpleNamespace
from typing import Any

from cstorch_compat.profiling.rates import RateTracker
from cstorch_compat.run.process import RunLocal


class Tracked:
    """Objects by the name of their kind, the outputs of the step, and how fast the run is."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.outputs: dict[str, Any] = {}
        self.full_config: Any = None
        self.num_csx = 1
        self.rate_tracker = RateTracker()

    def track_object(self, obj: Any) -> Any:
        """Remember an object, and give it back."""
        self.objects.append(obj)
        return obj

    def set_num_csx(self, number: int) -> None:
        """Remember a number of systems; there is one here."""
        self.num_csx = number


_tracked = RunLocal(Tracked)
_environment = RunLocal(
    lambda: SimpleNamespace(
        weight_streaming_mode=True, service_workdir=None, compile_dir=None, appliance=True, compile_only=False
    )
)


def state() -> Tracked:
    """What is tracked in this process."""
    return _tracked.value


def env() -> SimpleNamespace:
    """The settings of `initialize`."""
    return _environment.value
