"""Releases 1.9 to 2.2: backends with settings that later moved to the cluster's configuration and to flags."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.run import process
from cstorch_compat.run.backend import Backend
from lazytensor import random

SETTINGS_1_9 = {"CSX": ("drop_data", "max_checkpoints"), "CPU": ("max_checkpoints",), "GPU": ("max_checkpoints",)}
SETTINGS_2_0 = {
    "CSX": (
        "drop_data",
        "max_checkpoints",
        "log_initialization",
        "use_cs_grad_accum",
        "micro_batch_size",
        "retrace_every_iteration",
    ),
    "CPU": ("max_checkpoints", "mixed_precision"),
    "GPU": ("enable_distributed", "main_process_id", "dist_backend", "init_method", "sync_batchnorm"),
}
SETTINGS_2_2 = {**SETTINGS_2_0, "CSX": ("retrace_every_iteration",), "CPU": ("mixed_precision",)}
"""What each type of backend took besides the settings of today. Of it retrace_every_iteration has an effect."""


def _backend(settings: dict[str, tuple[str, ...]]) -> Callable[..., Backend]:
    def backend(backend_type: Any, **kwargs: Any) -> Backend:
        """The backend of this process, made by its type. Raises as in the latest release; WSE is a name of CSX."""
        kind = str(getattr(backend_type, "name", backend_type)).upper()
        kind = "CSX" if kind == "WSE" else kind
        older = settings.get(kind, ())
        # Of the settings that moved elsewhere it alone is a flag with an effect today.
        if kwargs.get("retrace_every_iteration") and kind == "CSX":
            process.RUN.flags.debug.retrace_every_iteration = True
        return process.make_backend(kind, **{k: v for k, v in kwargs.items() if k not in older})

    return backend


backend_1_9, backend_2_0, backend_2_2 = map(_backend, (SETTINGS_1_9, SETTINGS_2_0, SETTINGS_2_2))


def manual_seed(seed: int) -> None:
    """Begin all random numbers anew."""
    random.manual_seed(seed)
