"""The function `backend` of releases 1.9 to 2.2, with settings that later became cluster settings or flags."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cstorch_compat.run import process, setting_checks, settings
from cstorch_compat.run.backend import Backend
from lazytensor import random

Defaults = Mapping[str, Mapping[str, Any]]
SETTINGS_1_9: Defaults = {
    "CSX": {"drop_data": False, "max_checkpoints": None},
    "CPU": {"max_checkpoints": None},
    "GPU": {"max_checkpoints": None},
}
SETTINGS_2_0: Defaults = {
    "CSX": {
        "drop_data": False,
        "max_checkpoints": None,
        "log_initialization": True,
        "use_cs_grad_accum": None,
        "micro_batch_size": None,
        "retrace_every_iteration": False,
    },
    "CPU": {"max_checkpoints": None, "mixed_precision": False},
    "GPU": {},
}
SETTINGS_2_2: Defaults = {"CSX": {"retrace_every_iteration": False}, "CPU": {"mixed_precision": False}, "GPU": {}}
"""By release and type of backend: the settings that later releases do not accept, with their defaults."""


def _make_backend_function(settings_of: Defaults) -> Callable[..., Backend]:
    """Return a function `backend` that also accepts older settings.

    `settings_of` maps types of backend to their older settings and the defaults of these. The function sets older
    settings of "CSX" as flags where there is one, before the backend is created, and reports those without effect.
    Other settings go to the current `cstorch.backend`. "WSE" is another name of "CSX". Types are in any case. It raises
    an error for a `max_checkpoints` that is not positive.
    """

    def backend(backend_type: Any, **kwargs: Any) -> Backend:
        """Create the backend of this process by type, such as "CSX" or "CPU". "WSE" is another name of "CSX".

        Older settings are set as flags, or reported as having no effect. Raises the errors of the current
        `cstorch.backend`.
        """
        kind = str(getattr(backend_type, "name", backend_type)).upper()
        kind = "CSX" if kind == "WSE" else kind
        defaults = settings_of.get(kind, {})
        older = {name: value for name, value in kwargs.items() if name in defaults}
        if older.get("max_checkpoints") is not None:
            setting_checks.check_positive("max_checkpoints", older["max_checkpoints"])
        # Set the flags first: they check their values, and a backend cannot be created twice.
        for group, name, value in _map_to_flags(older) if kind == "CSX" else ():
            setattr(getattr(process.RUN.flags, group), name, value)
        settings.note_without_effect("backend", older, defaults)
        return process.make_backend(kind, **{name: value for name, value in kwargs.items() if name not in defaults})

    return backend


def _map_to_flags(older: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield (group, name, value) of the current flags for older backend settings that are present in `older`.

    The micro-batch size is `micro_batch_size` with `use_cs_grad_accum` ("auto" if it is missing or None). Without
    `use_cs_grad_accum` it is None, which does not divide the batch; nothing is yielded if both settings are missing or
    None.
    """
    for name in ("drop_data", "log_initialization", "retrace_every_iteration"):
        if name in older:
            yield "debug", name, older[name]
    # Without gradient accumulation the batch is not divided, whatever the micro-batch size.
    if older.get("use_cs_grad_accum"):
        size = older.get("micro_batch_size")
        yield "performance", "micro_batch_size", ("auto" if size is None else size)
    elif older.get("use_cs_grad_accum") is not None or older.get("micro_batch_size") is not None:
        yield "performance", "micro_batch_size", None


backend_1_9, backend_2_0, backend_2_2 = map(_make_backend_function, (SETTINGS_1_9, SETTINGS_2_0, SETTINGS_2_2))


def manual_seed(seed: int) -> None:
    """Seed the random number generators, as `torch.manual_seed`."""
    random.manual_seed(seed)
